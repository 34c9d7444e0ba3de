"""Methods of fitted Dirichlet process mixtures: memberships and densities of new objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import is_numpy, namespace, to_numpy
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import ArrayLike
from ...array.validation import check_weights
from ...conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from ...data.features import check_features
from ...engine.base import Clusterer
from . import priors, sampling, variational

__all__ = ["FittedProcess"]


class FittedProcess(Clusterer):
    """Methods of a mixture that has a posterior, approximate or sampled."""

    component: Any
    inference: str
    _posterior: variational.Approximation | sampling.Posterior

    @documented
    def predict_proba(self, X: ArrayLike, *, n_clusters: int | None = None) -> Any:
        """Memberships of new objects by the posterior predictive.

        %(new_objects)s
        """
        self._check_fitted()
        return self._new_at(self._memberships(self._check_new(X)), n_clusters, X)

    def score_samples(self, X: ArrayLike) -> Any:
        """Log posterior predictive density of every object.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)

        Returns
        -------
        log_density : array of shape (n_new,)
        """
        self._check_fitted()
        return Rows(self._check_new(X), n_jobs=self.n_jobs).map(self._posterior.log_density)

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log posterior predictive density.

        Higher is better, and comparable between models of the same data.
        """
        density = to_numpy(self.score_samples(X))
        return float(
            np.average(
                density,
                weights=None
                if sample_weight is None
                else to_numpy(check_weights(sample_weight, X)),
            )
        )

    def _memberships(self, X: np.ndarray) -> Any:
        U = Rows(X, n_jobs=self.n_jobs).map(self._posterior.memberships)
        xp = namespace(X)
        return (
            U.astype(X.dtype, copy=False)
            if xp is np
            else xp.asarray(U, dtype=X.dtype, device=X.device)
        )

    def _check_new(self, X: ArrayLike) -> Any:
        X = check_features(self, X, reset=False, missing=True)
        self._refuse_missing(X)
        priors.check_counts(self._posterior.component, X)
        priors.check_reach(self._posterior.component, Rows(X, n_jobs=self.n_jobs))
        return X

    def _kind(self) -> type:
        """Class of the component."""
        return self.component if isinstance(self.component, type) else type(self.component)

    def _takes_missing(self) -> bool:
        kind = self._kind()
        correlated = kind is NormalInverseWishart and self.inference == "variational"
        return correlated or kind in (NormalInverseGamma, BetaBinomial)

    def _refuse_missing(self, X: Any) -> None:
        """Refuse missing values that the component cannot handle, and name what can."""
        kind = self._kind()
        apart = kind in (NormalInverseGamma, BetaBinomial)
        if apart or (self._takes_missing() and (is_numpy(X) or sp.issparse(X))):
            return
        values = X.data if sp.issparse(X) else X
        if not bool(namespace(values).isnan(values).any()):
            return
        if kind is DirichletMultinomial:
            way = "a row of counts has no total then; drop those rows or fill them in"
        elif self._takes_missing():
            way = "give X as a NumPy array, or set component=NormalInverseGamma"
        else:
            way = "set inference='variational', or component=NormalInverseGamma"
        raise ValueError(
            f"X contains NaN, missing values, which component={kind.__name__} with "
            f"inference={self.inference!r} does not take: {way}"
        )

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """Densities of measurements only: counts have none."""
        counts = self._kind() in (BetaBinomial, DirichletMultinomial)
        return (None, "") if counts else super()._structure_evidence(evidence)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing()
        return tags
