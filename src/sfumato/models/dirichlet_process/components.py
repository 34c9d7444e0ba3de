"""Components of a mixture, each with the conjugate prior that lets its parameters be integrated
out.

Everything a component knows of its objects is the sum of their features z(x), so that with  S_k =
sum_i r_ik z(x_i)

    log evidence of cluster k         =  E(S_k),  E(0) = 0
    expected log likelihood of x      =  C(S_k) . z(x)
    divergence of posterior and prior =  C(S_k) . S_k - E(S_k)

and the predictive density of a new object is E(S_k + z(x)) - E(S_k). Objects are columns: features
are (q, b). Terms that do not depend on the cluster (units, multinomial coefficients) are left to
``log_base``. A missing number (NaN) has zero features, or NaN where features are correlated
(``missing``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from ...array.arrays import namespace, to_numpy
from ...array.types import Array
from ...conjugate.kernel import LOG_2PI, normal_wishart_log_normalizer
from ...numerics import distances
from . import missing

__all__ = ["CountComponent", "DiagonalComponent", "FullComponent", "standardize"]


def standardize(X: Any, center: np.ndarray, unit: np.ndarray) -> Any:
    """Objects as columns (d, b) in float64, centred and in units of each feature."""
    xp = namespace(X)
    if sp.issparse(X):
        X = X.toarray()
    device = getattr(X, "device", None)
    X = xp.astype(X, xp.float64)
    X = (X - xp.asarray(center, device=device)) / xp.asarray(unit, device=device)
    return xp.asarray(X.T, copy=True) if xp is not np else np.ascontiguousarray(X.T)


class FullComponent(NamedTuple):
    """Normal with full covariance; prior normal-inverse-Wishart in standardised units."""

    mean: np.ndarray
    kappa: float
    df: float
    scale: np.ndarray
    center: np.ndarray
    unit: np.ndarray

    def features(self, X: Array) -> Any:
        """Features z(x) (q, n) of every row."""
        return distances.features(standardize(X, self.center, self.unit), "full")

    def has_holes(self, Z: Array) -> bool:
        """Whether some of these features are missing, of arrays of NumPy."""
        return isinstance(Z, np.ndarray) and bool(np.isnan(Z[1 : len(self.mean) + 1]).any())

    def log_base(self, Z: Array) -> Any:
        """Part of the log density that holds no parameter, (n,)."""
        if self.has_holes(Z):
            return -np.log(self.unit) @ ~np.isnan(Z[1 : len(self.unit) + 1])
        return -np.log(self.unit).sum() * Z[0]

    def expected_logits(self, C: np.ndarray, Z: Any) -> Any:
        """C . z(x) (k, b), integrated over missing values."""
        if self.has_holes(Z):
            return missing.logits(C, Z, len(self.mean))
        return _plain_logits(C, Z)

    def expected_sums(self, R: Any, C: np.ndarray, Z: Any) -> np.ndarray:
        """Sums (k, q) of z(x) weighted by ``R`` (k, b), expected where values are missing."""
        return missing.sums(R, C, Z, len(self.mean)) if self.has_holes(Z) else to_numpy(R @ Z.T)

    def posterior(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """mean (k, d), kappa (k,), df (k,) and scale (k, d, d) given the sums of features (k,
        q).
        """
        count, total, square = distances.moments(S, len(self.mean), "full")
        kappa = self.kappa + count
        mean = (self.kappa * self.mean + total) / kappa[:, None]
        prior = self.scale + self.kappa * np.outer(self.mean, self.mean)
        return (
            mean,
            kappa,
            self.df + count,
            prior + square - kappa[:, None, None] * mean[:, :, None] * mean[:, None, :],
        )

    def log_evidence(self, S: np.ndarray) -> np.ndarray:
        """Log probability (k,) of the objects of every cluster, parameters integrated out."""
        d = len(self.mean)
        _, kappa, df, scale = self.posterior(S)
        return (
            normal_wishart_log_normalizer(kappa, df, scale)
            - _prior_log_normalizer(self.kappa, self.df, d, self.scale.tobytes())
            - 0.5 * d * LOG_2PI * (kappa - self.kappa)
        )

    def log_evidences(self, S: np.ndarray, df: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """As ``log_evidence``, (c, k), for c priors with other ``df`` (c,) and ``scale``
        (c, d, d).
        """
        d = len(self.mean)
        _, kappa, counts, scatter = self._replace(df=0.0, scale=np.zeros((d, d))).posterior(S)
        return (
            normal_wishart_log_normalizer(
                kappa, df[:, None] + counts, scale[:, None] + scatter[None]
            )
            - normal_wishart_log_normalizer(self.kappa, df, scale)[:, None]
            - 0.5 * d * LOG_2PI * (kappa - self.kappa)
        )

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        """Coefficients (k, q) of the expected log density of z(x)."""
        mean, kappa, df, scale = self.posterior(S)
        d = len(self.mean)
        C = -0.5 * distances.coefficients(mean, df[:, None, None] * np.linalg.inv(scale), "full")
        log_det = (
            digamma((df[:, None] - np.arange(d)) / 2).sum(axis=1)
            + d * np.log(2.0)
            - np.linalg.slogdet(scale)[1]
        )
        C[:, 0] += 0.5 * (log_det - d * LOG_2PI - d / kappa)
        return C

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """What ``log_predictive`` needs of the sums: constants (k,), exponents (k,), coefficients
        (k, q).
        """
        mean, kappa, df, scale = self.posterior(S)
        d = len(self.mean)
        constant = (
            gammaln((df + 1) / 2) - gammaln((df + 1 - d) / 2) - 0.5 * np.linalg.slogdet(scale)[1]
        )
        constant += 0.5 * d * np.log(kappa / ((kappa + 1) * np.pi))
        return (
            constant,
            (df + 1) / 2,
            distances.coefficients(
                mean, (kappa / (kappa + 1))[:, None, None] * np.linalg.inv(scale), "full"
            ),
        )

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Any) -> Any:
        """Log predictive density (k, b) of the objects with features ``Z`` (q, b)."""
        xp = namespace(Z)
        if self.has_holes(Z):
            return missing.log_predictive(parameters[1], parameters[2], Z, len(self.mean))
        constant, exponent, C = (
            xp.asarray(part, device=getattr(Z, "device", None)) for part in parameters
        )
        # The squared distance may come out below zero by rounding.
        return constant[:, None] - exponent[:, None] * xp.log1p(xp.clip(C @ Z, min=0.0))


@lru_cache(maxsize=8)
def _prior_log_normalizer(kappa: float, df: float, d: int, scale: bytes) -> float:
    """The constant of a prior, which is asked for in every step."""
    return float(normal_wishart_log_normalizer(kappa, df, np.frombuffer(scale).reshape(d, d)))


def _plain_logits(C: np.ndarray, Z: Any) -> Any:
    return namespace(Z).asarray(C, device=getattr(Z, "device", None)) @ Z


class DiagonalComponent(NamedTuple):
    """Normal with independent features: priors normal-inverse-gamma in standardised units, one per
    feature.
    """

    mean: np.ndarray
    kappa: np.ndarray
    shape: np.ndarray
    scale: np.ndarray
    center: np.ndarray
    unit: np.ndarray

    def features(self, X: Array) -> Any:
        """z(x) = (seen, x, x^2), each of length d."""
        X = standardize(X, self.center, self.unit)
        xp = namespace(X)
        unseen = xp.isnan(X)
        X = xp.where(unseen, xp.zeros_like(X), X)
        return xp.concat([xp.astype(~unseen, X.dtype), X, X * X], axis=0)

    def expected_logits(self, C: np.ndarray, Z: Any) -> Any:
        """C . z(x) (k, b)."""
        return _plain_logits(C, Z)

    def expected_sums(self, R: Any, C: np.ndarray, Z: Any) -> np.ndarray:
        """Sums (k, q) of z(x) weighted by ``R`` (k, b)."""
        return to_numpy(R @ Z.T)

    def log_base(self, Z: Array) -> Any:
        """Part of the log density that holds no parameter, (n,)."""
        xp = namespace(Z)
        return -(
            xp.asarray(np.log(self.unit), device=getattr(Z, "device", None)) @ Z[: len(self.unit)]
        )

    def posterior(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """mean, kappa, shape and scale, each (k, d), given the sums of features (k, 3 d)."""
        count, total, square = np.split(S, 3, axis=1)
        kappa = self.kappa + count
        mean = (self.kappa * self.mean + total) / kappa
        scale = self.scale + 0.5 * (self.kappa * self.mean**2 + square - kappa * mean**2)
        # Sums of squares cancel for tight clusters far from the middle; the posterior scale is
        # never less than the prior one.
        return mean, kappa, self.shape + count / 2, np.maximum(scale, 0.5 * self.scale)

    def log_evidence(self, S: np.ndarray) -> np.ndarray:
        """Log probability (k,) of the objects of every cluster, parameters integrated out."""
        _, kappa, shape, scale = self.posterior(S)
        posterior = gammaln(shape) - shape * np.log(scale) - 0.5 * np.log(kappa)
        prior = gammaln(self.shape) - self.shape * np.log(self.scale) - 0.5 * np.log(self.kappa)
        return (posterior - prior - 0.5 * LOG_2PI * (kappa - self.kappa)).sum(axis=1)

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        """Coefficients (k, q) of the expected log density of z(x)."""
        mean, kappa, shape, scale = self.posterior(S)
        precision = shape / scale
        constant = 0.5 * (
            digamma(shape) - np.log(scale) - LOG_2PI - 1 / kappa - precision * mean**2
        )
        return np.hstack([constant, precision * mean, -0.5 * precision])

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """Constants, exponents, means and widths, each (k, d)."""
        mean, kappa, shape, scale = self.posterior(S)
        constant = (
            gammaln(shape + 0.5)
            - gammaln(shape)
            - 0.5 * (LOG_2PI + np.log(scale) + np.log1p(1 / kappa))
        )
        return constant, shape + 0.5, mean, 0.5 * kappa / ((kappa + 1) * scale)

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Array) -> Any:
        """Log predictive density (k, b) of the objects with features ``Z`` (3 d, b)."""
        xp = namespace(Z)
        d = len(self.mean)
        seen, X = Z[:d, :], Z[d : 2 * d, :]
        rows = []
        for row in zip(*parameters, strict=True):
            constant, exponent, mean, width = (
                xp.asarray(part, device=getattr(Z, "device", None))[:, None] for part in row
            )
            rows.append(
                xp.sum(seen * (constant - exponent * xp.log1p(width * (X - mean) ** 2)), axis=0)
            )
        return xp.stack(rows)


class CountComponent(NamedTuple):
    """Groups of categories with a Dirichlet prior each.

    One group of d categories (counts), or d groups of two (yes or no).

    ``prior`` is (categories, groups); features run through it row by row. ``trials`` is ``None``
    for rows of counts.
    """

    prior: np.ndarray
    trials: np.ndarray | None = None

    def features(self, X: Any) -> Any:
        """The counts of every category, zero where missing."""
        if self.trials is None:
            return (
                X.T.astype(np.float64)
                if sp.issparse(X)
                else namespace(X).asarray(X.T, dtype=namespace(X).float64)
            )
        X = (X.toarray() if sp.issparse(X) else to_numpy(X)).T.astype(np.float64)
        failures = self.trials[:, None] - X
        return np.nan_to_num(np.concatenate([X, failures]), nan=0.0, copy=False)

    def _groups(self, S: np.ndarray) -> Any:
        return S.reshape(-1, *self.prior.shape)

    def expected_logits(self, C: np.ndarray, Z: Any) -> Any:
        """C . z(x) (k, b)."""
        return _plain_logits(C, Z)

    def expected_sums(self, R: Any, C: np.ndarray, Z: Any) -> np.ndarray:
        """Sums (k, q) of z(x) weighted by ``R`` (k, b)."""
        return to_numpy(R @ Z.T)

    def log_base(self, Z: Any) -> Any:
        """Logarithm of the multinomial coefficients, (b,)."""
        Z = Z.toarray() if sp.issparse(Z) else to_numpy(Z)
        totals = Z.reshape(*self.prior.shape, -1).sum(axis=0)
        return gammaln(totals + 1).sum(axis=0) - gammaln(Z + 1).sum(axis=0)

    def log_evidence(self, S: np.ndarray) -> np.ndarray:
        """Log probability (k,) of the objects of every cluster, parameters integrated out."""
        posterior = self.prior + self._groups(S)
        gain = gammaln(posterior).sum(axis=1) - gammaln(posterior.sum(axis=1))
        return (gain - gammaln(self.prior).sum(axis=0) + gammaln(self.prior.sum(axis=0))).sum(
            axis=1
        )

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        """Coefficients (k, q) of the expected log density of z(x)."""
        posterior = self.prior + self._groups(S)
        return (digamma(posterior) - digamma(posterior.sum(axis=1, keepdims=True))).reshape(
            len(S), -1
        )

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """Posterior concentrations (k, q)."""
        return (self.prior.reshape(-1) + S,)

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Any) -> Any:
        """Log predictive probability (k, b), without the multinomial coefficients, of the objects
        with features ``Z`` (q, b).
        """
        (concentration,) = parameters
        totals = self._groups(concentration).sum(axis=1)
        if not sp.issparse(Z):
            Z = to_numpy(Z)
            drawn = Z.reshape(*self.prior.shape, -1).sum(axis=0)
            # With single draws the rising factorials are the concentrations themselves: one
            # product.
            if drawn.max(initial=0.0) <= 1.0 and np.isin(Z, (0.0, 1.0)).all():
                return np.log(concentration) @ Z - np.log(totals) @ drawn
        rows = Z.tocsc() if sp.issparse(Z) else Z
        return np.stack(
            [
                _rise(a, rows) - _rise(t, _drawn(rows, self.prior.shape))
                for a, t in zip(concentration, totals, strict=True)
            ]
        )


def _drawn(Z: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Number of draws (groups, b) behind the counts ``Z``."""
    return (
        np.asarray(Z.sum(axis=0)).reshape(1, -1)
        if sp.issparse(Z)
        else Z.reshape(*shape, -1).sum(axis=0)
    )


def _rise(a: np.ndarray, Z: Any) -> np.ndarray:
    """Sum over rows of  log Gamma(a + z) - log Gamma(a)  for the columns of ``Z``."""
    if sp.issparse(Z):
        parts = sp.csc_array(
            (gammaln(a[Z.indices] + Z.data) - gammaln(a[Z.indices]), Z.indices, Z.indptr),
            shape=Z.shape,
        )
        return np.asarray(parts.sum(axis=0)).ravel()
    return (gammaln(a[:, None] + Z) - gammaln(a)[:, None]).sum(axis=0)
