"""Base class of models of features whose statistics add up over row blocks."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..array.rows import Rows, one_blas_thread
from ..array.types import Array, ArrayLike
from ..array.validation import as_generator, check_n_clusters, check_weights
from ..data.features import check_features
from . import loop
from .clusterer import Clusterer
from .loop import State, climb

__all__ = ["Clusterer", "InductiveClusterer"]


class InductiveClusterer(Clusterer):
    """Models of features whose step is ``_update`` of the sum of ``_summarize`` over row blocks, a
    NamedTuple with an entry ``objective``; ``_pack`` and ``_unpack`` accelerate it.
    """

    _sparse = _streams = True
    _larger = False  # whether the objective is maximised
    _relative = True  # whether ``tol`` is relative to the objective or per unit of weight
    _screen: int | None = None  # size of the sample on which the starts are compared; None for all

    @abstractmethod
    def _start(self, rows: Rows, rng: np.random.Generator) -> Any:
        """The first state."""

    # Statistics of a block (rows, weights, state), and the next state, unless there is a ``_run``.
    _summarize: Callable[..., Any]
    _update: Callable[..., Any]

    @abstractmethod
    def _assign(self, block: Array, state: State) -> Any:
        """Memberships of a block of rows."""

    def _step(self, rows: Rows) -> loop.Step:
        def step(state: State) -> tuple[Any, float]:
            stats = self._sum(rows, state)
            return self._update(stats, state), stats.objective

        return step

    def _ready(self, state: State) -> Any:
        """The state in the form that ``_summarize`` and ``_assign`` need."""
        return state

    def _sum(self, rows: Rows, state: State) -> Any:
        return self._total(rows, self._ready(state))

    def _total(self, rows: Rows, ready: Any) -> Any:
        return rows.sum(lambda block, weights: self._summarize(block, weights, ready))

    def _run(self, rows: Rows, state: State, total: float) -> loop.Run:
        """Iterate from one start; ``objective`` of the run belongs to its last state."""
        # In float32, rounding alone changes the objective this much.
        tol = max(self.tol, 5e-7) if "float32" in str(rows.dtype) else self.tol
        pack, unpack = (getattr(self, name, None) for name in ("_pack", "_unpack"))
        limits: Any = {"tol": tol, "relative_to": None if self._relative else total}
        limits |= {"larger": self._larger, "max_iter": self.max_iter}
        return climb(self._step(rows), state, pack, unpack, **limits)

    def _prepare(self, X: Array, sample_weight: ArrayLike | None) -> Rows:
        """Validated features and weights, centred and scaled if the model needs that."""
        X = check_features(self, X, reset=True)
        return Rows(X, check_weights(sample_weight, X))

    def fit(
        self, X: Array, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn memberships from features.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object.

        Returns
        -------
        self
        """
        several = isinstance(self.n_clusters, str) or np.ndim(self.n_clusters)
        if several and hasattr(self, "_fit_automatic"):
            return self._fit_automatic(X, sample_weight)
        self._check_parameters()
        self._check_memory(X)
        rows = self._prepare(X, sample_weight)
        check_n_clusters(self.n_clusters, rows.shape[0])
        self._finish(rows, self._ordered(self._best_run(rows)))
        return self

    # Data not cut into blocks are small, and threads would only wait for each other
    @one_blas_thread()
    def _best_run(self, rows: Rows) -> loop.Run:
        """The best of ``n_init`` runs; with many rows, they are compared on a sample first."""
        seeds: Any = as_generator(self.random_state).integers(2**63, size=self.n_init)
        total = weight_of(rows)
        if self._screen is None or rows.shape[0] <= 2 * self._screen:
            return loop.best(self._runs(rows, seeds, total), larger=self._larger)
        few = rows.sample(self._screen, np.random.default_rng(seeds[0]))
        state = loop.best(self._runs(few, seeds, float(self._screen)), larger=self._larger).state
        return self._run(rows, state, total)

    def _ordered(self, run: loop.Run) -> loop.Run:
        """The run with its clusters in an order that does not depend on the start."""
        return run

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[loop.Run]:
        starts = (self._start(rows, np.random.default_rng(seed)) for seed in seeds)
        return [self._run(rows, start, total) for start in starts]

    def _check_parameters(self) -> None:
        self._check_loop_parameters()

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        self._state, total = run.state, weight_of(rows)
        objective = self._outer(self._objective(rows, self._ready(run.state)), total)
        U = self._memberships(rows, self._ready(run.state))
        self._publish(U, run._replace(history=self._outer(run.history, total)), objective)

    def _memberships(self, rows: Rows, ready: Any) -> Any:
        """Memberships of all rows, in their dtype."""
        U = rows.map(lambda block, *_: self._assign(block, ready))
        return U.astype(rows.dtype, copy=False) if hasattr(U, "astype") else U

    def _absorb(self, rows: Rows, first: bool) -> None:
        """One step of stochastic approximation (Cappe and Moulines 2009), or the first sums."""
        state, total = self._state, weight_of(rows)
        stats = self._sum(rows, state)
        self._batches_ = blended(getattr(self, "_batches_", None), stats, total)
        if not first:
            past, n_iter = self.history_, self.n_iter_
            state = self._update(self._batches_.stats, state)
            self._finish(rows, loop.Run(state, stats.objective / total, np.empty(0), 1, True))
            self.history_, self.n_iter_ = np.append(past, self.history_), n_iter + 1

    def _objective(self, rows: Rows, ready: Any) -> float:
        """Objective of a state on these rows, in the model's own coordinates."""
        return self._total(rows, ready).objective

    def _outer(self, objective: float | np.ndarray, total: float) -> Any:
        """Objectives in the units of the data, for models with internal coordinates."""
        return objective

    def _rows(self, X: ArrayLike, *columns: ArrayLike) -> Rows:
        """Features in the form that the fitted model uses."""
        return Rows(X, *columns)

    def _new(self, X: Any, sample_weight: ArrayLike | None = None) -> tuple[Rows, Any]:
        """New objects in the form of the fitted model, and the state for a pass over them."""
        self._check_fitted()
        X = check_features(self, X, reset=False)
        return self._rows(X, check_weights(sample_weight, X)), self._ready(self._state)

    def _placed(self, X: Any) -> Any:
        return self._memberships(*self._new(X))

    def score(
        self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Objective per unit of weight, with the sign for which higher is better."""
        rows, ready = self._new(X, sample_weight)
        total = weight_of(rows)
        value = float(self._outer(self._objective(rows, ready), total)) / total
        return value if self._larger else -value


class Batches(NamedTuple):
    """Number of earlier batches, their statistics per unit of weight, and their total weight."""

    n_batches: int
    stats: Any
    total: float


def blended(past: Batches | None, stats: Any, total: float) -> Batches:
    """Statistics of a batch averaged with those of earlier ones, at a decreasing rate."""
    stats = type(stats)(*(part / total for part in stats))
    if past is None:
        return Batches(1, stats, total)
    rate = (past.n_batches + 1) ** -0.6
    mixed = ((1.0 - rate) * a + rate * b for a, b in zip(past.stats, stats, strict=True))
    return Batches(past.n_batches + 1, type(stats)(*mixed), past.total + total)


def weight_of(rows: Rows) -> float:
    """Total weight of rows whose first column holds the weights."""
    return float(rows.shape[0] if rows.columns[0] is None else rows.columns[0].sum())
