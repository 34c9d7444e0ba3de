"""Components with conjugate priors, whose parameters are integrated out, made from the public
priors of ``sfumato.conjugate`` and turned back into them.

A component depends on its objects only through the sums of their features z(x), S_k = sum_i r_ik
z(x_i):

    log marginal likelihood of k      =  E(S_k),  E(0) = 0
    expected log likelihood of x      =  C(S_k) . z(x)
    divergence of posterior and prior =  C(S_k) . S_k - E(S_k)

and the predictive density of a new object is E(S_k + z(x)) - E(S_k). Objects are columns: features
are (q, b). Terms that do not depend on the cluster (units, multinomial coefficients) are in
``log_base``.

A missing value has zero features if features are independent. If they are correlated, it is a
latent variable, NaN in z(x): the expected log density C . z(x) = c - (x - m)' W (x - m) / 2 is
integrated over it, which gives the density of the observed values under N(m, W^-1), and sums of
features are replaced by expectations. Marginals of the predictive t distribution are t
distributions again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from ..array.arrays import asarray_like, namespace, to_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..array.warn import warn
from ..conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from ..conjugate.normal import LOG_2PI, normal_wishart_log_normalizer
from ..numerics import distances
from ..numerics.distances import Coordinates, measure
from ..numerics.missing import Marginal, Patterns
from . import incomplete


@dataclass(frozen=True, eq=False)
class Component:
    """Base class of the components, all of which have these methods.

    features(X), points(Z)      z(x) (q, b) of rows (b, p), and the rows with these features
    log_base(Z)                 parameter-free part (b,) of the log density
    log_marginal_likelihood(S)  E(S_k) (k,), with parameters integrated out
    coefficients(S)             C(S_k) (k, q)
    posterior(S)                parameters of the posterior of every cluster
    predictive(S)               what ``log_predictive(parameters, Z)`` (k, b), the log density of
                                new objects, needs
    embedding(X)                rows (b, p) as points for Euclidean distances
    seats(S, counts, n)         cached posteriors of clusters, for ``native/seating``
    """

    def expected_logits(self, C: np.ndarray, Z: Any) -> Any:
        """C . z(x) (k, b), integrated over missing values."""
        return asarray_like(C, Z) @ Z

    def expected_sums(self, R: Any, C: np.ndarray, Z: Any) -> np.ndarray:
        """Sums (k, q) of z(x) weighted by ``R`` (k, b); expectations for missing values."""
        return to_numpy(R @ Z.T)


@dataclass(frozen=True, eq=False)
class _NormalComponent(Component):
    """Normal clusters, in units in which the data have mean zero and variance one."""

    mean: np.ndarray
    kappa: Any
    df: Any  # degrees of freedom; for independent features, the shape of the variance priors
    scale: np.ndarray
    center: np.ndarray
    unit: np.ndarray

    def _columns(self, X: Any) -> Any:
        """Objects as columns (d, b) in float64, centred and in units of each feature."""
        X = X.toarray() if sp.issparse(X) else X
        xp = namespace(X)
        X = xp.astype(X, xp.float64)
        X = (X - asarray_like(self.center, X)) / asarray_like(self.unit, X)
        # Beyond this, squares would overflow.
        X = xp.clip(X, min=-1e70, max=1e70)
        return xp.asarray(X.T, copy=True) if xp is not np else np.ascontiguousarray(X.T)

    def embedding(self, X: Any) -> np.ndarray:
        return np.nan_to_num((_dense(X) - self.center) / self.unit, nan=0.0)


@dataclass(frozen=True, eq=False)
class FullComponent(_NormalComponent):
    """Normal with full covariance; prior normal-inverse-Wishart in standardised units."""

    def features(self, X: Array) -> Any:
        return distances.features(self._columns(X), "full")

    def _seen(self, Z: Array) -> np.ndarray | None:
        """Which values (d, b) are observed; None if all are."""
        if not isinstance(Z, np.ndarray):
            return None
        missing = np.isnan(Z[1 : len(self.mean) + 1])
        return ~missing if missing.any() else None

    def log_base(self, Z: Array) -> Any:
        seen = self._seen(Z)
        return -np.log(self.unit).sum() * Z[0] if seen is None else -np.log(self.unit) @ seen

    def expected_logits(self, C: np.ndarray, Z: Any) -> Any:
        if self._seen(Z) is None:
            return super().expected_logits(C, Z)
        some = _Incomplete.of(C, Z, len(self.mean))
        densities = [part.log_density() for part in some.parts]
        return some.constants[:, None] + np.stack(densities)

    def expected_sums(self, R: Any, C: np.ndarray, Z: Any) -> np.ndarray:
        if self._seen(Z) is None:
            return super().expected_sums(R, C, Z)
        some = _Incomplete.of(C, Z, len(self.mean))
        return incomplete.expected_sums(some.X, some.parts, R)

    def posterior(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """mean (k, d), kappa (k,), df (k,) and scale (k, d, d) given sums of features (k, q)."""
        count, total, square = distances.moments(S, len(self.mean), "full")
        kappa = self.kappa + count
        mean = (self.kappa * self.mean + total) / kappa[:, None]
        prior = self.scale + self.kappa * np.outer(self.mean, self.mean)
        scale = prior + square - kappa[:, None, None] * mean[:, :, None] * mean[:, None, :]
        return mean, kappa, self.df + count, scale

    def log_marginal_likelihood(self, S: np.ndarray) -> np.ndarray:
        _, kappa, df, scale = self.posterior(S)
        prior = normal_wishart_log_normalizer(self.kappa, self.df, self.scale)
        base = 0.5 * len(self.mean) * LOG_2PI * (kappa - self.kappa)
        return normal_wishart_log_normalizer(kappa, df, scale) - prior - base

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        mean, kappa, df, scale = self.posterior(S)
        d = len(self.mean)
        C = -0.5 * distances.coefficients(mean, df[:, None, None] * np.linalg.inv(scale), "full")
        log_det = digamma((df[:, None] - np.arange(d)) / 2).sum(axis=1) + d * np.log(2.0)
        log_det -= np.linalg.slogdet(scale)[1]
        C[:, 0] += 0.5 * (log_det - d * LOG_2PI - d / kappa)
        return C

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """Constants (k,), exponents (k,) and coefficients (k, q) of ``log_predictive``."""
        mean, kappa, df, scale = self.posterior(S)
        constant = self._level(kappa, df) - 0.5 * np.linalg.slogdet(scale)[1]
        precision = (kappa / (kappa + 1))[:, None, None] * np.linalg.inv(scale)
        return constant, (df + 1) / 2, distances.coefficients(mean, precision, "full")

    def _level(self, kappa: np.ndarray, df: np.ndarray) -> np.ndarray:
        """Part of the log predictive density that depends only on the number of objects."""
        d = len(self.mean)
        level = gammaln((df + 1) / 2) - gammaln((df + 1 - d) / 2)
        return level + 0.5 * d * np.log(kappa / ((kappa + 1) * np.pi))

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Any) -> Any:
        xp = namespace(Z)
        if self._seen(Z) is not None:
            return self._log_marginal(parameters[1], parameters[2], Z)
        constant, exponent, C = (asarray_like(part, Z) for part in parameters)
        # Rounding may make the squared distance negative.
        return constant[:, None] - exponent[:, None] * xp.log1p(xp.clip(C @ Z, min=0.0))

    def _log_marginal(self, exponent: np.ndarray, C: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Log density (k, b) of the observed values, for a density ~ (1 + C . z(x))^-exponent."""
        some, out = _Incomplete.of(-0.5 * C, Z, len(self.mean)), np.empty((len(C), Z.shape[1]))
        o = some.patterns.n_seen
        for j, part in enumerate(some.parts):
            nu = 2.0 * exponent[j] - len(self.mean)
            level = gammaln((nu + o) / 2) - gammaln(nu / 2) - 0.5 * o * np.log(np.pi)
            level += 0.5 * part.level
            out[j] = level - 0.5 * (nu + o) * np.log1p(part.distance)
        return out

    def points(self, Z: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(Z[1 : len(self.mean) + 1].T)

    def seats(self, S: np.ndarray, counts: np.ndarray, n: int) -> SimpleNamespace:
        mean, _, _, scale = self.posterior(S)
        total = np.arange(n + 2)
        return SimpleNamespace(
            kind="FullSeats",
            counts=counts,
            means=mean,
            inverses=np.linalg.inv(scale),
            log_dets=np.linalg.slogdet(scale)[1],
            kappa=self.kappa,
            df=self.df,
            table=self._level(self.kappa + total, self.df + total),
            empty=(self.mean, np.linalg.inv(self.scale), float(np.linalg.slogdet(self.scale)[1])),
        )


class _Incomplete(NamedTuple):
    """Objects with missing values under quadratic forms C . z(x), as normal densities."""

    X: np.ndarray
    patterns: Patterns
    parts: list[Marginal]  # one for each quadratic form
    constants: np.ndarray  # (k,), differences between the forms and the log densities

    @classmethod
    def of(cls, C: np.ndarray, Z: np.ndarray, d: int) -> _Incomplete:
        X = np.ascontiguousarray(Z[1 : d + 1].T)
        patterns = Patterns.of(X)
        _, linear, W = distances.moments(-C, d, "full")
        W[:, np.arange(d), np.arange(d)] *= 2.0
        means = np.linalg.solve(W, -linear[:, :, None])[:, :, 0]
        peaks = C[:, 0] + 0.5 * np.einsum("kd,kde,ke->k", means, W, means)
        spreads = zip(means, np.linalg.inv(W), strict=True)
        parts = [Marginal.of(X, patterns, mean, spread) for mean, spread in spreads]
        return cls(X, patterns, parts, peaks + 0.5 * (d * LOG_2PI - np.linalg.slogdet(W)[1]))


@dataclass(frozen=True, eq=False)
class DiagonalComponent(_NormalComponent):
    """Normal with independent features, each with a normal-inverse-gamma prior."""

    def features(self, X: Array) -> Any:
        X = self._columns(X)
        xp = namespace(X)
        unseen = xp.isnan(X)
        X = xp.where(unseen, xp.zeros_like(X), X)
        return xp.concat([xp.astype(~unseen, X.dtype), X, X * X], axis=0)

    def log_base(self, Z: Array) -> Any:
        return -(asarray_like(np.log(self.unit), Z) @ Z[: len(self.unit)])

    def posterior(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """mean, kappa, shape and scale, each (k, d), given the sums of features (k, 3 d)."""
        count, total, square = np.split(S, 3, axis=1)
        kappa = self.kappa + count
        mean = (self.kappa * self.mean + total) / kappa
        scale = self.scale + 0.5 * (self.kappa * self.mean**2 + square - kappa * mean**2)
        # Sums of squares cancel for tight clusters far from the origin; the posterior scale is
        # never smaller than the prior one.
        return mean, kappa, self.df + count / 2, np.maximum(scale, 0.5 * self.scale)

    def log_marginal_likelihood(self, S: np.ndarray) -> np.ndarray:
        _, kappa, shape, scale = self.posterior(S)
        posterior = gammaln(shape) - shape * np.log(scale) - 0.5 * np.log(kappa)
        prior = gammaln(self.df) - self.df * np.log(self.scale) - 0.5 * np.log(self.kappa)
        return (posterior - prior - 0.5 * LOG_2PI * (kappa - self.kappa)).sum(axis=1)

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        mean, kappa, shape, scale = self.posterior(S)
        precision = shape / scale
        constant = digamma(shape) - np.log(scale) - LOG_2PI - 1 / kappa - precision * mean**2
        return np.hstack([0.5 * constant, precision * mean, -0.5 * precision])

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """Constants, exponents, means and widths, each (k, d)."""
        mean, kappa, shape, scale = self.posterior(S)
        constant = self._level(kappa, shape) - 0.5 * np.log(scale)
        return constant, shape + 0.5, mean, 0.5 * kappa / ((kappa + 1) * scale)

    def _level(self, kappa: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Part of the log predictive density that depends only on the number of values."""
        level = gammaln(shape + 0.5) - gammaln(shape)
        return level - 0.5 * (LOG_2PI + np.log1p(1 / kappa))

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Array) -> Any:
        xp, d = namespace(Z), len(self.mean)
        seen, X = Z[:d, :], Z[d : 2 * d, :]
        rows = []
        for row in zip(*parameters, strict=True):
            constant, exponent, mean, width = (asarray_like(part, Z)[:, None] for part in row)
            density = constant - exponent * xp.log1p(width * (X - mean) ** 2)
            rows.append(xp.sum(seen * density, axis=0))
        return xp.stack(rows)

    def points(self, Z: np.ndarray) -> np.ndarray:
        d = len(self.mean)
        return np.ascontiguousarray(np.where(Z[:d] > 0, Z[d : 2 * d], np.nan).T)

    def seats(self, S: np.ndarray, counts: np.ndarray, n: int) -> SimpleNamespace:
        mean, _, _, scale = self.posterior(S)
        total = np.arange(n + 2)[:, None]
        return SimpleNamespace(
            kind="DiagonalSeats",
            counts=counts,
            seen=np.rint(S[:, : len(self.mean)]).astype(np.int64),
            means=mean,
            scales=scale,
            kappa=self.kappa,
            shape=self.df,
            table=self._level(self.kappa + total, self.df + total / 2),
            empty=(self.mean, self.scale),
        )


@dataclass(frozen=True, eq=False)
class CountComponent(Component):
    """Groups of categories, each with a Dirichlet prior: one group of d categories (counts;
    ``trials`` is None), or d groups of two (yes-or-no data). ``prior`` is (categories, groups)."""

    prior: np.ndarray
    trials: np.ndarray | None = None

    def features(self, X: Any) -> Any:
        if self.trials is None:
            if sp.issparse(X):
                return X.T.astype(np.float64)
            return namespace(X).asarray(X.T, dtype=namespace(X).float64)
        X = _dense(X).T
        return np.nan_to_num(np.concatenate([X, self.trials[:, None] - X]), nan=0.0, copy=False)

    def embedding(self, X: Any) -> np.ndarray:
        X = _dense(X)
        if self.trials is None:
            return np.sqrt(X / np.maximum(X.sum(axis=1, keepdims=True), 1.0))
        return np.nan_to_num(X / self.trials, nan=0.5)

    def _groups(self, S: np.ndarray) -> Any:
        return S.reshape(-1, *self.prior.shape)

    def log_base(self, Z: Any) -> Any:
        Z = Z.toarray() if sp.issparse(Z) else to_numpy(Z)
        return gammaln(self._drawn(Z) + 1).sum(axis=0) - gammaln(Z + 1).sum(axis=0)

    def log_marginal_likelihood(self, S: np.ndarray) -> np.ndarray:
        posterior, prior = self.prior + self._groups(S), self.prior
        gain = gammaln(posterior).sum(axis=1) - gammaln(posterior.sum(axis=1))
        return (gain - gammaln(prior).sum(axis=0) + gammaln(prior.sum(axis=0))).sum(axis=1)

    def coefficients(self, S: np.ndarray) -> np.ndarray:
        posterior = self.prior + self._groups(S)
        C = digamma(posterior) - digamma(posterior.sum(axis=1, keepdims=True))
        return C.reshape(len(S), -1)

    def predictive(self, S: np.ndarray) -> tuple[np.ndarray, ...]:
        """Posterior concentrations (k, q)."""
        return (self.prior.reshape(-1) + S,)

    def log_predictive(self, parameters: tuple[np.ndarray, ...], Z: Any) -> Any:
        (concentration,) = parameters
        totals = self._groups(concentration).sum(axis=1)
        Z = Z.tocsc() if sp.issparse(Z) else to_numpy(Z)
        drawn = self._drawn(Z)
        # For single draws, rising factorials are the concentrations themselves: one product.
        single = not sp.issparse(Z) and drawn.max(initial=0.0) <= 1.0
        if single and np.isin(Z, (0.0, 1.0)).all():
            return np.log(concentration) @ Z - np.log(totals) @ drawn
        rises = zip(concentration, totals, strict=True)
        return np.stack([_rise(a, Z) - _rise(t, drawn) for a, t in rises])

    def _drawn(self, Z: Any) -> np.ndarray:
        """Number of draws (groups, b) behind the counts ``Z``."""
        if sp.issparse(Z):
            return np.asarray(Z.sum(axis=0)).reshape(1, -1)
        return Z.reshape(*self.prior.shape, -1).sum(axis=0)

    def points(self, Z: Any) -> np.ndarray:
        return np.ascontiguousarray((Z.toarray() if sp.issparse(Z) else Z).T)

    def seats(self, S: np.ndarray, counts: np.ndarray, n: int) -> SimpleNamespace:
        prior, groups = self.prior.reshape(-1), self.prior.sum(axis=0)
        return SimpleNamespace(
            kind="CountSeats",
            counts=counts,
            concentrations=prior + S,
            totals=groups + self._groups(S).sum(axis=1),
            n_groups=len(groups),
            empty=(prior, groups),
        )


def _dense(X: Any) -> np.ndarray:
    """Rows on the host, dense, in float64."""
    return to_numpy(X.toarray() if sp.issparse(X) else X).astype(np.float64)


def _rise(a: np.ndarray, Z: Any) -> np.ndarray:
    """Column sums of  log Gamma(a + z) - log Gamma(a)  over the entries z of ``Z``."""
    if sp.issparse(Z):
        rises = gammaln(a[Z.indices] + Z.data) - gammaln(a[Z.indices])
        parts = sp.csc_array((rises, Z.indices, Z.indptr), shape=Z.shape)
        return np.asarray(parts.sum(axis=0)).ravel()
    return (gammaln(a[:, None] + Z) - gammaln(a)[:, None]).sum(axis=0)


class Tuning(NamedTuple):
    """Constants of default priors. The first of several is the default; the likeliest is taken."""

    kappa: float = 0.01  # weight of the prior mean, in objects
    # Weights of the data's correlations in the expected shape of a cluster; 0 is spherical.
    tied: tuple[float, ...] = (0.9, 0.0)
    # Expected variances within a cluster, as shares of the variance of the data: a grid with a
    # factor of about three between values.
    spreads: tuple[float, ...] = (0.15, 0.05, 0.4, 0.015)
    # Weight of the expected covariance beyond two, in objects per feature: a grid. On validation
    # data, the chosen prior was never worse than the first alone.
    strengths: tuple[int, ...] = (0, 1, 4)


TUNING = Tuning()
KINDS = (NormalInverseWishart, NormalInverseGamma, DirichletMultinomial, BetaBinomial)


def _location(rows: Rows, *, mix: bool = False) -> tuple[np.ndarray, np.ndarray, Coordinates]:
    """Mean and standard deviation of every feature, ignoring missing values."""
    if np.isnan(rows.extremes()).all():
        raise ValueError("X holds no numbers at all, only NaN: give at least one")
    found = measure(rows, per_feature=True, mix=mix)
    return found.shift, 1.0 / found.scale, found


def default_prior(kind: type, rows: Rows) -> Any:
    """A vague default prior, in the units of the data."""
    p = rows.shape[1]
    if kind is BetaBinomial:
        return BetaBinomial(np.ones(p), np.ones(p))
    if kind is DirichletMultinomial:
        return DirichletMultinomial(np.ones(p))
    spread, tied = TUNING.spreads[0], TUNING.tied[0]
    center, unit, found = _location(rows, mix=kind is NormalInverseWishart)
    if kind is NormalInverseGamma:
        return NormalInverseGamma(center, TUNING.kappa, 2.0, spread * unit**2)
    shape = tied * found.covariance() + (1 - tied) * np.eye(p)
    scale = 2 * spread * shape * np.outer(unit, unit)
    return NormalInverseWishart(center, TUNING.kappa, p + 3.0, scale)


def candidates(component: Any) -> list[Any]:
    """The component, and variants that expect covariances of other size, shape and certainty."""
    p = len(component.mean)
    shapes = component.scale / (2 * TUNING.spreads[0]), np.eye(p)
    return [
        replace(component, df=p + 1.0 + worth, scale=worth * spread * shape)
        for shape in shapes
        for worth in (2.0 + strength * p for strength in TUNING.strengths)
        for spread in TUNING.spreads
    ]


def build(prior: Any, rows: Rows) -> Any:
    """Mixture component with this prior; normal ones are scaled to unit variance."""
    p = rows.shape[1]
    if isinstance(prior, (NormalInverseWishart, DirichletMultinomial)):
        name = "mean" if isinstance(prior, NormalInverseWishart) else "concentration"
        if getattr(prior, name).shape != (p,):
            raise ValueError(
                f"component must be a single prior for {p} features, got {name} of shape "
                f"{getattr(prior, name).shape}"
            )
    elif prior.batch_shape not in ((), (p,)):
        raise ValueError(
            f"component must hold one prior, or one for each of {p} features, got "
            f"{prior.batch_shape}"
        )
    if isinstance(prior, DirichletMultinomial):
        return CountComponent(np.array(prior.concentration[:, None]))
    if isinstance(prior, BetaBinomial):
        a, b, trials = (np.broadcast_to(v, (p,)) for v in (prior.a, prior.b, prior.trials))
        return CountComponent(np.stack([a, b]), np.array(trials))
    center, unit, _ = _location(rows)
    with np.errstate(over="ignore"):
        mean = (np.broadcast_to(prior.mean, (p,)) - center) / unit
        if isinstance(prior, NormalInverseWishart):
            scale = prior.scale / np.outer(unit, unit)
            return FullComponent(mean, float(prior.kappa), float(prior.df), scale, center, unit)
        parts = (prior.kappa, prior.shape, prior.scale / unit**2)
        kappa, shape, scale = (np.array(np.broadcast_to(part, (p,))) for part in parts)
        return DiagonalComponent(mean, kappa, shape, scale, center, unit)


def publish(component: Any, S: np.ndarray) -> Any:
    """Posteriors for sums of features, in the units of the data; without objects, the prior."""
    if isinstance(component, CountComponent):
        posterior = component.prior + S.reshape(-1, *component.prior.shape)
        if component.trials is None:
            return DirichletMultinomial(posterior[:, :, 0])
        return BetaBinomial(posterior[:, 0], posterior[:, 1], component.trials)
    mean, kappa, freedom, scale = component.posterior(S)
    center, unit = component.center, component.unit
    mean = mean * unit + center
    if isinstance(component, FullComponent):
        return NormalInverseWishart(mean, kappa, freedom, scale * np.outer(unit, unit))
    return NormalInverseGamma(mean, kappa, freedom, scale * unit**2)


def check_counts(component: Any, X: Any) -> None:
    """Refuse data that are not counts if the component needs counts."""
    if not isinstance(component, CountComponent):
        return
    values, limit = (X.data if sp.issparse(X) else to_numpy(X)), component.trials
    if not sp.issparse(X) and np.isnan(values).all():
        raise ValueError("X holds no numbers at all, only NaN: give at least one")
    most: Any = np.inf if limit is None else limit.max() if sp.issparse(X) else limit
    fraction = np.isfinite(values) & (values != np.floor(values))
    if ((values < 0) | (values > most) | fraction).any():
        limited = "0 or 1 (or whole numbers up to trials)"
        what = "nonnegative whole numbers" if limit is None else limited
        raise ValueError(
            f"X must hold {what} for this component: recode it, or choose a normal component"
        )


def check_copies(weights: Weights) -> None:
    """Refuse weights so large that the prior is lost in rounding; warn if the prior dominates."""
    if weights is None:
        return
    total = float(weights.sum())
    if total > 1e12:
        raise ValueError(
            f"sample_weight adds up to {total:.0e}, so much that the prior is lost in "
            "rounding: divide it by its mean"
        )
    # With a mean below half, these look like shares rather than numbers of copies.
    if total < 0.5 * float((weights > 0).sum()):
        warn(
            f"sample_weight adds up to {total:.3g}, so the prior outweighs the objects: multiply "
            "it, e.g. by the number of objects divided by this sum"
        )


def check_prior(component: Any) -> None:
    """Refuse a normal prior so far from the data or so narrow that sums of squares cancel."""
    if isinstance(component, CountComponent):
        return
    full = isinstance(component, FullComponent) and np.isfinite(component.scale).all()
    least = float((np.linalg.eigvalsh(component.scale) if full else component.scale).min())
    far, worth = float(np.abs(component.mean).max()), float(np.max(component.kappa))
    if not (1e-12 < least < np.inf and worth * far * far <= 1e12 * min(least, 1.0)):
        raise ValueError(
            f"component has a scale of {least:.0e} times the variance of the data, and a mean "
            f"{far:.0e} standard deviations away, with the weight of {worth:.0e} objects: too "
            "narrow or too far away to compute with; is it in the units of X?"
        )
