"""From conjugate priors to mixture components and back.

Units, default priors, and where to start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import to_numpy
from ...array.rows import Rows
from ...array.types import Array, Weights
from ...array.validation import check_number
from ...array.warn import warn
from ...conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from .components import CountComponent, DiagonalComponent, FullComponent, standardize
from .kernel import Concentration

__all__ = [
    "KINDS",
    "build",
    "candidates",
    "check_concentration",
    "check_copies",
    "check_counts",
    "check_prior",
    "check_reach",
    "default_prior",
    "embedding",
    "of",
    "publish",
]

KINDS = (NormalInverseWishart, NormalInverseGamma, DirichletMultinomial, BetaBinomial)
# Least deviation of a feature: below it the variance loses digits to underflow.
LEAST_REACH = 1e-145
FEW = 0.5  # weight per object below which weights are hardly copies, but shares
KAPPA = 0.01  # objects that the prior mean is worth
# Weights of the correlations of the data in the expected shape of a cluster (0 is spherical), and
# expected variances within a cluster, as shares of the variance of the data. The first ones are
# those of the prior that needs no choice.
TIED = (0.9, 0.0)
SPREADS = (0.15, 0.05, 0.4, 0.015)
# Objects that the expected covariance is worth beyond two, for each feature
STRENGTHS = (0, 1, 4)


def location(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every feature, missing numbers left out; a constant feature
    has deviation 1.
    """

    def total(block: Any, weights: Weights, center: Any) -> tuple[Any, Any, Any]:
        block = (
            to_numpy(block.toarray() if sp.issparse(block) else block).astype(np.float64) - center
        )
        seen = ~np.isnan(block)
        w = seen if weights is None else seen * to_numpy(weights)[:, None]
        block = np.where(seen, block, 0.0)
        return w.sum(axis=0), (w * block).sum(axis=0), (w * block**2).sum(axis=0)

    center = np.zeros(rows.shape[1])
    with np.errstate(over="ignore"):
        for _ in range(2):
            mass, first, second = rows.sum(
                lambda block, weights, center=center: total(block, weights, center)
            )
            if not mass.any():
                raise ValueError("X holds no numbers at all, only NaN: give at least one")
            safe = np.where(mass > 0, mass, 1.0)
            center = center + first / safe
    _refuse_underflow(rows, center)
    mass, _, second = rows.sum(lambda block, weights: total(block, weights, center))
    deviation = np.sqrt(second / safe)
    constant = deviation <= 1e-14 * np.abs(center)
    return center, np.where(constant | (deviation == 0), 1.0, deviation)


def _refuse_underflow(rows: Rows, center: np.ndarray) -> None:
    """Refuse features whose variance is no number: priors are in the units of the data."""
    reach = np.nan_to_num(np.abs(rows.extremes().astype(np.float64) - center).max(axis=0))
    small = np.flatnonzero((reach > 1e-14 * np.abs(center)) & (reach < LEAST_REACH))
    if small.size:
        raise ValueError(
            f"X varies by no more than {reach[small[0]]:.0e} in feature {small[0]}, and the "
            "squares underflow: change units, e.g. np.ldexp(X, 500), or drop that feature"
        )


def default_prior(kind: type, rows: Rows) -> Any:
    """A prior in the units of the data that needs no choice: a vague one."""
    p = rows.shape[1]
    if kind is BetaBinomial:
        return BetaBinomial(np.ones(p), np.ones(p))
    if kind is DirichletMultinomial:
        return DirichletMultinomial(np.ones(p))
    center, unit = location(rows)
    if kind is NormalInverseGamma:
        return NormalInverseGamma(center, KAPPA, 2.0, SPREADS[0] * unit**2)
    shape = TIED[0] * _correlation(rows, center, unit) + (1 - TIED[0]) * np.eye(p)
    scale = 2 * SPREADS[0] * shape * np.outer(unit, unit)
    return NormalInverseWishart(center, KAPPA, p + 3.0, scale)


def candidates(component: Any) -> list[Any]:
    """Components with other priors than this one, the default, which is the first: covariances of
    another size, shape and certainty.
    """
    if not isinstance(component, FullComponent):
        return [component]
    p = len(component.mean)
    shapes = component.scale / (2 * SPREADS[0]), np.eye(p)
    return [
        component._replace(df=p + 1.0 + worth, scale=worth * spread * shape)
        for shape in shapes
        for worth in (2.0 + strength * p for strength in STRENGTHS)
        for spread in SPREADS
    ]


def _correlation(rows: Rows, center: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Correlations (p, p) of the features."""

    def total(block: Array, weights: Weights) -> tuple[Any, Any]:
        Z = to_numpy(standardize(block, center, unit))
        seen, Z = ~np.isnan(Z), np.nan_to_num(Z, copy=False)
        w = np.ones(Z.shape[1]) if weights is None else to_numpy(weights)
        return (Z if weights is None else Z * w) @ Z.T, seen @ w

    product, mass = rows.sum(total)
    mass = np.sqrt(np.where(mass > 0, mass, mass.max()) / mass.max())
    product = product / np.outer(mass, mass)  # as if every feature had been seen as often
    return product / np.maximum(np.diagonal(product).max(), np.finfo(float).tiny)


def of(component: FullComponent) -> NormalInverseWishart:
    """The prior of a normal component with full covariance, in the units of the data."""
    unit = component.unit
    scale = component.scale * np.outer(unit, unit)
    mean = component.mean * unit + component.center
    return NormalInverseWishart(mean, component.kappa, component.df, scale)


def build(prior: Any, rows: Rows) -> Any:
    """Mixture component with this prior.

    Normal components work in units in which the data have variance 1.
    """
    p = rows.shape[1]
    if isinstance(prior, NormalInverseWishart):
        if prior.mean.shape != (p,):
            raise ValueError(
                f"component must be a single prior for {p} features, got mean of shape "
                f"{prior.mean.shape}"
            )
        center, unit = location(rows)
        with np.errstate(over="ignore"):
            mean, scale = (prior.mean - center) / unit, prior.scale / np.outer(unit, unit)
        return FullComponent(mean, float(prior.kappa), float(prior.df), scale, center, unit)
    if isinstance(prior, DirichletMultinomial):
        if prior.concentration.shape != (p,):
            raise ValueError(
                f"component must be a single prior for {p} features, got concentration of shape "
                f"{prior.concentration.shape}"
            )
        return CountComponent(np.array(prior.concentration[:, None]))
    if prior.batch_shape not in ((), (p,)):
        raise ValueError(
            f"component must hold one prior, or one for each of {p} features, got "
            f"{prior.batch_shape}"
        )
    if isinstance(prior, BetaBinomial):
        a, b, trials = (
            np.array(np.broadcast_to(value, (p,))) for value in (prior.a, prior.b, prior.trials)
        )
        return CountComponent(np.stack([a, b]), trials)
    center, unit = location(rows)
    mean, kappa, shape, scale = (
        np.array(np.broadcast_to(v, (p,)))
        for v in (prior.mean, prior.kappa, prior.shape, prior.scale)
    )
    with np.errstate(over="ignore"):
        mean, scale = (mean - center) / unit, scale / unit**2
    return DiagonalComponent(mean, kappa, shape, scale, center, unit)


def publish(component: Any, S: np.ndarray) -> Any:
    """Posteriors of clusters with these sums of features, as one conjugate object in the units of
    the data.
    """
    if isinstance(component, CountComponent):
        posterior = component.prior + S.reshape(-1, *component.prior.shape)
        if component.trials is None:
            return DirichletMultinomial(posterior[:, :, 0])
        return BetaBinomial(posterior[:, 0], posterior[:, 1], component.trials)
    mean, kappa, freedom, scale = component.posterior(S)
    center, unit = component.center, component.unit
    if isinstance(component, FullComponent):
        return NormalInverseWishart(
            mean * unit + center, kappa, freedom, scale * np.outer(unit, unit)
        )
    return NormalInverseGamma(mean * unit + center, kappa, freedom, scale * unit**2)


def check_counts(component: Any, X: Any) -> None:
    """Refuse data that are no counts where the component wants counts."""
    if not isinstance(component, CountComponent):
        return
    values = X.data if sp.issparse(X) else to_numpy(X)
    if not sp.issparse(X) and np.isnan(values).all():
        raise ValueError("X holds no numbers at all, only NaN: give at least one")
    limit = (
        np.inf
        if component.trials is None
        else component.trials.max()
        if sp.issparse(X)
        else component.trials
    )
    if (
        (values < 0).any()
        or (values > limit).any()
        or (np.isfinite(values) & (values != np.floor(values))).any()
    ):
        what = (
            "nonnegative whole numbers"
            if component.trials is None
            else "0 or 1 (or whole numbers up to trials)"
        )
        raise ValueError(
            f"X must hold {what} for this component: recode it, or choose a normal component"
        )


def check_concentration(given: Any) -> Concentration:
    """The prior of alpha that a number, or a pair (shape, rate), stands for."""
    if isinstance(given, (tuple, list, np.ndarray)) and np.ndim(given):
        if len(given) != 2:
            raise ValueError(
                f"concentration must be a number or a pair (shape, rate), got {given!r}"
            )
        prior = Concentration(
            *(check_number(part, "concentration", low=0, strict=True) for part in given)
        )
    else:
        prior = Concentration(check_number(given, "concentration", low=0, strict=True), np.inf)
    within = all(
        1e-100 <= part <= 1e100
        for part in (prior.shape, 1.0 if np.isinf(prior.rate) else prior.rate)
    )
    if not within or not 1e-100 <= prior.mean <= 1e10:
        raise ValueError(
            f"concentration={given!r} must give alpha a mean (shape / rate) between 1e-100 and "
            "1e10, with neither part beyond 1e-100 "
            "or 1e100: try (1.0, 1.0)"
        )
    return prior


def check_copies(weights: Weights) -> None:
    """Refuse weights so large that the prior is lost among the copies they stand for, and warn of
    weights so small that the prior hides the objects.
    """
    with np.errstate(over="ignore"):
        total = 0.0 if weights is None else float(weights.sum())
    if total > 1e12:
        raise ValueError(
            f"sample_weight adds up to {total:.0e}, so many copies of the objects that the prior "
            "is lost in rounding: divide by a number"
        )
    if weights is not None and total < FEW * float((weights > 0).sum()):
        warn(
            f"sample_weight adds up to {total:.3g}, as if there were so few objects, and the prior "
            "outweighs them: multiply it, e.g. by the number of objects over this sum"
        )


def check_prior(component: Any) -> None:
    """Refuse a normal prior so far from the data, or so narrow, that sums of squares in floating
    point lose one of the two.
    """
    if isinstance(component, CountComponent):
        return
    if not np.isfinite(component.scale).all():
        raise ValueError(
            "component has a scale that overflows in units of the variance of the data: is it in "
            "the units of X?"
        )
    least = _narrowest(component)
    if not least > 1e-12:
        raise ValueError(
            f"component has a scale of {least:.0e} times the variance of the data, too narrow to "
            "compute with: is it in the units of X?"
        )
    far = float(np.abs(component.mean).max())
    if not float(np.max(component.kappa)) * far * far <= 1e12 * min(least, 1.0):
        raise ValueError(
            f"component has a mean {far:.0e} standard deviations away from the data, worth "
            f"kappa={np.max(component.kappa):.0e} objects, "
            "in which the data are lost: is it in the units of X?"
        )


def _narrowest(component: Any) -> float:
    """The least scale of a normal prior in any direction, in units of the data."""
    return float(
        np.linalg.eigvalsh(component.scale)[0]
        if isinstance(component, FullComponent)
        else component.scale.min()
    )


def check_reach(component: Any, rows: Rows) -> None:
    """Refuse new objects so far from the fitted ones that squares overflow."""
    if isinstance(component, CountComponent):
        return
    extremes = np.nan_to_num(rows.extremes().astype(np.float64))
    with np.errstate(over="ignore"):
        far = np.abs((extremes - component.center) / component.unit)
    if not far.max() * np.sqrt(len(component.unit) / _narrowest(component)) <= 1e152:
        reach = np.abs(extremes).max()
        raise ValueError(
            f"X has values as large as {reach:.0e}, too far from the fitted data for their "
            "squares: is it in the same units?"
        )


def embedding(component: Any, X: Any) -> np.ndarray:
    """A block of objects (b, p) as points whose Euclidean distance makes sense.

    Where to look for a start.
    """
    X = to_numpy(X.toarray() if sp.issparse(X) else X).astype(np.float64)
    if not isinstance(component, CountComponent):
        return np.nan_to_num((X - component.center) / component.unit, nan=0.0)
    if component.trials is None:
        return np.sqrt(X / np.maximum(X.sum(axis=1, keepdims=True), 1.0))
    return np.nan_to_num(X / component.trials, nan=0.5)
