"""What a cluster of a mixture is, and the likelihood of mixtures of such clusters on rows.

A model brings a ``Component``: sums of a block of rows by memberships, parameters from these sums,
the log-density of a block, the number of parameters. ``Likelihood`` climbs by expectation and
maximisation with them; weights, links, labels, blocks of rows, acceleration and interrupts are
written here, once for all mixtures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.rows import Rows, add
from ..array.types import Array, Weights
from ..numerics.distances import softmax_columns
from . import acceleration, loop
from .linked import LinkedRows, free_weights
from .model_search import ModelCandidate

__all__ = ["Component", "Fit", "Likelihood"]

SINGLE = 5e-7  # gain per object that is rounding alone in float32
DOUBLE = 1e-13  # and in float64


class Component(ABC):
    """Mixtures of ``n_clusters`` clusters of one shape.

    A state is a NamedTuple whose arrays have the clusters along their first axis; statistics are a
    NamedTuple of sums over rows with an entry ``objective``, the log-likelihood. ``setting`` names
    the candidate: the number of clusters and, in some models, a family or a number of factors.
    ``pack`` turns a state into one vector without constraints, ``unpack`` turns it back; without
    them steps are not extrapolated.
    """

    n_clusters: int
    pack: Callable[[Any], np.ndarray] | None = None

    @property
    @abstractmethod
    def setting(self) -> dict[str, Any]:
        """What the candidate fixes."""

    @property
    def key(self) -> Hashable:
        """Components of one key see rows alike."""
        return ""

    @property
    def leads(self) -> bool:
        """Whether it tries all starts where objects and shapes are many."""
        return False

    def within(self, other: Component) -> bool:
        """Whether the other is of a freer shape, so that it is at least as likely."""
        return False

    @abstractmethod
    def rows(self, X: Any, *columns: Any) -> Rows:
        """Rows of ``X`` as this component sees them."""

    def log_volumes(self, block: Array) -> Any:
        """Log-determinants of the coordinates, added to log-densities of a block: (b,) or one."""
        return 0.0

    def place(self, X: np.ndarray) -> np.ndarray:
        """Objects of the sample for starts, as this component sees them."""
        return X

    @abstractmethod
    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> Any:
        """The state of weighted groups ``R`` (k, n) of placed objects; ``unit`` is the weight of
        one object, ``shrink`` whether small groups lean on the others.
        """

    def ready(self, state: Any) -> Any:
        """What a pass over the rows needs of a state, made once for all blocks."""
        return state

    @abstractmethod
    def summarize(self, block: Any, weights: Any, ready: Any, given: Weights = None) -> Any:
        """Statistics of a block, by its own memberships or by ``given`` ones (b, k)."""

    @abstractmethod
    def update(self, stats: Any, state: Any) -> Any:
        """The state that maximises the expected objective."""

    @abstractmethod
    def logits(self, block: Array, ready: Any) -> Any:
        """log( pi_j f_j(x_i) ) (k, b) of a block, to be overwritten."""

    def posterior(self, block: Array, ready: Any) -> tuple[Any, Any]:
        """Memberships (b, k) and log-densities (b,) of a block."""
        U, level = softmax_columns(self.logits(block, ready))
        return U.T, level

    def log_prior(self, state: Any) -> float:
        """Logarithm of the prior density of a state."""
        return 0.0

    def unpack(self, vector: np.ndarray, like: Any) -> Any:
        """The state that ``pack`` made a vector of."""
        raise NotImplementedError

    def whole(self, rows: Rows) -> Any:
        """A native runner of whole runs on these rows, or None."""
        return None

    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters."""

    def failure(self, state: Any, count: float) -> str:
        """Why a state of ``count`` objects must not be chosen, or "" if it may."""
        return ""

    def is_sound(self, state: Any, count: float) -> bool:
        """Whether no cluster has collapsed; of several runs the sound ones are preferred."""
        return not self.failure(state, count)

    def has_small(self, state: Any, count: float) -> bool:
        """Whether a cluster has so few objects that runs without such clusters are preferred."""
        return False

    @abstractmethod
    def draw(self, state: Any, labels: np.ndarray, rng: np.random.Generator) -> Any:
        """One object, in the units of the data, from the cluster of each label."""

    def doubt(self, state: Any, count: float) -> float:
        """Twice the log-likelihood that a state owes to thin clusters of few objects."""
        return 0.0

    def ordered(self, state: Any) -> Any:
        """The same clusters, the largest first; of equal ones the first by its parameters."""
        keys = [part.reshape(len(part), -1).T for part in state[1:] if np.ndim(part)]
        order = np.lexsort([*np.concatenate(keys)[::-1], -state[0]])
        return self.permuted(state, order)

    def permuted(self, state: Any, order: np.ndarray) -> Any:
        """The clusters in another order."""
        return type(state)(*(part[order] for part in state))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihood (with a prior: log posterior) of mixtures on rows, and how EM climbs it.

    ``total`` is the weight of all rows, ``count`` the number of objects: copies where weights are
    whole numbers. The first column of the rows holds weights, the second 0 for linked rows.
    """

    component: Component
    rows: Rows
    total: float
    count: float
    linked: LinkedRows | None = None

    def sum(self, state: Any) -> Any:
        """Statistics of all rows at a state; their objective is the log-likelihood."""
        summarize, ready = self.component.summarize, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            return summarize(block, _counted(block, w, free), ready, None, *more)

        stats = self.rows.sum(part)
        if self.linked is None:
            return stats
        U, value = self._couple(ready)
        own = self.linked.sum(U, lambda block, w, given: summarize(block, w, ready, given))
        return add(stats, own._replace(objective=value))

    def _couple(self, ready: Any) -> tuple[np.ndarray, float]:
        """Memberships (m, k) of linked rows, and their part of the log-likelihood."""
        assert self.linked is not None

        def logits(block: Array) -> np.ndarray:
            return to_numpy(self.component.logits(block, ready)).T.astype(np.float64)

        return self.linked.couple(logits)

    def step(self, state: Any) -> tuple[Any, float]:
        """One step of EM, and the objective of the state that went in."""
        stats = self.sum(state)
        objective = stats.objective + self.component.log_prior(state)
        return self.component.update(stats, state), objective

    def run(self, state: Any, max_iter: int, tol: float) -> loop.Run:
        """Accelerated EM until a step gains less than ``tol`` for each unit of weight."""
        tol = max(tol, SINGLE if "float32" in str(self.rows.dtype) else DOUBLE)
        if (whole := self._whole()) is not None:
            return loop.at_once(lambda: whole.run(state, max_iter, tol * self.total))
        pack = self.component.pack
        iterate = partial(loop.iterate, max_iter=max_iter, tol=tol, relative_to=self.total)
        if pack is None:
            return iterate(self.step, state)
        step = acceleration.Squarem.accelerate(self.step, pack, self.component.unpack, larger=True)
        run = iterate(step, acceleration.Squarem(state))
        return run._replace(state=run.state.settled)

    def steps(self, state: Any, n_steps: int) -> tuple[Any, float]:
        """The state after some plain steps, and the objective one step before the end."""
        if (whole := self._whole()) is not None:
            return whole.steps(state, n_steps)
        value = -np.inf
        for _ in range(n_steps):
            state, value = self.step(state)
        return state, value

    def _whole(self) -> Any:
        return None if self.linked is not None else self.component.whole(self.rows)

    def memberships(self, state: Any, dtype: Any = None) -> Any:
        """Memberships (n, k) of all rows."""
        posterior, ready = self.component.posterior, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            U = posterior(block, ready, *more)[0]
            return U if dtype is None else U.astype(dtype)

        U = self.rows.map(part)
        if self.linked is not None:
            U[self.linked.links.rows] = self._couple(ready)[0]
        return U

    def log_volume(self) -> float:
        """What the log-likelihood gains by the change of coordinates, over all rows."""
        volumes = self.component.log_volumes

        def part(block: Array, w: Weights = None, *_: Any) -> tuple[float]:
            mass = block.shape[0] if w is None else float(np.sum(to_numpy(w)))
            found = volumes(block)
            return (
                (float(found @ (np.ones(len(found)) if w is None else w)),)
                if np.ndim(found)
                else (float(found) * mass,)
            )

        return float(self.rows.sum(part)[0])

    def rating(self, state: Any) -> tuple[float, float]:
        """The log-likelihood without the change of coordinates, and the sum of the logarithms of
        every object's largest membership, both weighted.
        """
        if (whole := self._whole()) is not None:
            return whole.levels(state)
        posterior, ready = self.component.posterior, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            U, level = (to_numpy(a).astype(np.float64) for a in posterior(block, ready, *more))
            own = free_weights(len(U), w if w is None else to_numpy(w), free)
            return float(own @ level), float(own @ np.log(U.max(axis=1)))

        value, sure = self.rows.sum(part)
        if self.linked is not None:
            U, more = self._couple(ready)
            value, sure = value + more, sure + float(self.linked.weights @ np.log(U.max(axis=1)))
        return value, sure


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted candidate: its criteria, how it sees data, and where EM ended."""

    candidate: ModelCandidate
    likelihood: Likelihood
    run: loop.Run

    @classmethod
    def of(cls, likelihood: Likelihood, run: loop.Run, *, keep_order: bool = False) -> Fit:
        """Rate a run; a collapsed cluster is a failure and says so."""
        component = likelihood.component
        if not keep_order:
            run = run._replace(state=component.ordered(run.state))
        inner, sure = likelihood.rating(run.state)
        value, p = inner + likelihood.log_volume(), component.n_parameters()
        run = run._replace(objective=value + component.log_prior(run.state))
        share = likelihood.count / likelihood.total
        deviance, log_n = -2.0 * value * share, float(np.log(likelihood.count))
        bic = deviance + p * log_n
        icl, aic = bic - 2.0 * sure * share, deviance + 2.0 * p
        candidate = ModelCandidate(component.setting, bic, icl, aic, value, p)
        reason = component.failure(run.state, likelihood.count)
        return cls(candidate.failed(reason) if reason else candidate, likelihood, run)

    def value(self, criterion: str) -> float:
        """A criterion, NaN where the candidate failed."""
        return float(getattr(self.candidate, criterion))


def _counted(block: Array, weights: Weights, free: Weights) -> Any:
    """Weights of the rows that are free of links; None where all count alike."""
    return weights if free is None else free_weights(block.shape[0], weights, free)
