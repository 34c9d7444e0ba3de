"""The base class of mixtures: it publishes what a search finds.

A model defines its components and the sample for their starts (``_plan``), and publishes the
parameters of a state (``_publish_parameters``).
"""

from abc import abstractmethod
from collections.abc import Collection
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.rows import Rows, has_missing, one_blas_thread
from ..array.types import Array, ArrayLike, Weights
from ..array.validation import (
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_numbers,
    check_weights,
)
from ..array.warn import warn
from ..data.constraints import Known
from ..data.features import check_features, refuse_empty_columns, refuse_tensors
from ..numerics import seeding
from ..numerics.seeding import SCREEN
from .base import blended
from .clusterer import Constrained
from .component import Component, Fit, Likelihood, ModelSearch
from .linked import publish_kept
from .loop import Run, State
from .search import Objects, Plan, choose, fit_all, fit_growing, on_all
from .structure import FEWEST, LARGEST, assess, count_distinct

MOST = 9  # clusters that "auto" of the mixtures tries at first, as in R's mclust
GROWTH = 4  # factor by which searches may extend the range while the best is its largest
OBJECTS = 3  # smallest mean number of objects per cluster that "auto" tries


class Mixture(Constrained):
    """Mixtures fitted by maximum likelihood, or maximum a posteriori."""

    chooses_n_clusters = "auto"
    _sparse = _missing = _streams = True
    _component: Component
    _state: Any
    _dtype: Any
    _classes: np.ndarray | None  # integer labels of clusters that the user named
    _in_batches = False  # whether features that are constant so far may vary in later batches

    @abstractmethod
    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        """The candidates for each number of clusters, and the sample for their starts."""

    def _planned(
        self, components: Any, sample: Any, seed: int, fixed: bool, thorough: bool = False
    ) -> Plan:
        """The plan with the parameters of the estimator."""
        limits = (self.n_init, self.max_iter, self.tol, seed)
        return Plan(components, sample, self.criterion, *limits, fixed, thorough)

    @abstractmethod
    def _publish_parameters(self) -> None:
        """Publish the parameters of the fitted state, in the units of the data."""

    def _advice(self) -> str:
        return "ask for fewer clusters"

    def _read(self, X: Array, *, reset: bool) -> Any:
        refuse_tensors(self, X)
        return check_features(self, X, reset=reset, missing=True)

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_choice(self.criterion, "criterion", ("bic", "icl", "aic"))
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)

    def _sizes(self, X: Array, weights: Weights) -> list[int]:
        sizes = check_numbers(self.n_clusters, "n_clusters")
        n_objects = X.shape[0] if weights is None else int(np.count_nonzero(weights))
        if sizes is None:
            return first_sizes(X, self.max_clusters, weights)
        check_n_clusters(min(sizes), n_objects)
        if max(sizes) > n_objects:
            warn(f"n_clusters={max(sizes)} is not tried: there are only {n_objects} objects")
        return [k for k in sizes if k <= n_objects]

    def _learn(
        self,
        X: Array,
        y: Any,
        sample_weight: ArrayLike | None,
        links: tuple[Any, Any] = (None, None),
        measurement_error: Any = None,
        *,
        in_batches: bool = False,
    ) -> Any:
        """Fit. With ``in_batches``, features that are constant here may vary in later batches."""
        self._in_batches = in_batches
        self._check_parameters()
        self._check_memory(X)
        X = self._read(X, reset=True)
        refuse_empty_columns(Rows(X).extremes()[:1], getattr(self, "feature_names_in_", None))
        weights = check_weights(sample_weight, X)
        X = self._varying(X, weights, measurement_error)
        sizes = self._sizes(X, weights)
        known = self._known(y, links, X, max(sizes))
        return self._fit(X, weights, sizes, known, *self._errors(X, known, measurement_error))

    def _varying(self, X: Array, weights: Weights, measurement_error: Any) -> Any:
        return X

    def _errors(self, X: Array, known: Known, measurement_error: Any) -> tuple[Any, ...]:
        return ()

    def _known(self, y: Any, links: tuple[Any, Any], X: Array, k: int) -> Known:
        y = None if y is None else np.asarray(y)
        y = y[:, 0] if y is not None and y.ndim == 2 and y.shape[1] == 1 else y
        if y is not None and y.ndim == 1 and len(y) != X.shape[0]:
            raise ValueError(
                f"y has {len(y)} labels for {X.shape[0]} objects: give one label per object, -1 "
                "where it is unknown"
            )
        self._classes = None
        if y is None and all(pairs is None for pairs in links):
            return Known()
        known = Known.of(*links, y, X, k)
        if known.labels is not None and y.dtype.kind in "iu":
            self._classes = np.unique(y[y != -1])
        return known

    def _fit(
        self, X: Array, weights: Weights, sizes: list[int], known: Known, *columns: Any
    ) -> Any:
        if known.labels is not None:  # every known label needs a cluster
            sizes = [k for k in sizes if k > known.labels.max()]
        dtype = _floating(X)
        if isinstance(X, np.ndarray) and X.dtype == np.float32 and len(X) <= SCREEN:
            X = X.astype(np.float64)  # so that rounding does not choose among candidates
        n, d = X.shape
        # Small products use one thread anyway; in larger ones, threads would wait for each other.
        with nullcontext() if n * d**2 <= 2**14 else one_blas_thread():
            data = Objects.of(X, weights, known, *columns)
            seed = int(as_generator(self.random_state).integers(2**63))
            plan = self._plan(data, seed, fixed=known.labels is not None)
            if isinstance(self.n_clusters, str):
                more = partial(more_sizes, n_objects=n, max_clusters=self.max_clusters)
                fits = fit_growing(data, sizes, plan, more)
            else:
                fits = fit_all(data, sizes, plan)
            best = on_all(data, choose(fits, self.criterion), plan)
            self._publish_fit(data, fits, best, dtype, plan)
        if known.links is not None:
            publish_kept(self, known)
        return self

    def _publish_fit(
        self, data: Objects, fits: list[Fit], best: Fit, dtype: Any, plan: Plan
    ) -> None:
        n_objects = fits[0].likelihood.rows.shape[0]
        self.search_ = ModelSearch([fit.candidate for fit in fits], self.criterion, n_objects)
        self._component, self._state, self._dtype = best.likelihood.component, best.run.state, dtype
        log_prior = self._component.log_prior(self._state)
        self.log_likelihood_ = float(best.run.objective - log_prior)
        history = best.run.history + best.likelihood.log_volume
        run = best.run._replace(history=history)
        tried = {fit.candidate.n_clusters for fit in fits}
        compared = 1 not in tried and data.linked is None and not plan.fixed
        self._enough_ = self._one_is_enough(data, best, plan) if compared else ""
        self._publish(self._final_memberships(data, fits, best, plan), run, best.run.objective)
        self._publish_parameters()
        if best.candidate.reason:
            warn(f"{best.candidate.reason}: {self._advice()}")
        if enough := self.__dict__.pop("_enough_"):
            warn(enough)

    def _final_memberships(self, data: Objects, fits: list[Fit], best: Fit, plan: Plan) -> Any:
        return _as(best.likelihood.memberships(best.run.state), self._dtype)

    def _of_one(self, component: Component) -> bool:
        """Whether one cluster of this shape is compared, too."""
        shape = {**component.setting, "n_clusters": self._component.n_clusters}
        return shape == self._component.setting

    def _warn_about_structure(self) -> None:
        found = getattr(self, "structure_", None)
        if found is None or found.n_apart > 1 or not self.__dict__.get("_enough_"):
            super()._warn_about_structure()  # otherwise a single warning says what to do

    def _one_is_enough(self, data: Objects, best: Fit, plan: Plan) -> str:
        """A warning if one cluster describes the data better; else ""."""
        candidates, values = list(filter(self._of_one, plan.components(1))), []
        sample = plan.sample(data) if candidates else None
        for component in candidates:
            likelihood = data.likelihood(component)
            assert sample is not None
            X, R = component.place(sample.X), sample.weights[None]
            run = likelihood.run(component.start(X, R, sample.unit, False), plan.max_iter, plan.tol)
            values.append(Fit.of(likelihood, run).candidate.bic)
        one, own = min(values, default=np.nan), best.candidate.bic
        if not one < own:
            return ""
        return (
            f"one cluster describes these data better than {best.candidate.n_clusters} (BIC "
            f"{one:.1f} against {own:.1f}, lower is better): the memberships may mean nothing; try "
            "n_clusters='auto'"
        )

    def _posterior(self, X: Array, which: int) -> Any:
        """Memberships of checked rows (``which`` 0), or their log-densities in data units (1)."""
        return posterior(X, self._component, self._state, which)

    def _placed(self, X: Any) -> Any:
        checked = self._read(X, reset=False)
        return _as(self._posterior(checked, 0), _floating(checked))

    def score_samples(self, X: Array) -> Any:
        """Log density (n,) of every row of ``X`` (n, p), or of its observed values."""
        self._check_fitted()
        return self._posterior(self._read(X, reset=False), 1)

    def _log_likelihood(self, X: Array, sample_weight: ArrayLike | None) -> tuple[float, ...]:
        """Log-likelihood, sum of the logarithms of the largest memberships, and total weight."""
        self._check_fitted()
        X = self._read(X, reset=False)
        weights = check_weights(sample_weight, X)
        U, level = (to_numpy(self._posterior(X, i)).astype(np.float64) for i in (0, 1))
        own = np.ones(len(U)) if weights is None else weights
        return float(own @ level), float(own @ np.log(U.max(axis=1))), float(own.sum())

    def score(
        self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log-likelihood per unit of weight."""
        value, _, total = self._log_likelihood(X, sample_weight)
        return value / total

    def bic(self, X: Array, *, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion, ``-2 log L + p log n``: lower is better, the negative of
        that of R's mclust."""
        value, _, total = self._log_likelihood(X, sample_weight)
        return float(-2.0 * value + self._component.n_parameters() * np.log(total))

    def aic(self, X: Array, *, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, ``-2 log L + 2 p``: lower is better."""
        value = self._log_likelihood(X, sample_weight)[0]
        return float(-2.0 * value + 2.0 * self._component.n_parameters())

    def icl(self, X: Array, *, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood: ``bic - 2 sum_i w_i log max_j u_ij`` (Biernacki, Celeux
        and Govaert 2000, in the form that R's mclust uses); lower is better."""
        bic = self.bic(X, sample_weight=sample_weight)
        return bic - 2.0 * self._log_likelihood(X, sample_weight)[1]

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Objects drawn from the mixture (never from a noise component), and their labels.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : array of shape (n_samples, p), or a data frame if the model knows columns of one
        labels : array of shape (n_samples,)
            The cluster each object came from, in ascending order.
        """
        self._check_fitted()
        check_number(n_samples, "n_samples", low=1, integer=True)
        rng = as_generator(self.random_state)
        share = np.asarray(self._state.weights, dtype=np.float64)[: self._component.n_clusters]
        labels = np.repeat(np.arange(len(share)), rng.multinomial(n_samples, share / share.sum()))
        return self._drawn(labels, rng), labels

    def _drawn(self, labels: np.ndarray, rng: np.random.Generator) -> Any:
        return self._component.draw(self._state, labels, rng)

    def partial_fit(
        self, X: Array, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn from one batch: the first one starts the model, later ones update it.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            A batch of objects; the first must have enough for the components.
        y : array of shape (n,), optional
            Partial labels as in ``fit``; the first batch must contain all labels.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
            ``memberships_`` and ``labels_`` are those of this batch.
        """
        first = not hasattr(self, "memberships_")
        if first:
            self._learn(X, y, sample_weight, in_batches=True)
            self._component = self._component.in_batches()
        X = self._read(X, reset=False)
        if not self._component.missing and has_missing(Rows(X)):
            raise ValueError("X has missing values (NaN): begin with a batch that has some")
        data = Objects.of(X, check_weights(sample_weight, X), self._batch_labels(y, X))
        self._absorb(data.likelihood(self._component), first)
        return self

    def _batch_labels(self, y: Any, X: Array) -> Known:
        """Known labels of a batch as components, numbered as in the first batch."""
        known = Known.of(None, None, y, X, X.shape[0])
        if known.labels is None:
            return known
        if self._classes is None:
            raise ValueError(
                "y marks labels as known (others -1), and the first batch had none: begin with a "
                "batch that has all labels"
            )
        there = known.labels >= 0
        refused = there & ~np.isin(y, self._classes)
        if refused.any():
            raise ValueError(
                f"y has the label {np.asarray(y)[refused][0]}, which the first batch had not: "
                "begin with a batch that has all labels"
            )
        labels = np.where(there, np.searchsorted(self._classes, y), -1)
        return known._replace(labels=labels)

    def _absorb(self, likelihood: Likelihood, first: bool) -> None:
        """One step of stochastic approximation (Cappe and Moulines 2009), or the first sums."""
        stats = likelihood.sum(self._state)
        batches = blended(getattr(self, "_batches_", None), stats, likelihood.total)
        self._batches_ = batches
        if first:
            return
        seen = type(stats)(*(part * batches.total for part in batches.stats))
        self._state = self._component.update(seen, self._state)
        value = likelihood.sum(self._state).objective + self._component.log_prior(self._state)
        value = float(value) + likelihood.log_volume
        past, n_iter = self.history_, self.n_iter_
        U = likelihood.memberships(self._state)
        self._publish(_as(U, self._dtype), Run(self._state, value, np.array([value]), 1, True))
        self._publish_parameters()
        self.history_, self.n_iter_ = np.append(past, value), n_iter + 1


def posterior(X: Array, component: Component, state: State, which: int, *columns: Any) -> Any:
    """Memberships of checked rows (``which`` 0), or their log-densities in data units (1)."""
    if not columns and has_missing(Rows(X)):
        component, state = component.for_missing(state)
    ready = component.ready(state)

    def part(block: Array, *more: Any) -> Any:
        found = component.posterior(block, ready, *more)[which]
        return found + component.log_volumes(block) if which else found

    return component.rows(X, *columns).map(part)


def _floating(X: Array) -> Any:
    """dtype of the memberships of these objects."""
    return np.float32 if str(X.dtype).endswith("float32") else np.float64


def _as(U: Array, dtype: Any) -> Any:
    return U.astype(dtype) if isinstance(U, np.ndarray) and U.dtype.kind == "f" else U


def first_sizes(X: Any, max_clusters: int = MOST, weights: Weights = None) -> list[int]:
    """Numbers of clusters to try first, at most that of different objects, and few enough for
    ``OBJECTS`` objects in each."""
    n_objects = X.shape[0]
    total = n_objects if weights is None else max(np.count_nonzero(weights), weights.sum())
    n_distinct = count_distinct(X, min(max_clusters, n_objects))
    if n_distinct == 1 < n_objects:
        warn(f"all {n_objects} objects are equal: one cluster is the answer")
    sizes = list(range(1, min(max_clusters, n_distinct, max(1, int(total) // OBJECTS)) + 1))
    cap = min(GROWTH * max_clusters, n_objects // OBJECTS)
    apart = groups_apart(X, weights, cap) if len(sizes) == max_clusters < cap else 1
    return sizes + [k for k in range(apart - 1, apart + 2) if max_clusters < k <= cap]


def groups_apart(X: Any, weights: Weights, most: int) -> int:
    """Number of separate groups (structure test) among ``most`` k-means clusters."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return 1
    there = np.flatnonzero(np.isfinite(X).all(axis=1) & (True if weights is None else weights > 0))
    if len(there) > LARGEST:
        there = np.random.default_rng(0).choice(there, LARGEST, replace=False)
    Z = np.unique(
        X[there].astype(np.float64), axis=0
    )  # copies of one object would look like a group
    if len(Z) < FEWEST:
        return 1
    Z /= max(float(np.abs(Z).max()), np.finfo(float).tiny)  # so that no square overflows
    one = np.ones(len(Z))
    Z = seeding.standardize(Z, one)
    labels = seeding.kmeans(Z, one, min(most, len(Z) // OBJECTS), np.random.default_rng(0))
    present = np.unique(labels, return_inverse=True)[1]
    found = assess(Z, np.eye(int(present.max()) + 1)[present], kind="features")
    return 1 if found is None else found.n_apart


def more_sizes(
    best: int, tried: Collection[int], n_objects: int, max_clusters: int = MOST
) -> list[int]:
    """Numbers to try next, below the best or above the largest; warns if there are no more."""
    below = range(max(min(tried), max_clusters + 1, best - best // 4), best)
    if below and best - 1 not in tried:
        return [k for k in below if k not in tried]
    largest = max(tried)
    fewer = largest < max_clusters  # there are no more different objects
    if best < largest or largest == n_objects or fewer:
        return []
    cap = min(GROWTH * max_clusters, n_objects // OBJECTS)
    if largest >= cap:
        warn(
            f"the best number of clusters is the largest one tried, {largest}: there may be more; "
            f"raise max_clusters, or give the numbers to try, n_clusters=range(1, {2 * largest})"
        )
        return []
    return list(range(largest + 1, min(2 * largest, cap) + 1))
