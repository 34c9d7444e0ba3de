"""The family of the scale matrices by a criterion, without a whole fit for each of the fourteen.

Two leading families try all starts; the others begin at the memberships where these ended, which
one M step of their own turns into their parameters. All stop early, and only the best go on to the
full tolerance, each from its own end or from the memberships of the others. With many objects they
compete on a sample.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from ...array.rows import Rows, one_blas_thread
from ...array.validation import as_generator
from ...engine import acceleration, loop
from ...engine.base import weight_of
from ...engine.mixture_features import FeatureMixture
from . import kernel

__all__ = ["FamilySearch"]

# Families whose parameters can be extrapolated without leaving the family.
CLOSED = ("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VVV")
LEADING = (("EEE", "VVV"), ("EEI", "VVI"))  # the second pair where no matrix may be full
DRAFT = 5  # steps from every leading family's end, after which the better one goes on
LOOSE_TOL = 1e-4  # gain for each object at which candidates stop, as in the Gaussian search
LOOSE_STEPS = 60
CLOSE = 10.0  # criterion behind the best up to which candidates go on to the full tolerance
POLISHED = 4  # that go on at most
N_DONORS = 2  # best candidates from whose memberships these may go on instead of their own

Setting = dict[str, Any]


class FamilySearch(FeatureMixture):
    """Student mixtures as far as several families are compared."""

    _partitions_: dict[tuple[int, int], Any]  # first partitions that all families share

    @abstractmethod
    def _rule_of(self) -> kernel.Rule:
        """What the present setting fixes, in inner coordinates."""

    def _fitted(self, rows: Rows, settings: list[Setting]) -> Iterator[tuple[Setting, loop.Run]]:
        for _, group in groupby(settings, key=lambda setting: setting["n_clusters"]):
            several = list(group)
            if len(several) == 1:
                yield from super()._fitted(rows, several)
            else:
                yield from zip(several, self._of_one_size(rows, several), strict=True)

    @one_blas_thread()
    def _of_one_size(self, rows: Rows, settings: list[Setting]) -> list[loop.Run]:
        """A run for every setting, those of one number of clusters."""
        seeds: Any = as_generator(self.random_state).integers(2**63, size=self.n_init)
        few, self._partitions_ = rows, {}
        if rows.shape[0] > 2 * self._screen:
            few = rows.sample(self._screen, np.random.default_rng(seeds[0]))
        runs = self._candidates(few, settings, seeds)
        del self._partitions_
        ranks = [self._rank(few, setting, run) for setting, run in zip(settings, runs, strict=True)]
        order = sorted(range(len(runs)), key=lambda i: ranks[i])
        failed, least = ranks[order[0]]
        donors = self._donors(few, [runs[i] for i in order[:N_DONORS]])
        for i in order[:POLISHED]:
            if ranks[i][0] == failed and ranks[i][1] <= least + CLOSE:
                self._setting = settings[i]
                state = self._best_draft(few, donors, [runs[i].state])
                runs[i] = self._run(rows, state, weight_of(rows))
        return runs

    def _candidates(self, rows: Rows, settings: list[Setting], seeds: np.ndarray) -> list[loop.Run]:
        """Every setting with a run that is nearly at its end."""
        total, max_iter = weight_of(rows), min(LOOSE_STEPS, self.max_iter)
        names = [setting["covariance_type"] for setting in settings]
        leading = LEADING[0] if "EEE" in names else LEADING[1]
        runs: dict[str, loop.Run] = {}
        for name in leading:
            if name in names:
                self._setting = settings[names.index(name)]
                runs[name] = loop.best(self._runs(rows, seeds, total), larger=True)
        donors = self._donors(rows, list(runs.values()))
        for name, setting in zip(names, settings, strict=True):
            if name not in runs:
                self._setting = setting
                state = self._best_draft(rows, donors, [])
                runs[name] = self._climb(rows, state, total, max_iter, LOOSE_TOL)
        return [runs[name] for name in names]

    def _donors(self, rows: Rows, runs: list[loop.Run]) -> list[tuple[kernel.Stats, kernel.State]]:
        """Ends of runs with full matrices, and the statistics there."""
        states = [run.state._replace(scales=kernel.matrices(run.state)) for run in runs]
        return [(self._sum(rows, state), state) for state in states]

    def _best_draft(
        self,
        rows: Rows,
        donors: list[tuple[kernel.Stats, kernel.State]],
        own: list[kernel.State],
    ) -> kernel.State:
        """The best state of the present setting, a few steps on from the donors' memberships or
        from states of its ``own``.
        """
        rule, step, drafts = self._rule_of(), self._step(rows), []
        for state in [*own, *(_carried(*donor, rule) for donor in donors)]:
            value = -np.inf
            for _ in range(DRAFT):
                state, value = step(state)
            drafts.append((self._is_sound(rows, state), value, state))
        return max(drafts, key=lambda draft: draft[:2])[2]

    def _rank(self, rows: Rows, setting: Setting, run: loop.Run) -> tuple[bool, float]:
        self._setting = setting
        reason = self._failure(rows, run.state)
        return bool(reason), getattr(self._candidate(rows, run.state), self.criterion)

    def _run(self, rows: Rows, state: Any, total: float) -> loop.Run:
        return self._climb(rows, state, total, self.max_iter, self.tol)

    def _climb(
        self, rows: Rows, state: kernel.State, total: float, max_iter: int, tol: float
    ) -> loop.Run:
        """EM from a state, extrapolated; what leaves the family by that is brought back."""
        step, rule = self._step(rows), self._rule_of()
        # In float32, rounding alone moves the objective by so much.
        tol = max(tol, 5e-7) if "float32" in str(rows.dtype) else tol

        def unpack(vector: np.ndarray, like: kernel.State) -> kernel.State:
            state = kernel.unpack(vector, like)
            return state if rule.family in CLOSED else kernel.projected(state, rule)

        accelerated = acceleration.Squarem.accelerate(step, kernel.pack, unpack, larger=True)
        run = loop.iterate(
            accelerated, acceleration.Squarem(state), max_iter=max_iter, tol=tol, relative_to=total
        )
        return run._replace(state=run.state.settled)


def _carried(stats: kernel.Stats, state: kernel.State, rule: kernel.Rule) -> kernel.State:
    """The M step of another family with the statistics of a state."""
    if not rule.full:
        diagonals = np.diagonal(stats.scatter, axis1=1, axis2=2).copy()
        stats = stats._replace(scatter=diagonals)
        state = state._replace(scales=np.diagonal(state.scales, axis1=1, axis2=2).copy())
    return kernel.update(stats, state, rule)
