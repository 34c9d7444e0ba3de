"""Methods of fitted mixtures: posterior probabilities, densities, criteria."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ..array.rows import Rows, add
from ..array.types import Array, ArrayLike, Weights
from ..array.validation import as_generator, check_number, check_weights
from ..data.features import check_features, refuse_tensors
from ..numerics.distances import softmax_columns
from .base import InductiveClusterer
from .linked import LinkedRows, free_weights
from .model_search import ModelCandidate

__all__ = ["FittedDensity"]


class Fit(NamedTuple):
    """Log-likelihood, uncertainty of the memberships (twice the logarithm of each row's largest,
    negative) and total weight.
    """

    log_likelihood: float
    uncertainty: float
    total: float


class FittedDensity(InductiveClusterer):
    """Methods of fitted mixtures that have a density.

    Hooks beside those of ``InductiveClusterer``: ``_read`` (evidence to an array), ``_logits``
    (of a block, in inner coordinates), ``_log_volumes`` (the Jacobian of these) and
    ``_n_parameters``. Rows that the user linked are with the model while it is fitted.
    """

    _setting: dict[str, Any]
    _linked_: LinkedRows | None  # kept during a fit
    _dtype: Any

    @abstractmethod
    def _logits(self, block: Array, ready: Any) -> np.ndarray:
        """log( pi_j f_j(x_i) ) (k, b) of a block, in float64, to be overwritten."""

    def _log_volumes(self, block: Array) -> Any:
        """Log-determinants of the coordinates, added to log-densities of a block: (b,) or one."""
        return 0.0

    @abstractmethod
    def _draw(self, labels: np.ndarray, rng: np.random.Generator) -> Any:
        """One object from the cluster of each label."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Number of free parameters of the present setting."""

    def _read(self, X: Array, *, reset: bool) -> Any:
        refuse_tensors(self, X)
        return check_features(self, X, reset=reset, missing=True, sparse=False)

    def _posterior(self, block: Array, ready: Any) -> tuple[np.ndarray, np.ndarray]:
        """Memberships (b, k) and log-densities (b,), in the units of the data, of a block."""
        U, level = softmax_columns(self._logits(block, ready))
        return U.T, level + self._log_volumes(block)

    def _links_of(self, rows: Rows) -> LinkedRows | None:
        """The linked rows, where ``rows`` are those of the fit."""
        return getattr(self, "_linked_", None) if len(rows.columns) > 1 else None

    def _couple(self, linked: LinkedRows, ready: Any) -> tuple[np.ndarray, float]:
        """Memberships (m, k) of linked rows, and their part of the inner log-likelihood."""
        return linked.couple(lambda block: self._logits(block, ready).T)

    def _candidate(self, rows: Rows, state: Any) -> ModelCandidate:
        fit, p = self._fit_of(rows, state), self._n_parameters()
        deviance = -2.0 * fit.log_likelihood
        bic = deviance + p * np.log(fit.total)
        return ModelCandidate(
            dict(self._setting),
            float(bic),
            float(bic + fit.uncertainty),
            float(deviance + 2.0 * p),
            fit.log_likelihood,
            p,
        )

    def _fit_of(self, rows: Rows, state: Any) -> Fit:
        ready, linked = self._ready(state), self._links_of(rows)

        def part(block: Array, weights: Weights = None, free: Weights = None) -> Fit:
            U, log_density = self._posterior(block, ready)
            return _fit(U, log_density, free_weights(len(U), weights, free))

        fit = rows.sum(part)
        if linked is None:
            return fit
        U, value = self._couple(linked, ready)
        gain = linked.rows.sum(lambda X, w: (float(np.sum(w * self._log_volumes(X))),))[0]
        own = _fit(U, np.zeros(len(U)), linked.weights)
        return add(fit, own._replace(log_likelihood=value + gain))

    def _given(self, X: Array, sample_weight: ArrayLike | None = None) -> Rows:
        self._check_fitted()
        X = self._read(X, reset=False)
        return self._rows(X, check_weights(sample_weight, X))

    def predict_proba(self, X: Array, *, n_clusters: int | None = None) -> np.ndarray:
        """Posterior probabilities of new objects; missing values are integrated out.

        Parameters
        ----------
        X : array or data frame of shape (n_new, p)
        n_clusters : int, optional
            Memberships at another level, a number in ``levels_``.

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        rows = self._given(X)
        ready = self._ready(self._state)
        kind = np.float32 if "float32" in str(rows.dtype) else np.float64
        U = rows.map(lambda block, _: self._posterior(block, ready)[0].astype(kind))
        return self._new_at(U, n_clusters, X)

    def score_samples(self, X: Array) -> np.ndarray:
        """Logarithm of the density at every object, of its observed values if some are missing.

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        log_density : array of shape (n,)
        """
        rows = self._given(X)
        ready = self._ready(self._state)
        return rows.map(lambda block, _: self._posterior(block, ready)[1])

    def score(
        self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log-likelihood per unit of weight."""
        fit = self._fit_of(self._given(X, sample_weight), self._state)
        return fit.log_likelihood / fit.total

    def bic(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion, ``-2 log L + p log n``: lower is better."""
        return self._candidate(self._given(X, sample_weight), self._state).bic

    def aic(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, ``-2 log L + 2 p``: lower is better."""
        return self._candidate(self._given(X, sample_weight), self._state).aic

    def icl(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood: ``bic`` plus the uncertainty of the memberships.

        The addition is ``-2 sum_i w_i log max_j u_ij`` (Biernacki, Celeux and Govaert 2000, in the
        form that R's mclust uses); lower is better.
        """
        return self._candidate(self._given(X, sample_weight), self._state).icl

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Draw objects from the mixture.

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
        share = np.asarray(self.weights_, dtype=np.float64)
        counts = rng.multinomial(n_samples, share / share.sum())
        labels = np.repeat(np.arange(len(share)), counts)
        return self._draw(labels, rng), labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags


def _fit(U: np.ndarray, log_density: np.ndarray, weights: np.ndarray) -> Fit:
    surest = np.log(U.max(axis=1))
    return Fit(float(weights @ log_density), float(-2.0 * (weights @ surest)), float(weights.sum()))
