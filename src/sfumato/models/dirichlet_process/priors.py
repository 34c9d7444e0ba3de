"""Conversion between conjugate priors and mixture components: units, default priors, checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import to_numpy
from ...array.rows import Rows
from ...array.types import Weights
from ...array.validation import check_number
from ...array.warn import warn
from ...conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from ...numerics.distances import Coordinates, measure
from .components import CountComponent, DiagonalComponent, FullComponent
from .kernel import TUNING, Concentration

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


def check_concentration(given: Any) -> Concentration:
    """The prior of alpha given as a number or a pair (shape, rate)."""
    pair = isinstance(given, (tuple, list, np.ndarray)) and np.ndim(given) > 0
    if pair and len(given) != 2:
        raise ValueError(f"concentration must be a number or a pair (shape, rate), got {given!r}")
    given_parts = given if pair else (given,)
    parts = [check_number(part, "concentration", low=0, strict=True) for part in given_parts]
    prior = Concentration(parts[0], parts[1] if pair else np.inf)
    if not (min(parts) >= 1e-100 and max(parts) <= 1e100 and 1e-100 <= prior.mean <= 1e10):
        raise ValueError(
            f"concentration={given!r} must give alpha a mean (shape / rate) between 1e-100 and "
            "1e10, with neither part beyond 1e-100 or 1e100: try (1.0, 1.0)"
        )
    return prior


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


def embedding(component: Any, X: Any) -> np.ndarray:
    """A block of objects (b, p) as points for Euclidean distances."""
    X = to_numpy(X.toarray() if sp.issparse(X) else X).astype(np.float64)
    if not isinstance(component, CountComponent):
        return np.nan_to_num((X - component.center) / component.unit, nan=0.0)
    if component.trials is None:
        return np.sqrt(X / np.maximum(X.sum(axis=1, keepdims=True), 1.0))
    return np.nan_to_num(X / component.trials, nan=0.5)
