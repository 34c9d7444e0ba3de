"""What mixtures with a density share: fits with what the user knows, and a search over candidates.

A *setting* is what a candidate fixes: the number of clusters and, in some models, a shape.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..array.docs import documented
from ..array.rows import Rows, add
from ..array.types import Array, ArrayLike, Weights
from ..array.validation import check_choice, check_n_clusters, check_number
from ..array.warn import warn
from ..data.constraints import Known, matching
from ..data.features import observed_only
from .base import weight_of
from .growth import first_sizes, more_sizes
from .kept import publish_kept
from .linked import LinkedRows, free_weights
from .loop import Run
from .mixture_fitted import FittedDensity
from .model_search import ModelCandidate, ModelSearch

__all__ = ["DensityMixture"]

COLLAPSED = "a cluster holds too few objects for its shape, or has no width"


class DensityMixture(FittedDensity):
    """Mixtures fitted by maximum likelihood or by a maximum of the posterior.

    Hooks find what to fit in ``_setting``, not in the parameters, which may say "auto".
    ``_summarize`` takes memberships (b, k) that are given instead of those of its state. A state
    is a NamedTuple of arrays, each with the clusters along its first axis.
    """

    chooses_n_clusters = "auto"
    _larger = True
    _relative = False
    _screen = 8192
    _draft_steps = 0  # steps of every start before the best go on; 0: all go on
    _finalists = 3

    @abstractmethod
    def _tabulate(self) -> None:
        """Set ``selection_`` where the number of clusters was searched for."""

    @abstractmethod
    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> Any:
        """A first state; ``turn`` is the number of the start, so that kinds of starts can
        alternate.
        """

    @abstractmethod
    def _summarize(self, block: Any, weights: Any, state: Any, given: Weights = None) -> Any:
        """Statistics of a block at a state, or with memberships (b, k) that are given."""

    def _is_sound(self, rows: Rows, state: Any) -> bool:
        """Whether no cluster has collapsed."""
        return True

    def _failure(self, rows: Rows, state: Any) -> str:
        """Why a candidate must not be chosen, or "" if it may. A single candidate is always
        accepted.
        """
        return "" if self._is_sound(rows, state) else COLLAPSED

    def _settings(self, sizes: list[int]) -> list[dict[str, Any]]:
        """Candidates, the simplest first; models with shapes add theirs."""
        return [{"n_clusters": k} for k in sizes]

    def _sizes(self, rows: Rows) -> list[int]:
        wanted, n_objects = self.n_clusters, rows.shape[0]
        if isinstance(wanted, str):
            check_choice(wanted, "n_clusters", ("auto",))
            return first_sizes(rows.X, self.max_clusters, rows.columns[0])
        if not isinstance(wanted, Iterable):
            return [check_n_clusters(wanted, n_objects)]
        sizes = [check_n_clusters(k, n_objects) for k in wanted]
        if not sizes:
            raise ValueError("n_clusters is an empty sequence: give at least one number to try")
        return sizes

    def _more_sizes(
        self, failed: bool, best: dict[str, Any], tried: set[int], n_objects: int
    ) -> list[int]:
        """Numbers that "auto" tries next; none where even the best candidate has collapsed."""
        if failed or not isinstance(self.n_clusters, str):
            return []
        return more_sizes(best["n_clusters"], tried, n_objects, self.max_clusters)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.criterion, "criterion", ("bic", "icl", "aic"))
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)

    @documented
    @observed_only
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn the mixture.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            One object per row; NaN means missing.
        %(partial_labels)s
        %(sample_weight)s
        %(mixture_links)s

        Returns
        -------
        self
        """
        self._forget()
        self._check_parameters()
        self._check_room(X)
        rows = self._prepare(X, sample_weight)
        sizes, table, best = self._sizes(rows), [], None
        known = Known.of(must_link, cannot_link, y, rows, max(sizes))
        if known.labels is not None:  # fewer clusters than known labels have no place for them
            sizes = [k for k in sizes if k > known.labels.max()]
        self._linked_ = LinkedRows.of(known, rows)
        rows = rows if self._linked_ is None else self._linked_.apart(rows)
        while sizes:
            for setting, run in self._fitted(rows, self._settings(sizes)):
                self._setting = setting
                tried, reason = self._candidate(rows, run.state), self._failure(rows, run.state)
                table.append(tried.failed(reason) if reason else tried)
                # A failed candidate is chosen only where all others failed too.
                value = (bool(reason), getattr(tried, self.criterion))
                if best is None or value < best[0]:
                    best = (value, setting, run, tried)
            assert best is not None
            tried_sizes = {row.setting["n_clusters"] for row in table}
            sizes = self._more_sizes(best[0][0], best[1], tried_sizes, rows.shape[0])
        assert best is not None
        _, self._setting, run, candidate = best
        self._finish(rows, run if known.labels is not None else self._ordered(run))
        self.search_ = ModelSearch(table, self.criterion)
        self.log_likelihood_ = candidate.log_likelihood
        self._tabulate()
        if self._linked_ is None and all(row.setting["n_clusters"] > 1 for row in table):
            self._warn_if_one_is_enough(rows, candidate)
        del self._linked_
        publish_kept(self, known)
        return self

    def _fitted(
        self, rows: Rows, settings: list[dict[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], Run]]:
        """Every setting with its best run."""
        for setting in settings:
            self._setting = setting
            yield setting, self._best_run(rows)

    def _sum(self, rows: Rows, state: Any) -> Any:
        linked = self._links_of(rows)
        if linked is None:
            return super()._sum(rows, state)
        ready = self._ready(state)

        def part(block: Array, weights: Weights, free: Weights) -> Any:
            return self._summarize(block, free_weights(len(block), weights, free), ready)

        U, value = self._couple(linked, ready)
        own = linked.sum(U, lambda block, w, U: self._summarize(block, w, ready, U))
        return add(rows.sum(part), own._replace(objective=value))

    def _memberships_of(self, rows: Rows, state: Any) -> np.ndarray:
        U, linked = super()._memberships_of(rows, state), self._links_of(rows)
        if linked is not None:
            U[linked.links.rows] = self._couple(linked, self._ready(state))[0]
        return U

    def _begin(self, rows: Rows, rng: np.random.Generator, turn: int) -> Any:
        """A first state, its clusters in the order of known labels."""
        state, linked = self._start(rows, rng, turn), self._links_of(rows)
        if linked is None or (linked.labels < 0).all():
            return state
        ready = self._ready(state)
        U = linked.rows.map(lambda block, _: self._posterior(block, ready)[0])
        order = matching(U, linked.labels)
        return type(state)(*(part[order] for part in state))

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[Run]:
        """Runs from all starts, or drafts of which the best go on; unsound ones only if all are."""
        firsts = [
            self._begin(rows, np.random.default_rng(seed), turn) for turn, seed in enumerate(seeds)
        ]
        if self._setting["n_clusters"] == 1:
            firsts = firsts[:1]
        if self._draft_steps and len(firsts) > 1:
            step, drafts = self._step(rows), []
            for state in firsts:
                for _ in range(self._draft_steps):
                    state, value = step(state)
                drafts.append((value, state))
            drafts.sort(key=lambda draft: -draft[0])
            firsts = [state for _, state in drafts[: self._finalists]]
        runs = [self._run(rows, state, total) for state in firsts]
        return [run for run in runs if self._is_sound(rows, run.state)] or runs

    def _settings_of_one(self) -> list[dict[str, Any]]:
        """One cluster of the shape that was chosen; models that search for one name several."""
        return [{**self._setting, "n_clusters": 1}]

    def _warn_if_one_is_enough(self, rows: Rows, chosen: ModelCandidate) -> None:
        """Compare with one cluster: structureless data get a warning."""
        mine, values, k = self._setting, [], chosen.setting["n_clusters"]
        for setting in self._settings_of_one():
            self._setting = setting
            run = self._run(rows, self._start(rows, np.random.default_rng(0)), weight_of(rows))
            values.append(self._candidate(rows, run.state).bic)
        self._setting = mine
        if min(values) < chosen.bic:
            warn(
                f"one cluster describes these data better than {k} (BIC {min(values):.1f} against "
                f"{chosen.bic:.1f}, lower is better): the memberships may mean nothing"
            )

    def _outer(self, objective: float | np.ndarray, total: float) -> Any:
        return objective + self._volume

    def _finish(self, rows: Rows, run: Run) -> None:
        self._volume = rows.sum(
            lambda X, w, *_: (float(np.sum(self._log_volumes(X) * (1.0 if w is None else w))),)
        )[0]
        self._dtype = np.float32 if "float32" in str(rows.dtype) else np.float64
        super()._finish(rows, run)

    def _assign(self, block: Array, state: Any, *_: Any) -> np.ndarray:
        return self._posterior(block, state)[0].astype(self._dtype)
