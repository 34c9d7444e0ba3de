"""Many small Gaussian mixtures of the same objects: soft evidence that follows the density and does
not depend on units.

Beside them mixtures of about as many Gaussians as there are clusters, their families chosen by BIC.
They see ellipses, and few objects in many features, which small mixtures with full covariances do
not. They come from the search of ``GaussianMixture`` in whitened coordinates; written as
coefficients of z(y) = (1, y, y_a y_b) they are evidence of the same form.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows, in_threads, one_blas_thread
from ...array.types import Array, ArrayLike, Weights
from ...array.validation import as_generator, check_number, refuse_subnormal
from ...array.warn import warn
from ...data.features import check_observed, without_empty
from ...engine import loop
from ...engine.component import Fit
from ...engine.objects import distinct_sample, object_weights
from ...engine.search import Objects, choose, fit_all
from ...numerics import distances
from ...numerics.axes import Axes, by_radius, fit_axes
from ...numerics.holes import Gaps
from ..gaussian import GaussianMixture
from .em import TUNING, Seen, fit_mixture, join
from .members import Failure, Members, check_members, fit_member, lowered, range_of


class MixtureEnsemble(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Soft partitions (n, K) of the objects: the posteriors of many small Gaussian mixtures, side
    by side.

    Each mixture has full covariances and its own number of components, and is fitted from one start
    to its own nine tenths of a sample. Two components that overlap pass similarity on to each
    other, two that only touch do not. Mixtures work on whitened principal axes, so that units do
    not matter.

    Parameters
    ----------
    n_members : int
        Mixtures.
    n_clusters : int, (low, high) or None
        Components of a mixture, drawn anew for each from the range; None means from sqrt(s)/2 to
        sqrt(s), s the number of objects that it is fitted to.
    n_axes : int
        Principal axes that the mixtures work on, where there are more features.
    max_objects : int
        Size of the sample that all mixtures are fitted to at most.
    members : list of estimators or None
        Fitted, one each, in place of the mixtures: their ``predict_proba`` where they have it, else
        their labels, one-hot (``predict``, or that of the nearest fitted object; -1 is not seen).
        They are given the features as they are. ``random_state`` is set where theirs is None.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    members_ : Mixtures, or Members if ``members``
        Coefficients of all components, and where the columns of each mixture begin.
    axes_ : Axes
        The coordinates that the mixtures work in, unless ``members``.
    failures_ : list of (algorithm, message)
        Members that could not be fitted.

    References
    ----------
    Fraley and Raftery (2007). Bayesian regularization for normal mixture estimation and model-based
    clustering. Journal of Classification 24.
    Art, Gnanadesikan and Kettenring (1982). Data-based metrics for cluster analysis. Utilitas
    Mathematica 21A.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MixtureEnsemble
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> H = MixtureEnsemble(5, random_state=0).fit_transform(X)
    >>> H.shape[0], H.sum(axis=1).round(12).tolist()[0]
    (60, 5.0)

    One membership matrix per mixture, as ``EvidenceAccumulation(ensemble="precomputed")`` takes
    them:

    >>> len(MixtureEnsemble(5, random_state=0).fit(X).partitions(X))
    5

    Estimators of one's own as members, soft and hard:

    >>> from sklearn.cluster import KMeans
    >>> from sfumato import FuzzyCMeans
    >>> ensemble = MixtureEnsemble(members=[FuzzyCMeans(3), KMeans(2)], random_state=0).fit(X)
    >>> [U.shape for U in ensemble.partitions(X)]
    [(60, 3), (60, 2)]
    """

    _any_library = True  # arrays of every library that follows the array API standard

    members_: Any

    def __init__(
        self,
        n_members=TUNING.n_mixtures,
        *,
        n_clusters=None,
        n_axes=20,
        max_objects=5000,
        members=None,
        random_state=None,
    ):
        self.n_members, self.n_clusters = n_members, n_clusters
        self.n_axes, self.max_objects = n_axes, max_objects
        self.members, self.random_state = members, random_state

    def _streams(self) -> bool:
        return True

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> MixtureEnsemble:
        """Fit the mixtures.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Values may be missing (NaN) in a dense array: mixtures integrate them out.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object, 0 as its absence.

        Returns
        -------
        self
        """
        for name in ("n_members", "n_axes", "max_objects"):
            check_number(getattr(self, name), name, low=1, integer=True)
        X = check_observed(self, X, reset=True)
        refuse_subnormal(X, "X")
        rng = as_generator(self.random_state)
        weights = without_empty(X, object_weights(sample_weight, X))
        points, mass = distinct_sample(X, self.max_objects, rng, weights)
        if self.members is not None:
            self._fit_members(points, rng, mass)
        else:
            axes = fit_axes(points, self.n_axes, mass)
            seeds = rng.integers(2**63, size=self.n_members)
            self._fit_stock(Stock.of(points, axes, mass), axes, seeds)
        return self

    def _fit_members(self, points: Array, rng: np.random.Generator, mass: Weights = None) -> None:
        """Fit the estimators that were given."""
        check_members(self.members)
        n = points.shape[0]
        if more := sorted({type(each).__name__ for each in self.members if lowered(each, n)}):
            warn(f"{', '.join(more)}: more clusters than the {n} different objects, lowered to {n}")
        seeds = rng.integers(2**31, size=len(self.members))
        made = zip(self.members, seeds, strict=True)
        fitted = [fit_member(points, each, mass, int(seed)) for each, seed in made]
        self.members_ = Members(self._sound(fitted))

    def _fit_stock(self, stock: Stock, axes: Axes, seeds: np.ndarray) -> None:
        """Fit a mixture for each seed."""
        n = self._n_fitted(len(stock.Y))
        tasks = [(stock, n, self._range(n), int(seed)) for seed in seeds]
        results: list[Any] = []
        for result in in_threads(_attempt, tasks, None):
            results.append(result)
            loop.tell(len(results), len(tasks), math.nan)
        self._keep(self._sound(results), axes)

    def _n_fitted(self, n: int) -> int:
        """Objects that a mixture is fitted to, out of a sample of ``n``."""
        return max(1, min(TUNING.most, math.ceil(TUNING.share * n)))

    def _keep(self, mixtures: list[np.ndarray], axes: Axes) -> None:
        """Publish mixtures, each as its coefficients (k, q)."""
        self.axes_ = axes
        self.members_ = join(mixtures, axes.projection.shape[1])

    def _sound(self, results: list[Any]) -> list[Any]:
        """The members that could be fitted; the others are named in ``failures_``."""
        self.failures_ = [result for result in results if isinstance(result, Failure)]
        self._fitted = [i for i, each in enumerate(results) if not isinstance(each, Failure)]
        kind = "mixtures" if self.members is None else "members"
        if not self._fitted:
            raise ValueError(
                f"none of the {len(results)} {kind} could be fitted; the first, "
                f"{self.failures_[0].algorithm}, failed with: {self.failures_[0].message}"
            )
        if self.failures_:
            name, message = self.failures_[0]
            warn(
                f"{len(self.failures_)} of {len(results)} {kind} could not be fitted and are left "
                f"out; the first, {name}, failed with: {message}"
            )
        return [results[i] for i in self._fitted]

    def _range(self, n: int) -> tuple[int, int]:
        """Smallest and largest number of components of a mixture fitted to ``n`` objects."""
        given = self.n_clusters
        if given is None:
            high = max(2, math.isqrt(n))
            return min(n, max(2, high // 2)), min(n, high)
        low, high = range_of(given)
        return min(low, n), min(high, n)

    def transform(self, X: Array) -> np.ndarray:
        """Posteriors (n_new, K) of new objects: the columns of every mixture sum to one.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)

        Returns
        -------
        posteriors : array of shape (n_new, K)
        """
        check_is_fitted(self)
        X = check_observed(self, X, reset=False)
        rows = Rows(X)
        xp = namespace(X)
        return rows.map(lambda block: xp.astype(self._posteriors(block).T, X.dtype, copy=False))

    def partitions(self, X: Array) -> list[np.ndarray]:
        """The same posteriors as a list of membership matrices, one per mixture.

        A consensus takes them: ``EvidenceAccumulation(3, ensemble="precomputed").fit(...)``.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)

        Returns
        -------
        partitions : list of arrays of shape (n_new, k_b)
        """
        return np.split(self.transform(X), self.members_.offsets[1:-1], axis=1)

    def _posteriors(self, block: Array) -> Any:
        """Posteriors (K, b) of a block of objects."""
        if isinstance(self.members_, Members):
            here = is_numpy(block) or sp.issparse(block)
            columns = self.members_.columns(block if here else to_numpy(block)).T
            return columns if here else asarray_like(columns, block)
        return self.members_.posteriors(*self.axes_.seen(block))

    @property
    def _n_features_out(self) -> int:
        return int(self.members_.offsets[-1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class Stock(NamedTuple):
    """What members are fitted to: whitened coordinates (s, d), those of seeds, weights, gaps."""

    Y: np.ndarray
    R: np.ndarray
    mass: Weights
    gaps: Gaps | None = None

    @classmethod
    def of(cls, points: Array, axes: Axes, mass: Weights) -> Stock:
        """Objects in an order that no mixing of features changes."""
        Y, gaps = axes.seen(points)
        order = by_radius(Y)
        own = None if mass is None else mass[order]
        return cls(Y[order], Y[order] @ axes.near, own, None if gaps is None else gaps.take(order))

    def take(self, rows: np.ndarray) -> Stock:
        """Some of the objects."""
        mass = None if self.mass is None else self.mass[rows]
        gaps = None if self.gaps is None else self.gaps.take(rows)
        return Stock(self.Y[rows], self.R[rows], mass, gaps)


def _attempt(stock: Stock, n: int, sizes: tuple[int, int], seed: int) -> Any:
    """Coefficients of a mixture of ``n`` random objects, or what went wrong: the others go on."""
    rng = np.random.default_rng(seed)
    own = stock.take(np.sort(rng.permutation(len(stock.Y))[:n]))
    try:
        k = int(rng.integers(sizes[0], sizes[1] + 1))
        return fit_mixture(Seen.of(own.Y, own.mass, own.gaps), own.R, k, rng)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        return Failure("Gaussian mixture", f"{type(error).__name__}: {error}")


def family_mixtures(stock: Stock, k: int, seed: int) -> list[np.ndarray]:
    """Coefficients (q, Q) of mixtures of k, 1.5 k and 2 k components; empty where all collapse."""
    few = stock.take(np.arange(0, len(stock.Y), -(-len(stock.Y) // TUNING.most_in_families)))
    sizes = sorted({int(np.ceil(times * k)) for times in TUNING.multiples})
    data = Objects.of(few.Y, few.mass)
    model = GaussianMixture(k, n_init=2, max_iter=200, tol=1e-4)
    # Members need not be the best mixtures: answers are no worse without the longer search.
    plan = model._plan(data, seed, fixed=False)
    sample = plan.sample(data)
    plan = plan._replace(thorough=False, sample=lambda _: sample)
    most = min(max(k, len(few.Y) // 5), len(few.Y))
    with one_blas_thread():
        best = [choose(fit_all(data, [size], plan), "bic") for size in sizes if size <= most]
    return [_coefficients(fit) for fit in best if np.isfinite(fit.candidate.bic)]


def _coefficients(fit: Fit) -> np.ndarray:
    """log pi_j N(y) as coefficients (k, Q) of z(y)."""
    component: Any = fit.likelihood.component
    mu = component.coordinates.outer(fit.run.state.means)
    d = mu.shape[1]
    covariances = component.outer_covariances(fit.run.state)  # (k, d, d) for families by name
    precisions = np.linalg.inv(covariances)
    linear = np.einsum("jab,jb->ja", precisions, mu)
    level = np.linalg.slogdet(covariances)[1] + np.sum(linear * mu, axis=1) + d * np.log(2 * np.pi)
    constant = np.log(np.maximum(fit.run.state.weights, np.finfo(float).tiny)) - 0.5 * level
    square = -precisions
    square[:, np.arange(d), np.arange(d)] *= 0.5
    return np.hstack([constant[:, None], linear, distances.pack(square)])
