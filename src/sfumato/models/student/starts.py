"""First states of Student mixtures, and how to tell a sound state from a collapsed one.

A start is a partition of a sample. Every second one leaves out objects far from the bulk, so that
outliers do not begin as clusters of their own.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from ...numerics import seeding
from .kernel import Rule, State, Stats, matrices, update

__all__ = ["around", "collapsed", "from_labels", "partition", "smallest"]

# Median absolute deviations (scaled as for a normal) beyond which a start leaves objects out.
FAR = 5.0
MOST_FAR = 0.2  # share of the objects that may be far; with more, there is no bulk to be far from
FREEDOM = 5.0  # degrees of freedom that a run begins with, unless they are given
# A cluster of outliers: its 90 % ellipse holds the mean of a cluster of a quarter of its mean
# variance or less. Set on three groups with a uniform background; two groups of standard deviations
# 1 and 2 that touch are far from it.
INSIDE, WIDE = 0.9, 4.0
HOWS = ("agglomerate", "whitened", "standardized", "objects")


def partition(
    X: np.ndarray, weights: np.ndarray, k: int, turn: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels (n,) of sorted objects without holes; -1 for those that are left out."""
    labels = np.full(len(X), -1)
    kept = _bulk(X, weights) if turn % 2 == 0 else np.ones(len(X), dtype=bool)
    different, mass, index = seeding.distinct(X[kept], weights[kept])
    k, how = min(k, len(different)), HOWS[(turn // 2) % len(HOWS)]
    if k == 1:
        labels[kept] = 0
        return labels
    if how == "objects":
        chosen = rng.choice(len(different), size=k, replace=False, p=mass / mass.sum())
        found = seeding.nearest(different, different[chosen])
    elif how == "agglomerate":
        found = seeding.agglomerate(seeding.whiten(different, mass, 0.5), mass, k, rng)
    else:
        places = seeding.whiten(different, mass) if how == "whitened" else different
        found = seeding.kmeans(places, mass, k, rng)
    labels[kept] = found[index]
    return labels


def _bulk(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Which objects are not far from the others in any feature; all where many are far."""
    middle = _medians(X, weights)
    spread = 1.4826 * _medians(np.abs(X - middle), weights)
    near = (np.abs(X - middle) <= FAR * np.where(spread > 0, spread, np.inf)).all(axis=1)
    enough = weights @ near >= (1.0 - MOST_FAR) * weights.sum()
    return near if enough else np.ones(len(X), dtype=bool)


def _medians(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Lower weighted medians (d,): weight w counts as w copies."""
    order = np.argsort(X, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    place = np.argmax(cumulative >= 0.5 * cumulative[-1], axis=0)
    columns = np.arange(X.shape[1])
    return X[order[place, columns], columns]


def from_labels(
    X: np.ndarray, weights: np.ndarray, labels: np.ndarray, k: int, rule: Rule
) -> State:
    """The state whose components are the groups, their scatter shrunk towards the pooled one."""
    d = X.shape[1]
    R = (labels == np.arange(k)[:, None]) * weights
    unit = seeding.unit(weights)
    # A group without objects begins at the middle with the weight of one object.
    mass = R.sum(axis=1) + unit * 1e-6
    means = (R @ X) / mass[:, None]
    D = X[None] - means[:, None]
    scatter = np.swapaxes(D * R[:, :, None], 1, 2) @ D
    pooled = scatter.sum(axis=0) / mass.sum() + rule.floor * np.eye(d)
    scatter = scatter + unit * (d + 1) * pooled
    nu = np.full(k, FREEDOM if isinstance(rule.freedom, str) else float(rule.freedom))
    scales = np.repeat(pooled[None], k, axis=0)
    more = mass + unit * (d + 1)
    if not rule.full:
        scatter, scales = _diagonal(scatter), _diagonal(scales)
    start = State(mass / mass.sum(), means, scales, nu)
    held = rule._replace(freedom=1.0)  # the degrees of freedom stay where they begin
    return update(Stats(more, more, np.zeros((k, d)), scatter, nu, 0.0), start, held)


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=1, axis2=2).copy()


def collapsed(state: State, count: float, rule: Rule) -> bool:
    """Whether a component holds fewer objects than its shape needs, or has no width."""
    k, d = state.means.shape
    need = d + 1.0 if rule.full and rule.family[0] == rule.family[2] == "V" else 2.0
    if rule.family[0] == "E":
        need = 0.0
    few = state.weights.min() * count < min(need, 0.5 * count / k)
    # The floor holds in the units of the family, as its M step does.
    if state.scales.ndim == 2:
        least = (state.scales * rule.units**2).min()
    else:
        least = np.linalg.eigvalsh(state.scales * np.outer(rule.units, rule.units)).min()
    return bool(few or least <= 1.5 * rule.floor)


def around(state: State) -> tuple[int, int] | None:
    """The first cluster that is wide and has another one's mean inside, and that other; or None."""
    k, d = state.means.shape
    full = matrices(state)
    volume = np.linalg.slogdet(full)[1] / d
    for wide in np.flatnonzero(np.isfinite(volume)):  # a flat cluster is not wide
        gaps = state.means - state.means[wide]
        distances = np.einsum("ij,ij->i", gaps, np.linalg.solve(full[wide], gaps.T).T)
        inside = (distances < chdtri(d, 1 - INSIDE)) & (volume[wide] - volume > np.log(WIDE))
        if inside.any():
            return int(wide), int(np.argmax(inside))
    return None


def smallest(state: State, count: float) -> int | None:
    """The smallest cluster where it holds fewer objects than fix a shape, d + 1, else None.

    Never more than half of n / k objects.
    """
    k, d = state.means.shape
    least = int(np.argmin(state.weights))
    few = state.weights[least] * count < min(d + 1.0, 0.5 * count / k) * (1.0 - 1e-6)
    return least if few else None
