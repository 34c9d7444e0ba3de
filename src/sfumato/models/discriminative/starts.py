"""Starting prototypes of discriminative clustering: by k-means, also within classes and along
discriminant directions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.stats import chi2
from sklearn.cluster import KMeans

from ...array.arrays import to_numpy
from ...array.types import Array
from .problem import TUNING, Problem, mass_of


def starts(
    problem: Problem, k: int, bandwidth: Any, rng: np.random.Generator, n_init: int
) -> tuple[list[np.ndarray], float]:
    """Prototypes from three kinds of k-means in turn, and the bandwidth, in scaled coordinates."""
    X, labels, mass = _sample(problem)
    plain, square = _k_means(X, mass, k, rng)
    found = [_k_means_in_classes(X, labels, mass, k, rng), plain]
    along = _k_means_along_discriminants(X, labels, mass, k, rng)
    if along is not None:
        found.insert(0, along[0])
    while len(found) < n_init:
        if len(found) % 2:
            found.append(_k_means(X, mass, k, rng)[0])
        else:
            found.append(_k_means_in_classes(X, labels, mass, k, rng))
    if not isinstance(bandwidth, str):
        return found[:n_init], _framed(bandwidth, problem.frame.unit)
    widths = _widths(X, square, along)
    return found[:n_init], _cross_validated(problem.few(), k, widths, rng)[0]


def _widths(X: Any, square: float, along: tuple[np.ndarray, float] | None) -> tuple[float, ...]:
    widest = np.sqrt(max(2 * square / X.shape[1], 1e-2))
    widths = [widest, widest / 2, widest / 4]
    if along is not None and along[1] < widths[-1]:
        widths += [along[1], along[1] / 2]
    return tuple(widths)


def choose_number(
    problem: Problem, bandwidth: Any, rng: np.random.Generator, numbers: Sequence[int]
) -> tuple[int, dict[int, float]]:
    """The number of clusters for which each half of the objects best predicts the classes of the
    other, and the information (nats per object, 0 for one cluster) by number."""
    few, information, best, failed = problem.few(), {1: 0.0}, 1, 0
    X, labels, mass = _sample(problem)
    alone = _cross_validated(few, 1, (1.0,), rng)[1]
    for k in (k for k in numbers if k > 1):
        if isinstance(bandwidth, str):
            square = _k_means(X, mass, k, rng)[1] if k < X.shape[0] else 0.0
            along = _k_means_along_discriminants(X, labels, mass, k, rng)
            widths = _widths(X, square, along)
        else:
            widths = (_framed(bandwidth, problem.frame.unit),)
        gain = (_cross_validated(few, k, widths, rng)[1] - alone) / few.total
        if not np.isfinite(gain):  # too few objects for halves
            break
        information[k] = float(gain)
        best, failed = (k, 0) if gain > information[best] + TUNING.gain else (best, failed + 1)
        if failed == TUNING.patience:
            break
    return best, information


def _framed(bandwidth: float, unit: float) -> float:
    if not 1e-15 * unit <= bandwidth <= 1e15 * unit:
        raise ValueError(
            f"bandwidth={bandwidth:g} is out of all proportion to the standard deviation of the "
            f"data, {unit:g}: "
            "give one in the units of X, or bandwidth='auto'"
        )
    return bandwidth / unit


def _cross_validated(
    problem: Problem, k: int, widths: tuple[float, ...], rng: np.random.Generator
) -> tuple[float, float]:
    """The bandwidth for which each half of the objects best predicts the classes of the other, and
    their log probability (minus infinity if there are too few objects). The halves depend only on
    the features, so copies of an object stay together."""
    X = _whole(problem.frame(problem.rows.X))
    weights = np.random.default_rng(1).normal(size=X.shape[1])
    position = (X if sp.issparse(X) else to_numpy(X)) @ weights - problem.frame.middle @ weights
    counted = to_numpy(mass_of(problem.rows.columns[0])) > 0
    odd = np.floor(1000.0 * position) % 2 == 1
    sides = counted & odd, counted & ~odd
    if min(len(np.unique(position[side])) for side in sides) < 2 * k:
        return widths[0], -np.inf
    halves = tuple(problem.part(np.flatnonzero(side)) for side in sides)
    gains = np.zeros(len(widths))
    for half, other in (halves, halves[::-1]):
        sample = _sample(half)
        start = _k_means_in_classes(*sample, k, rng)
        along = _k_means_along_discriminants(*sample, k, rng)
        for i, width in enumerate(widths):
            if along is not None and width <= along[1]:
                start = along[0]
            reached = half.ascend(start, width, 100, 1e-4).state
            gains[i] += other.log_likelihood(reached, width, half)
    best = 0
    for i in range(1, len(widths)):
        best = i if gains[i] > gains[best] + TUNING.gain * problem.total else best
    return float(widths[best]), float(gains[best])


def _whole(X: Any) -> Any:
    """Scaled features with missing values replaced by their mean, which is zero."""
    return np.nan_to_num(X, nan=0.0) if isinstance(X, np.ndarray) else X


def _sample(problem: Problem) -> tuple[Any, np.ndarray, np.ndarray]:
    """Scaled features, most probable classes and weights, in an order independent of the input."""
    rows = problem.few().rows
    (Q,) = rows.columns
    mass = to_numpy(mass_of(Q))
    X = _whole(problem.frame(rows.X))
    X = X if sp.issparse(X) else to_numpy(X)
    order = np.argsort(X @ np.random.default_rng(0).normal(size=X.shape[1]), kind="stable")
    order = order[mass[order] > 0]
    top = Q[order].indices if sp.issparse(Q) else to_numpy(Q)[order].argmax(axis=1)
    return X[order], top, mass[order]


def _k_means(
    X: Array, mass: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Centers of weighted k-means, and the mean square distance to them."""
    found = _fitted_k_means(X, mass, k, rng)
    centers = found.cluster_centers_[np.arange(k) % len(found.cluster_centers_)]
    return centers, float(found.inertia_) / float(mass.sum())


def _fitted_k_means(X: Array, mass: np.ndarray, k: int, rng: np.random.Generator) -> KMeans:
    with warnings.catch_warnings():
        # with fewer distinct points than clusters, prototypes may coincide
        warnings.simplefilter("ignore")
        k, seed = min(k, X.shape[0]), int(rng.integers(2**31))
        model = KMeans(k, n_init=1, max_iter=50, tol=0.0, random_state=seed)
        return model.fit(X, sample_weight=mass)


def _k_means_in_classes(
    X: Array, labels: np.ndarray, mass: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
    """Centers of k-means within each class, or of class means if there are more classes than k."""
    present, sizes, means = _class_means(X, labels, mass)
    if k < len(present):
        return _k_means(means, sizes, k, rng)[0]
    shares = np.ones(len(present), dtype=int)
    while shares.sum() < k:
        shares[np.argmax(sizes / (shares + 0.5))] += 1
    parts = [(labels == i, share) for i, share in zip(present, shares, strict=True)]
    return np.concatenate([_k_means(X[own], mass[own], share, rng)[0] for own, share in parts])


def _class_means(
    X: Array, labels: np.ndarray, mass: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    present = np.unique(labels)
    sizes = np.array([mass[labels == c].sum() for c in present])
    totals = np.stack([mass[labels == c] @ X[labels == c] for c in present])
    return present, sizes, totals / sizes[:, None]


def _k_means_along_discriminants(
    X: Any, labels: np.ndarray, mass: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, float] | None:
    """Prototypes that differ only along Fisher's discriminant directions, and their bandwidth.
    Features with a large spread then do not tilt the cells. None if there is no such direction."""
    if X.shape[1] > TUNING.most_features or X.shape[0] <= X.shape[1]:
        return None
    X = X.toarray() if sp.issparse(X) else X
    present, sizes, means = _class_means(X, labels, mass)
    if len(present) < 2:
        return None
    total, middle = mass.sum(), mass @ X / mass.sum()
    residuals = X - means[np.searchsorted(present, labels)]
    within = (residuals * mass[:, None]).T @ residuals / total
    # A ridge, so that constant features do not make it singular.
    ridge = 1e-6 * np.trace(within) / len(within)
    if not ridge > 0:
        return None
    within.flat[:: len(within) + 1] += ridge
    between = ((means - middle) * sizes[:, None]).T @ (means - middle) / total
    ratios, directions = eigh(between, within)
    q = _significant(ratios[::-1], total, len(present))
    if q == 0:
        return None
    directions = directions[:, ::-1][:, :q]
    # clustered where classes are round, but the prototypes are in the units of the data
    groups = _fitted_k_means((X - middle) @ directions, mass, k, rng).labels_
    basis = np.linalg.qr(directions)[0]
    T = (X - middle) @ basis
    weights = mass * (groups == np.arange(k)[:, None])
    filled = weights.sum(axis=1) > 0
    centers = np.zeros((k, q))
    centers[filled] = (weights @ T)[filled] / weights[filled].sum(axis=1, keepdims=True)
    square = float(mass @ np.square(T - centers[groups]).sum(axis=1)) / total
    return middle + centers @ basis.T, float(np.sqrt(max(2 * square / q, 1e-30)))


def _significant(ratios: np.ndarray, total: float, n_classes: int) -> int:
    """Number of significant discriminant directions by Bartlett's test."""
    p = len(ratios)
    found = 0
    for i in range(min(n_classes - 1, p)):
        statistic = (total - 1 - (p + n_classes) / 2) * np.log1p(np.maximum(ratios[i:], 0)).sum()
        if not statistic > chi2.isf(TUNING.chance, (p - i) * (n_classes - 1 - i)):
            break
        found += 1
    return found
