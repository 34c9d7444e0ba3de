"""Base class of all estimators: checks, memory guard, fitted attributes, and labels from
memberships.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar

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

from ..array.arrays import namespace, reader, to_numpy
from ..array.docs import documented
from ..array.types import ArrayLike, RandomState
from ..array.validation import InputSize, check_number, free_memory, require
from ..array.warn import heard, warn
from ..data.features import observed_only, refuse_spread
from ..memberships import cooccurrence
from . import loop, structure
from .levels import Leveled


class Iterative(BaseEstimator):
    """Estimators that iterate from several starts, with the parameters for that."""

    def __init__(self, n_init: int, max_iter: int, tol: float, random_state: RandomState) -> None:
        self.n_init, self.max_iter, self.tol = n_init, max_iter, tol
        self.random_state = random_state

    def _check_loop_parameters(self) -> None:
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_number(self.tol, "tol", low=0)
        check_number(self.n_init, "n_init", low=1, integer=True)


class Clusterer(
    Leveled, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Iterative, ABC
):
    """Base class of all estimators with memberships."""

    # Class attributes that the command line needs to know about a model.
    needs_classes: ClassVar[bool] = False  # whether ``fit`` needs ``y``
    may_empty_clusters: ClassVar[bool] = False  # whether the best fit may have empty clusters
    # Who has a criterion for ``n_clusters``: "auto": the model; "never": choose_n_clusters;
    # "given": nobody, a number must be given; "always": the model infers the number
    chooses_n_clusters: ClassVar[str] = "never"
    # What ``fit`` reads: sparse arrays, missing values, dask arrays (blocks stay on the workers)
    _sparse: Any = False
    _missing: Any = False
    _streams: Any = False
    _evidence_: Any  # kept from the start of a fit until memberships are published
    notes_: tuple[str, ...]  # the texts of all warnings of the last fit, shown or not

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = remembering(vars(cls)["fit"])  # type: ignore[method-assign]

    def __init__(
        self, n_clusters: Any, n_init: int, max_iter: int, tol: float, random_state: RandomState
    ) -> None:
        super().__init__(n_init, max_iter, tol, random_state)
        self.n_clusters = n_clusters

    @property
    def unit_free(self) -> bool:
        """Whether the answer does not depend on the units of the features."""
        return False

    @abstractmethod
    def fit(self, X: Any, y: ArrayLike | None = None) -> Any:
        """Learn memberships."""

    @documented
    def predict_proba(self, X: Any, *, n_clusters: int | None = None) -> Any:
        """Memberships of new objects, each placed separately.

        In place of features, models with ``similarity="precomputed"`` are given similarities
        (n_new, n) to the fitted objects, and a consensus with ``ensemble="precomputed"`` labels by
        the same partitions or membership matrices. Of these, objects like no other get equal ones.

        %(new_objects)s
        """
        self._check_fitted()
        return self._new_at(self._placed(X), n_clusters, X)

    @abstractmethod
    def _placed(self, X: Any) -> Any:
        """Memberships of new objects at the level of the fit."""

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **options: Any) -> np.ndarray:
        """Fit the model, and return the label (n,) of every object."""
        return self.fit(X, y, **options).labels_

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **options: Any) -> Any:
        """Fit the model, and return the memberships (n, n_clusters) of the fitted objects."""
        return self.fit(X, y, **options).memberships_

    def transform(self, X: ArrayLike, *, n_clusters: int | None = None) -> Any:
        """Memberships (n_new, n_clusters) of new objects: the same as ``predict_proba``."""
        return self.predict_proba(X, n_clusters=n_clusters)

    def predict(self, X: ArrayLike, *, n_clusters: int | None = None) -> Any:
        """Label of every new object: the cluster of its largest membership."""
        memberships = self.predict_proba(X, n_clusters=n_clusters)
        return namespace(memberships).argmax(memberships, axis=1)

    @property
    def probabilities_(self) -> Any:
        """Memberships of the fitted objects, under the name that topic models use."""
        return self.memberships_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "memberships_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = self._sparse, self._missing
        tags.target_tags.required = self.needs_classes
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.memberships_.shape[1]

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _has_noise(self) -> bool:
        """Whether the last column of the memberships is noise."""
        return getattr(self, "noise_cluster", None) is not None

    def _forget(self) -> None:
        """Delete the results of an earlier fit, so that a failed fit leaves it unfitted."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _check_memory(self, X: ArrayLike) -> None:
        """Refuse a fit that needs too much memory, and keep the data for the structure test."""
        refuse_spread(self, X)
        self._evidence_ = X
        size = InputSize.of(X)
        if size is not None:
            task, needed = f"{type(self).__name__}.fit", self._memory_needed(size)
            budget = free_memory(X) if getattr(X, "is_cuda", False) else None
            require(task, needed, self._smaller_alternatives(size), budget)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        """Names and bytes of the largest arrays of a fit, besides the data."""
        k = min(most_clusters(self.n_clusters), size.n)
        memberships = size.n * k * size.itemsize
        return {"a copy of X": size.copy(), "memberships": memberships, "labels": 8 * size.n}

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        """Ways to fit the same objects in less memory, and the bytes they take."""
        if size.itemsize == 8:
            halved = sum(self._memory_needed(size.halved()).values()) + 4 * size.stored
            yield "convert it with .astype('float32')", halved
        if hasattr(self, "partial_fit"):
            yield "use partial_fit on batches", 0
            shards = "give a dask array (sfumato.dask.shards)"
            yield f"{shards}, whose memberships stay on its workers", 0
        yield "fit a sample of the objects, then predict_proba of the others in batches", 0

    def _publish(self, memberships: Any, run: loop.Run, objective: float | None = None) -> None:
        """Set the fitted attributes that all estimators have."""
        xp = namespace(memberships)
        for name in ("_fitted_to_", "_levels_", "_scores_", "_coarser_", "_finer_", "_parts_"):
            self.__dict__.pop(name, None)  # levels of earlier memberships
        self.n_clusters_ = int(memberships.shape[1])
        self.objective_ = float(run.objective if objective is None else objective)
        self.history_ = run.history
        if objective is not None:
            self.history_ = np.append(run.history, self.objective_)
        self.n_iter_, self.converged_ = run.n_iter, run.converged
        self.labels_ = xp.argmax(memberships, axis=1)
        self.memberships_ = memberships
        self._assess_structure(memberships)
        if not run.converged:
            warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} iterations: "
                f"raise max_iter, or tol={self.tol:g}",
                ConvergenceWarning,
            )

    def _assess_structure(self, memberships: ArrayLike) -> None:
        """Set ``structure_``, and warn of memberships that the data do not support."""
        given = self.__dict__.pop("_evidence_", None)
        evidence, kind = (None, "") if given is None else self._structure_evidence(given)
        if evidence is None:
            return
        noise = self._has_noise()
        self.structure_ = structure.assess(evidence, memberships, kind=kind, noise=noise)
        self._warn_about_structure()

    def _warn_about_structure(self) -> None:
        found = getattr(self, "structure_", None)
        if found is not None:
            clusters = self.n_clusters_ - self._has_noise()
            structure.warn_about_structure(found, self.memberships_, clusters)

    def _warn_of_empty_clusters(self) -> None:
        """Warn about empty clusters, unless another warning was given."""
        k = self.n_clusters_ - self._has_noise()
        if self.notes_ or self.may_empty_clusters or reader(self.labels_) is not None:
            return
        used = np.count_nonzero(np.bincount(to_numpy(self.labels_), minlength=k)[:k])
        if 0 < used < k:
            text = f"only {used} of the {k} clusters are the main cluster of some object: "
            warn(text := f"{text}fewer clusters may be enough")
            self.notes_ = (text,)

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """The data in the form of the structure test, and their kind; None if no test applies."""
        return plain_features(evidence), "features"


class CooccurrenceIntervals(Clusterer):
    """Models that can be refitted to resampled data."""

    @abstractmethod
    def _membership_draws(self, n_draws: int) -> Iterable[np.ndarray]:
        """Memberships (n, k) of the fitted objects, learnt from resampled data."""

    def cooccurrence_interval(
        self, pairs: ArrayLike, *, n_draws: int = 100, confidence: float = 0.9
    ) -> np.ndarray:
        """Bootstrap intervals for the chance that two objects belong together.

        A consensus resamples its partitions. A pairwise model draws similarities from the fitted
        model, Gaussian around scale * u_i'u_j with variance ``noise_variance_``, and is fitted to
        them again; it forms all pairs of objects.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2)
            Indices of fitted objects.
        n_draws : int
            Number of resamples.
        confidence : float
            Share of the resamples inside the interval.

        Returns
        -------
        interval : array of shape (n_pairs, 2)
            Lower and upper end of u_i'u_j.
        """
        self._check_fitted()
        check_number(n_draws, "n_draws", low=2, integer=True)
        check_number(confidence, "confidence", low=0, high=1, strict=True)
        values = [cooccurrence(draw, pairs) for draw in self._membership_draws(n_draws)]
        return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0).T


@contextmanager
def noted(owner: object) -> Iterator[list[str]]:
    """Texts of all warnings in this context, shown or not, except those of another owner inside."""
    held = heard.get((None, []))
    token = heard.set(held if held[0] is owner else (owner, []))
    try:
        yield heard.get()[1]
    finally:
        heard.reset(token)


def remembering(fit: Callable[..., Any]) -> Callable[..., Any]:
    """``fit``, changed to keep its warnings and, for finer levels, its arguments (no copies)."""
    names = signature(fit)

    @wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        with noted(self) as said:
            self._forget()
            try:
                answer = fit(self, *args, **kwargs)
            except (ValueError, TypeError):
                self._forget()
                raise
            # A fit that took over a fitted copy already has the warnings of the copy.
            self.notes_ = tuple(dict.fromkeys([*getattr(self, "notes_", ()), *said]))
            self._warn_of_empty_clusters()
        given = names.bind(self, *args, **kwargs).arguments
        given.pop("self")
        self._fitted_to_ = given | given.pop("kwargs", {})
        return answer

    return fitted


class Constrained(Clusterer):
    """Models of features that take weights, labels of some objects, and links."""

    @documented
    @observed_only
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn the model.

        Parameters
        ----------
        X : array, sparse array or data frame of shape (n, p)
            One object per row; NaN means missing. Sparse rows are made dense block by block.
        %(partial_labels)s
        %(sample_weight)s
        %(mixture_links)s

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight, (must_link, cannot_link))

    @abstractmethod
    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None, links: Any) -> Any:
        """Learn the model with pairs of rows that must and cannot be linked."""


def most_clusters(n_clusters: int | str | Sequence[int]) -> int:
    """The number of clusters, the largest of several; 1 if not known yet."""
    several = n_clusters if isinstance(n_clusters, (list, tuple, range)) else [n_clusters]
    return max((int(k) for k in several if isinstance(k, Integral) and int(k) > 0), default=1)


def plain_features(X: Any) -> Any:
    """Features whose rows can be selected; None for text, and for arrays on other machines."""
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
