"""Any estimators as members of an ensemble: memberships of soft ones, indicators of hard ones."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import has_fit_parameter

from ...array.types import Array, Estimator, Weights
from ...memberships import check_memberships
from .members import Failure, copies

__all__ = ["Members", "check_members", "fit_member", "lowered"]


class Soft(NamedTuple):
    """A fitted estimator with memberships of its own."""

    estimator: Estimator
    width: int

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block of objects."""
        U = np.asarray(check_memberships(self.estimator.predict_proba(block)), dtype=np.float64)
        if U.shape[1] != self.width:
            raise ValueError(
                f"{type(self.estimator).__name__}.predict_proba has {U.shape[1]} columns for new "
                f"objects and {self.width} for the fitted ones"
            )
        return U


class Hard(NamedTuple):
    """A fitted estimator with labels: those it predicts, or that of the nearest fitted object.

    A label that is not among ``names``, such as -1 for noise, is a row of zeros: not seen.
    """

    estimator: Estimator
    names: np.ndarray
    nearest: NearestNeighbors | None
    labels: np.ndarray

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def __call__(self, block: Any) -> np.ndarray:
        """Indicators (b, k) of a block of objects."""
        if self.nearest is None:
            labels = np.asarray(self.estimator.predict(block))
        else:
            labels = self.labels[self.nearest.kneighbors(block, 1, return_distance=False)[:, 0]]
        return (labels[:, None] == self.names).astype(np.float64)


class Members(NamedTuple):
    """Fitted members, and where the columns of each begin."""

    members: list[Soft | Hard]

    @property
    def offsets(self) -> np.ndarray:
        """Where the columns of each member begin, (m + 1,)."""
        return np.cumsum([0, *(each.width for each in self.members)])

    def columns(self, block: Any) -> np.ndarray:
        """Columns (b, K) of all members side by side."""
        return np.hstack([each(block) for each in self.members])


def check_members(members: Any) -> None:
    """Refuse what cannot be a list of members."""
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
    """Numbers of clusters beyond that of the objects, lowered to it."""
    own = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: n_objects
        for name in ("n_clusters", "n_components")
        if isinstance(own.get(name), Integral) and own[name] > n_objects
    }


def fit_member(X: Array, estimator: Estimator, weights: Weights, seed: int) -> Any:
    """A member fitted to objects (s, p), or the reason why it failed, so that one failure does not
    stop the others.

    What a member warns of, such as a number of clusters of its own, is no answer to the user.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _fitted(X, estimator, weights, seed)
    except Exception as error:
        return Failure(type(estimator).__name__, f"{type(error).__name__}: {error}")


def _fitted(X: Any, estimator: Estimator, weights: Weights, seed: int) -> Soft | Hard:
    model = clone(estimator)
    own = model.get_params()
    if "random_state" in own and own["random_state"] is None:
        model.set_params(random_state=seed)
    model.set_params(**lowered(model, X.shape[0]))
    rows = np.arange(X.shape[0])
    if weights is None:
        model.fit(X)
    elif has_fit_parameter(model, "sample_weight"):
        model.fit(X, sample_weight=weights)
    else:
        rows = copies(weights, type(model).__name__)
        model.fit(X[rows])
    if hasattr(model, "predict_proba"):
        U = np.asarray(check_memberships(model.predict_proba(X)))
        return Soft(model, U.shape[1])
    by_rule = hasattr(model, "predict")
    labels = np.asarray(model.predict(X) if by_rule else model.labels_)
    n_objects = X.shape[0] if by_rule else len(rows)
    if labels.shape != (n_objects,):
        raise ValueError(f"it has labels of shape {labels.shape} for {n_objects} objects")
    names = np.unique(labels)
    names = names[names != -1] if names.dtype.kind in "if" else names
    if names.size == 0:
        raise ValueError("every object is noise, label -1")
    nearest = None if by_rule else NearestNeighbors(n_neighbors=1).fit(X[rows])
    return Hard(model, names, nearest, labels)
