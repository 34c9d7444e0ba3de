"""Where scikit-learn enters: what every estimator shares, and the two families.

``InductiveClusterer``: models of features whose statistics add up over row blocks. Hooks:
``_start``, ``_summarize``, ``_update``, ``_assign``. ``Clusterer`` alone: models that bring their
own ``_fit`` (pairwise models, consensus, samplers).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from . import loop, structure
from .arrays import free_memory, namespace, reader
from .memory import InputSize, require
from .rows import Rows, one_blas_thread
from .types import Array, ArrayLike
from .validation import as_generator, check_features, check_n_clusters, check_number
from .warn import warn
from .weights import check_weights

__all__ = ["Clusterer", "InductiveClusterer"]


class Clusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC
):
    """Memberships in, labels out: ``fit`` forgets, validates, fits and publishes.

    The rest follows from ``predict_proba``.
    """

    # What the command line must know of a model, as attributes of its class.
    needs_classes: ClassVar[bool] = False  # whether ``fit`` needs ``y``
    # "auto": by ``n_clusters="auto"``; "always": the model infers it; "never": a criterion
    # (selection.choose_n_clusters) chooses it; "given": the same, but by default give a number
    chooses_n_clusters: ClassVar[str] = "never"
    _evidence_: Any  # kept from the beginning of a fit until memberships are published

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature."""
        return False

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn memberships."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Any:
        """Memberships of new objects."""

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any
    ) -> np.ndarray:
        """Fit, and the label of every object.

        Parameters
        ----------
        X : array of shape (n, p)
            The evidence, as in ``fit``.
        y : ignored, unless ``fit`` uses it

        Returns
        -------
        labels : array of shape (n,)
        """
        return self.fit(X, y, **fit_params).labels_

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Any:
        """Fit, and the memberships (n, n_clusters) of the fitted objects."""
        return self.fit(X, y, **fit_params).memberships_

    def transform(self, X: ArrayLike) -> Any:
        """Memberships (n_new, n_clusters) of new objects: the same as ``predict_proba``."""
        return self.predict_proba(X)

    def predict(self, X: ArrayLike) -> Any:
        """Label of every new object: the cluster of its largest membership."""
        memberships = self.predict_proba(X)
        return namespace(memberships).argmax(memberships, axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "memberships_")

    @property
    def _n_features_out(self) -> int:
        return self.memberships_.shape[1]

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _forget(self) -> None:
        """Drop what an earlier fit learnt, so that a failed fit leaves an unfitted estimator."""
        for name in [
            name for name in vars(self) if name.endswith("_") and not name.startswith("__")
        ]:
            delattr(self, name)

    def _check_loop_parameters(self) -> None:
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_number(self.tol, "tol", low=0)
        if hasattr(self, "n_init"):
            check_number(self.n_init, "n_init", low=1, integer=True)
        if getattr(self, "n_jobs", None) is not None:
            check_number(self.n_jobs, "n_jobs", integer=True)
            if self.n_jobs == 0:
                raise ValueError(
                    "n_jobs must be None (every core), a positive number of threads, or -1, -2, "
                    "...; got 0"
                )

    def _check_room(self, X: ArrayLike) -> None:
        """Refuse a fit that would not fit in memory.

        Keep the evidence until memberships are published.
        """
        self._evidence_ = X
        size = InputSize.of(X)
        if size is not None:
            budget = free_memory(X) if getattr(X, "is_cuda", False) else None
            require(
                f"{type(self).__name__}.fit",
                self._memory_needed(size),
                self._smaller_alternatives(size),
                budget,
            )

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        """Names and bytes of what a fit holds at one time besides the evidence.

        Never more than it really takes.
        """
        k = min(most_clusters(self.n_clusters), size.n)
        return {
            "a copy of X": size.copy(),
            "memberships": size.n * k * size.itemsize,
            "labels": 8 * size.n,
        }

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        """Ways to fit the same objects in less memory, and the bytes they take."""
        if size.itemsize == 8:
            yield (
                "convert it with .astype('float32')",
                sum(self._memory_needed(size.halved()).values()) + 4 * size.stored,
            )
        if hasattr(self, "partial_fit"):
            yield "use partial_fit on batches", 0
            yield (
                "give a dask array (sfumato.dask.shards), whose memberships stay on its workers",
                0,
            )
        yield "fit a sample of the objects, then predict_proba of the others in batches", 0

    def _publish(self, memberships: Any, run: loop.Run, objective: float | None = None) -> None:
        """Set the fitted attributes that every estimator has."""
        xp = namespace(memberships)
        self.n_clusters_ = int(memberships.shape[1])
        self.objective_ = float(run.objective if objective is None else objective)
        self.history_ = (
            run.history if objective is None else np.append(run.history, self.objective_)
        )
        self.n_iter_ = run.n_iter
        self.converged_ = run.converged
        self.labels_ = xp.argmax(memberships, axis=1)
        self.memberships_ = memberships
        self._judge(memberships)
        if not run.converged:
            warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} iterations: "
                f"raise max_iter, or tol={self.tol:g}",
                ConvergenceWarning,
            )

    def _judge(self, memberships: ArrayLike) -> None:
        """Set ``structure_``, and warn where the evidence does not support confident
        memberships.
        """
        given = self.__dict__.pop("_evidence_", None)
        evidence, kind = (None, "") if given is None else self._judged(given)
        if evidence is None:
            return
        noise = getattr(self, "noise", None) is not None
        self.structure_ = structure.assess(evidence, memberships, kind=kind, noise=noise)
        self._warn_about_structure()

    def _warn_about_structure(self) -> None:
        found = getattr(self, "structure_", None)
        if found is not None:
            clusters = self.n_clusters_ - (getattr(self, "noise", None) is not None)
            structure.warn_about_structure(found, self.memberships_, clusters)

    def _judged(self, evidence: ArrayLike) -> tuple[Any, str]:
        """The evidence as the structure test reads it, and its kind; None where it has no say."""
        return plain_features(evidence), "features"


class InductiveClusterer(Clusterer):
    """Models of features with additive statistics.

    a step is ``_update`` of the sum of ``_summarize`` over row blocks.

    The statistics are a NamedTuple whose entry ``objective`` is the objective of the state they
    were taken at. Models that can be accelerated also have ``_pack`` and ``_unpack`` (see
    ``_loop.Squarem``). Columns of the rows after the weights (classes, partial labels) reach
    ``_summarize`` and ``_assign`` as further arguments.
    """

    _larger = False  # whether the objective is maximised
    _relative = True  # whether ``tol`` is relative to the objective or per unit of weight
    _screen: int | None = (
        # Compare the starts on a sample of so many rows, then go on with the best; None: on all
        # rows
        None
    )

    @abstractmethod
    def _start(self, rows: Rows, rng: np.random.Generator) -> Any:
        """A first state."""

    @abstractmethod
    def _summarize(self, block: np.ndarray, weights: Any, state: Any) -> Any:
        """Statistics of a block of rows at a state."""

    @abstractmethod
    def _update(self, stats: Any, state: Any) -> Any:
        """The next state."""

    @abstractmethod
    def _assign(self, block: Array, state: Any) -> Any:
        """Memberships of a block of rows."""

    def _step(self, rows: Rows) -> loop.Step:
        def step(state: Any) -> tuple[Any, float]:
            stats = self._sum(rows, state)
            return self._update(stats, state), stats.objective

        return step

    def _ready(self, state: Any) -> Any:
        """What a pass over the rows needs of a state, made once for all blocks.

        ``_summarize`` and ``_assign`` get it as their state.
        """
        return state

    def _sum(self, rows: Rows, state: Any) -> Any:
        ready = self._ready(state)
        return rows.sum(
            lambda block, weights, *columns: self._summarize(block, weights, ready, *columns)
        )

    def _run(self, rows: Rows, state: Any, total: float) -> loop.Run:
        """Iterate from one start; ``objective`` of the run is that of its last state."""
        step = self._step(rows)
        tol = (
            max(self.tol, 5e-7) if "float32" in str(rows.dtype) else self.tol
        )  # rounding alone moves the objective by so much
        limits = {
            "max_iter": self.max_iter,
            "tol": tol,
            "relative_to": None if self._relative else total,
        }
        if hasattr(self, "_pack"):
            accelerated = loop.Squarem.accelerate(
                step, self._pack, self._unpack, larger=self._larger
            )
            run = loop.iterate(accelerated, loop.Squarem(state), **limits)
            return run._replace(state=run.state.settled)
        return loop.iterate(step, state, **limits)

    def _prepare(self, X: Any, sample_weight: Any) -> Rows:
        """Validated features and weights, ready to be cut into blocks.

        Models that centre or scale do it here.
        """
        X = check_features(self, X, reset=True)
        return Rows(X, check_weights(sample_weight, X), n_jobs=self.n_jobs)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
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
        self._forget()
        if isinstance(self.n_clusters, str) and hasattr(self, "_fit_automatic"):
            return self._fit_automatic(X, sample_weight)
        self._check_parameters()
        self._check_room(X)
        rows = self._prepare(X, sample_weight)
        check_n_clusters(self.n_clusters, rows.shape[0])
        self._finish(rows, self._ordered(self._best_run(rows)))
        return self

    # What is not cut into blocks is small: threads would only wait for each other
    @one_blas_thread()
    def _best_run(self, rows: Rows) -> loop.Run:
        """The best of ``n_init`` runs.

        With many rows the starts compete on a sample and the winner goes on with all of them.
        """
        seeds: Any = as_generator(self.random_state).integers(2**63, size=self.n_init)
        total = weight_of(rows)
        if self._screen is None or rows.shape[0] <= 2 * self._screen:
            return loop.best(self._runs(rows, seeds, total), larger=self._larger)
        few = rows.sample(self._screen, np.random.default_rng(seeds[0]))
        state = loop.best(self._runs(few, seeds, float(self._screen)), larger=self._larger).state
        return self._run(rows, state, total)

    def _ordered(self, run: loop.Run) -> loop.Run:
        """The run with its clusters in an order that does not depend on the start, for models that
        have one.
        """
        return run

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[loop.Run]:
        return [
            self._run(rows, self._start(rows, np.random.default_rng(seed)), total) for seed in seeds
        ]

    def _check_parameters(self) -> None:
        """Check what ``__init__`` stored; models add their own."""
        self._check_loop_parameters()

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        """Publish the fitted attributes of the winning run."""
        self._state = run.state
        objective = self._objective(rows, run.state)
        ready = self._ready(run.state)
        memberships = rows.map(
            lambda block, weights, *columns: self._assign(block, ready, *columns)
        )
        total = weight_of(rows)
        self._publish(
            memberships,
            run._replace(history=self._outer(run.history, total)),
            self._outer(objective, total),
        )

    def _absorb(self, rows: Rows, first: bool) -> None:
        """One step of stochastic approximation (Cappe and Moulines 2009).

        Statistics per unit of weight, averaged over batches.

        The first batch, to which the model has just been fitted, only leaves its statistics.
        """
        state, total = self._state, weight_of(rows)
        stats = self._sum(rows, state)
        self._batches_ = blended(getattr(self, "_batches_", None), stats, total)
        if not first:
            past, n_iter = self.history_, self.n_iter_
            state = self._update(self._batches_.stats, state)
            self._finish(rows, loop.Run(state, stats.objective / total, np.empty(0), 1, True))
            self.history_, self.n_iter_ = np.append(past, self.history_), n_iter + 1

    def _objective(self, rows: Rows, state: Any) -> float:
        """Objective of a state on these rows, in the model's own coordinates."""
        return self._sum(rows, state).objective

    def _outer(self, objective: float | np.ndarray, total: float) -> Any:
        """Objectives in the units of the data, for models that work in coordinates of their own."""
        return objective

    def _rows(self, X: ArrayLike, *columns: ArrayLike) -> Rows:
        """Features as the fitted model sees them."""
        return Rows(X, *columns, n_jobs=self.n_jobs)

    def predict_proba(self, X: Any) -> Any:
        """Memberships of new objects.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        self._check_fitted()
        X = check_features(self, X, reset=False)
        ready = self._ready(self._state)
        return self._rows(X).map(lambda block: self._assign(block, ready))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Objective per unit of weight at the fitted state, with the sign that makes higher
        better.
        """
        self._check_fitted()
        X = check_features(self, X, reset=False)
        weights = check_weights(sample_weight, X)
        rows = self._rows(X, weights)
        total = weight_of(rows)
        return (
            float(self._outer(self._objective(rows, self._state), total))
            / total
            * (1.0 if self._larger else -1.0)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def plain_features(X: Any) -> Any:
    """Features whose rows can be taken; None for words, and for arrays on other machines."""
    if reader(X) is not None:
        return None
    if isinstance(X, np.ndarray) or hasattr(X, "is_cuda"):
        return X if str(X.dtype).rpartition(".")[2][:3] in ("flo", "int", "uin", "boo") else None
    if sp.issparse(X):
        return sp.csr_array(X)
    try:
        return np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=np.float64)
    except (TypeError, ValueError):
        return None


class Batches(NamedTuple):
    """What a model remembers of earlier batches: statistics per unit of weight, and the weight."""

    n_batches: int
    stats: Any
    total: float


def blended(past: Batches | None, stats: Any, total: float) -> Batches:
    """Statistics of a batch averaged into those of earlier ones, with a decreasing rate."""
    stats = type(stats)(*(part / total for part in stats))
    if past is None:
        return Batches(1, stats, total)
    rate = (past.n_batches + 1) ** -0.6
    mixed = ((1.0 - rate) * a + rate * b for a, b in zip(past.stats, stats, strict=True))
    return Batches(past.n_batches + 1, type(stats)(*mixed), past.total + total)


def most_clusters(n_clusters: int | str | Sequence[int]) -> int:
    """The number of clusters, the largest of several; 1 where it is not known yet."""
    several = n_clusters if isinstance(n_clusters, (list, tuple, range)) else [n_clusters]
    return max((int(k) for k in several if isinstance(k, Integral) and int(k) > 0), default=1)


def weight_of(rows: Rows) -> float:
    """Total weight of rows whose first column holds the weights."""
    return float(rows.shape[0] if rows.columns[0] is None else rows.columns[0].sum())
