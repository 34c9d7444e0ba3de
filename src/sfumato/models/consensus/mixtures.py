"""Many small Gaussian mixtures of the same objects: soft evidence that follows the density and does
not depend on units.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import check_is_fitted

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows, in_threads
from ...array.types import Array, ArrayLike, Estimator, Weights
from ...array.validation import as_generator, check_number
from ...array.warn import warn
from ...data.features import check_observed, without_empty
from ...engine import loop
from ...engine.objects import distinct_sample, object_weights
from ...memberships import check_memberships
from ...numerics.axes import Axes, fit_axes
from .em import TUNING, Stock, attempt, join
from .ensemble import Failure, fit_weighted, range_of, sound


class MixtureEnsemble(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Soft partitions (n, K) of the objects: posteriors of many small Gaussian mixtures, side by
    side.

    Each mixture has full covariances and its own number of components, and is fitted from one start
    to a random nine tenths of a sample. Overlapping components make their objects similar;
    components that only touch do not. Mixtures use whitened principal axes, so units do not matter.

    Parameters
    ----------
    n_members : int
        Number of mixtures.
    n_clusters : int, (low, high) or None
        Number of components of a mixture, or a range to draw it from; None means from sqrt(s)/2 to
        sqrt(s) for s fitted objects.
    n_axes : int
        Largest number of principal axes, and of those at most sqrt(s)/2 for s fitted objects.
    max_objects : int
        Largest size of the sample that all mixtures are fitted to.
    members : list of estimators or None
        Estimators to use instead of mixtures. They give memberships by ``predict_proba``, or
        one-hot labels (by ``predict``, or of the nearest fitted object; -1 means not seen). They
        get the features unchanged. ``random_state`` is set if theirs is None.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    members_ : Mixtures, or Members if ``members``
        Coefficients of all components, and the start of the columns of each mixture.
    axes_ : Axes
        Coordinates of the mixtures; not with ``members``.
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
            Values may be missing (NaN) in a dense array; mixtures integrate them out.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object.

        Returns
        -------
        self
        """
        for name in ("n_members", "n_axes", "max_objects"):
            check_number(getattr(self, name), name, low=1, integer=True)
        X = check_observed(self, X, reset=True)
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
        """Fit the given estimators."""
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
        for result in in_threads(attempt, tasks, None):
            results.append(result)
            loop.tell(len(results), len(tasks), math.nan)
        self._keep(self._sound(results), axes)

    def _n_fitted(self, n: int) -> int:
        """Number of objects that a mixture is fitted to, for a sample of ``n``."""
        return max(1, min(TUNING.most, math.ceil(TUNING.share * n)))

    def _keep(self, mixtures: list[np.ndarray], axes: Axes) -> None:
        """Publish mixtures, each given by coefficients (k, q)."""
        self.axes_ = axes
        self.members_ = join(mixtures, axes.projection.shape[1])

    def _sound(self, results: list[Any]) -> list[Any]:
        """The members that could be fitted; the others are recorded in ``failures_``."""
        self._fitted = [i for i, each in enumerate(results) if not isinstance(each, Failure)]
        kept, self.failures_ = sound(results, "mixtures" if self.members is None else "members")
        return kept

    def _range(self, n: int) -> tuple[int, int]:
        """Smallest and largest number of components of a mixture of ``n`` objects."""
        given = self.n_clusters
        if given is None:
            high = max(2, math.isqrt(n))
            return min(n, max(2, high // 2)), min(n, high)
        low, high = range_of(given)
        return min(low, n), min(high, n)

    def transform(self, X: Array) -> np.ndarray:
        """Posteriors (n_new, K) of new objects; the columns of every mixture sum to one.

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

        They can be passed to a consensus: ``EvidenceAccumulation(3,
        ensemble="precomputed").fit(...)``.

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


class Given(NamedTuple):
    """A fitted estimator of the user: its memberships, or indicators of its labels ``names``.

    Labels that are not in ``names``, such as -1 for noise, give a row of zeros (not seen).
    """

    estimator: Estimator
    width: int
    names: np.ndarray | None = None

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, width) of a block of objects."""
        if self.names is not None:
            labels = np.asarray(self.estimator.predict(block))
            return (labels[:, None] == self.names).astype(np.float64)
        U = np.asarray(check_memberships(self.estimator.predict_proba(block)), dtype=np.float64)
        if U.shape[1] != self.width:
            raise ValueError(
                f"{type(self.estimator).__name__}.predict_proba has {U.shape[1]} columns for new "
                f"objects and {self.width} for the fitted ones"
            )
        return U


class Members(NamedTuple):
    """Fitted members."""

    members: list[Given]

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member, (m + 1,)."""
        return np.cumsum([0, *(each.width for each in self.members)])

    def columns(self, block: Any) -> np.ndarray:
        """Columns (b, K) of all members side by side."""
        return np.hstack([each(block) for each in self.members])


def check_members(members: Any) -> None:
    """Refuse anything but a list of estimators."""
    if not isinstance(members, (list, tuple)) or not members:
        raise ValueError(f"members must be a list of at least one estimator, got {members!r}")
    for each in members:
        if isinstance(each, type):
            raise TypeError(
                f"members must hold estimators, not classes: give {each.__name__}() in place of "
                f"{each.__name__}"
            )
        if not hasattr(each, "fit"):
            raise TypeError(f"members must hold estimators with fit, got {each!r}")


def lowered(estimator: Estimator, n_objects: int) -> dict[str, int]:
    """Numbers of clusters above the number of objects, lowered to it."""
    own = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: n_objects
        for name in ("n_clusters", "n_components")
        if isinstance(own.get(name), Integral) and own[name] > n_objects
    }


def fit_member(X: Array, estimator: Estimator, weights: Weights, seed: int) -> Any:
    """A member fitted to objects (s, p), or a ``Failure``, so that the others continue.

    Warnings of a member, for example about its number of clusters, do not concern the user.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _fitted(X, estimator, weights, seed)
    except Exception as error:
        return Failure(type(estimator).__name__, f"{type(error).__name__}: {error}")


def _fitted(X: Any, estimator: Estimator, weights: Weights, seed: int) -> Given:
    model = clone(estimator)
    if model.get_params().get("random_state", 0) is None:
        model.set_params(random_state=seed)
    model.set_params(**lowered(model, X.shape[0]))
    rows = fit_weighted(model, X, weights)
    if hasattr(model, "predict_proba"):
        U = np.asarray(check_memberships(model.predict_proba(X)))
        return Given(model, U.shape[1])
    by_rule = hasattr(model, "predict")
    labels = np.asarray(model.predict(X) if by_rule else model.labels_)
    n_objects = X.shape[0] if by_rule else len(rows)
    if labels.shape != (n_objects,):
        raise ValueError(f"it has labels of shape {labels.shape} for {n_objects} objects")
    names = np.unique(labels)
    names = names[names != -1] if names.dtype.kind in "if" else names
    if names.size == 0:
        raise ValueError("every object is noise, label -1")
    # Without a rule, new objects get the label of the nearest fitted one.
    known = model if by_rule else KNeighborsClassifier(1).fit(X[rows], labels)
    return Given(known, len(names), names)
