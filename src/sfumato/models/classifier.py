"""Discriminant analysis by Gaussian mixtures: classes are known, their densities are not.

    p(c | x)  ~  share_c  sum_j  pi_cj N(x | mu_cj, Sigma_cj)

One component per class with covariances of one family is eigenvalue decomposition discriminant
analysis (Bensmail and Celeux 1996), which includes linear (EEE) and quadratic (VVV) discriminant
analysis. A mixture per class is mixture discriminant analysis (Hastie and Tibshirani 1996; MclustDA
of Fraley and Raftery 2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..array.arrays import to_numpy
from ..array.types import Array, ArrayLike, RandomState
from ..array.validation import check_number, check_weights
from ..data.constraints import Known
from ..data.features import check_features
from ..engine.clusterer import Iterative
from .gaussian import GaussianMixture

__all__ = ["MixtureClassifier"]


class _DensityMixture(GaussianMixture):
    """A mixture used as a class density, not as a clustering: it has no test for clusters."""

    def _assess_structure(self, memberships: ArrayLike) -> None:
        """No test, since classes need not be clusters."""

    def _one_is_enough(self, *_: Any) -> str:
        """No message: one component per class is fine."""
        return ""

    def score_samples(self, X: Array, *, measurement_error: ArrayLike | None = None) -> Any:
        """Log density, including features that are constant within a class and may separate it."""
        density = super().score_samples(X, measurement_error=measurement_error)
        if self._constant is None or self._classes is not None:
            return density
        return to_numpy(density) + self._constant.log_density(to_numpy(X))

    def _known(self, y: Any, links: tuple[Any, Any], X: Array, k: int) -> Known:
        if y is None:
            return super()._known(y, links, X, k)
        # Components are classes, and every label is known.
        self._classes, none = np.arange(k), np.empty((0, 2), dtype=np.intp)
        return Known(component=y, labels=y, links=none, signs=np.empty(0))


def _refuse_unknown(labels: np.ndarray) -> None:
    missing = np.array([value is None or value != value for value in labels.tolist()], dtype=bool)
    sign = "NaN or None"
    if labels.dtype.kind in "if" and not missing.any():
        # With only one other class, -1 is the usual name of a class.
        missing, sign = labels == -1, "-1"
        if len(np.unique(labels[~missing])) < 2:
            return
    if missing.any():
        raise ValueError(
            f"y has {sign} for {missing.sum()} objects (first: row {missing.argmax()}), which "
            "means unknown, where MixtureClassifier needs the class of every object: leave them "
            "out, or give y with -1 for unknown to GaussianMixture"
        )


class MixtureClassifier(ClassifierMixin, Iterative):
    """Probabilities of known classes whose densities are Gaussian mixtures.

    Parameters
    ----------
    n_components : int, "auto" or a sequence of int, default=1
        Components per class. With 1, the covariances of all classes belong to one family [1]_.
        Otherwise every class has its own mixture and family [2]_, with the best of the given
        numbers ("auto": 1 to 9).
    covariance_type : str, default="auto"
        Family of the covariances as in ``GaussianMixture``: "tied" (EEE) gives linear, "full" (VVV)
        quadratic discriminant analysis, "auto" the family with the best ``criterion``.
    criterion : {"bic", "icl", "aic"}, default="bic"
        What "auto" minimises.
    prior : {None, "default"} or NormalInverseWishart, default=None
        Prior of means and covariances, as in ``GaussianMixture``.
    regularization : float, default=1e-9
        Smallest variance of a component in any direction, relative to that of the data.
    n_init, max_iter, tol, random_state
        As in ``GaussianMixture``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_prior_ : array of shape (n_classes,)
        Share of each class in the data.
    mixtures_ : list of GaussianMixture
        One mixture with a component per class, or one mixture per class.
    covariance_type_ : str or list of str
        The fitted family, or the family of each class.

    References
    ----------
    .. [1] Bensmail and Celeux, Regularized Gaussian discriminant analysis, JASA 91, 1996.
    .. [2] Fraley and Raftery, Model-based clustering and discriminant analysis, JASA 97, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sfumato import MixtureClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MixtureClassifier(random_state=0).fit(X, y)
    >>> model.covariance_type_, round(model.score(X, y), 2)
    ('VEV', 0.98)
    """

    def __init__(
        self,
        n_components: int | str | Sequence[int] = 1,
        *,
        covariance_type: str = "auto",
        criterion: str = "bic",
        prior: Any = None,
        regularization: float = 1e-9,
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type, self.regularization = covariance_type, regularization
        self.criterion, self.prior = criterion, prior
        super().__init__(n_init, max_iter, tol, random_state)

    def fit(self, X: Array, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Any:
        """Learn the densities of the classes.

        Parameters
        ----------
        X : array of shape (n, p)
            Features; NaN means missing.
        y : array of shape (n,)
            The class of every object. If there are at least two other classes, -1 means unknown and
            is refused.
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # a failed fit keeps nothing of an earlier one
        if y is None:
            raise ValueError("y must give the class of every object, got None")
        X = check_features(self, X, reset=True, missing=True, sparse=False)
        labels: np.ndarray = column_or_1d(y, warn=True)
        _refuse_unknown(labels)
        check_classification_targets(labels)
        if len(labels) != X.shape[0]:
            raise ValueError(
                f"y has {len(labels)} labels for {X.shape[0]} objects: give one for each"
            )
        weights = check_weights(sample_weight, X)
        classes, codes = np.unique(labels, return_inverse=True)
        mass = np.bincount(codes, weights, len(classes))
        if mass.min() <= 0:
            empty = classes[np.argmin(mass)]
            raise ValueError(f"class {empty} has no object of positive weight: drop it")
        mixtures = self._fit_classes(X, codes, weights, len(classes))
        types = [mixture.covariance_type_ for mixture in mixtures]
        self.classes_, self.class_prior_, self.mixtures_ = classes, mass / mass.sum(), mixtures
        self.covariance_type_: Any = types[0] if self._common else types
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixtures_")

    def _fit_classes(
        self, X: Array, codes: np.ndarray, weights: np.ndarray | None, n_classes: int
    ) -> list[GaussianMixture]:
        settings = self.get_params()
        n_components = settings.pop("n_components")
        self._common = isinstance(n_components, Integral) and n_components == 1
        if not isinstance(n_components, (str, Sequence, np.ndarray)):
            check_number(n_components, "n_components", low=1, integer=True)
        if self._common:
            return [_DensityMixture(n_classes, **settings)._learn(X, codes, weights)]
        mixtures = []
        for c in range(n_classes):
            own = codes == c
            part = None if weights is None else weights[own]
            mixture = _DensityMixture(n_components, **settings)
            mixtures.append(mixture.fit(X[own], sample_weight=part))
        return mixtures

    def _log_joint(self, X: Array) -> np.ndarray:
        """log share_c + log p(x | c), shape (n, n_classes)."""
        check_is_fitted(self, "mixtures_")
        X = check_features(self, X, reset=False, missing=True, sparse=False)
        if not self._common:
            densities = [to_numpy(mixture.score_samples(X)) for mixture in self.mixtures_]
            return np.stack(densities, axis=1) + np.log(self.class_prior_)
        mixture = self.mixtures_[0]
        U = np.maximum(to_numpy(mixture.predict_proba(X)), np.finfo(float).tiny)
        return np.log(U) + to_numpy(mixture.score_samples(X))[:, None]

    def predict_proba(self, X: Array) -> np.ndarray:
        """Probabilities (n_new, n_classes) of the classes of objects (n_new, p)."""
        return np.exp(log_softmax(self._log_joint(X), axis=1))

    def predict(self, X: Array) -> np.ndarray:
        """The most probable class of every object."""
        joint = self._log_joint(X)
        return self.classes_[joint.argmax(axis=1)]

    def score_samples(self, X: Array) -> np.ndarray:
        """Log density at every object, over all classes."""
        return logsumexp(self._log_joint(X), axis=1)

    def bic(self, X: Array, y: ArrayLike) -> float:
        """Bayesian information criterion for objects with their classes; lower is better."""
        L, y = self._log_joint(X), np.asarray(y)
        refused = ~np.isin(y, self.classes_)
        if refused.any():
            raise ValueError(f"y has the class {y[refused][0]}, which fit has not seen")
        value = L[np.arange(len(L)), np.searchsorted(self.classes_, y)].sum()
        own = sum(mixture._component.n_parameters() for mixture in self.mixtures_)
        p = own if self._common else own + len(self.classes_) - 1
        return float(-2.0 * value + p * np.log(len(L)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
