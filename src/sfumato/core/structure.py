"""The structure test after every fit: are there clusters, and do the data separate all of them.

Features: ``numerics.valleys`` measures the valley z between every two clusters that touch. Where
the density is flat, the least favourable case without clusters, z of one pair is about normal. All
clusters stand apart only if every pair does, so the p value is that of the shallowest valley: the
hypothesis that some two clusters are one cloud is rejected at a level only if each pair is (an
intersection-union test, which needs no correction for the number of pairs).

Similarities and labelings: of the space of the k leading eigenvectors of the normalised similarity,
the share of its worst direction that the labels leave unexplained. Blocks leave almost nothing.
The eigenvectors of a continuum are smooth waves and those of noise are noise: labels leave a fifth
of them unexplained, or more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr, ndtri

from ..numerics.eigen import degrees, leading_eigenvectors, normalized_operator
from ..numerics.valleys import (
    MOST,
    discriminating_coordinates,
    leading_coordinates,
    valleys,
    without_ties,
)
from .arrays import is_bfloat16, is_numpy, to_numpy
from .types import ArrayLike
from .warn import warn

__all__ = ["LEVEL", "LOOKS", "PREFIX", "Structure", "assess", "convinces", "warn_about_structure"]

LEVEL = 0.05  # accepted rate of false alarms
# These come from ``python -m benchmarks.calibration``, on uniform clouds.
# Mean and standard deviation of z for two clusters of one cloud by k-means, mixtures and Ward's
# method, 2, 5 and 10 dimensions, 100 to 400 objects. Other noise has smaller z (docs/choose.md).
FLAT = (-0.2, 0.82)
# Independent tests that a search over all numbers of clusters counts as: its candidates are alike.
LOOKS = 3
# The same of the unexplained share, for spectral clusterings of neighbour graphs of uniform clouds
# in the plane, 2 clusters, 150 objects. More clusters, and random similarities, leave more.
WAVES = (0.215, 0.045)
FEWEST = 50  # objects from which on densities can be compared
SMALLEST = 5  # objects of a cluster from which on it can be compared with another
# Objects for every coordinate that two clusters need to be looked at alone: of 6 and 10 the one
# that tells 14 groups of 21 objects in five dimensions apart; groups cut in two pass as seldom.
ALONE = 6
LARGEST = 2000  # objects that are looked at: a fixed sample of more
CONFIDENT = 0.75  # mean largest membership from which on a warning is needed
PREFIX = "structure test: "


class Structure(NamedTuple):
    """What speaks for the clusters: a statistic, the threshold it must pass, and the p value.

    ``p_value`` is the probability of such a statistic without clusters. ``n_apart`` is the number
    of groups that the evidence tells apart, ``supported`` whether these are all the clusters of
    the fit. ``split`` is a cluster that falls into separate pieces, or None.
    """

    statistic: float
    threshold: float
    p_value: float
    n_apart: int
    supported: bool
    split: int | None


def convinces(found: Structure) -> bool:
    """Whether the clusters are supported though several numbers of clusters were tried."""
    return found.supported and found.p_value <= LEVEL / LOOKS


def assess(
    evidence: np.ndarray, memberships: Any, *, kind: str, noise: bool = False
) -> Structure | None:
    """Whether the evidence supports the clusters of these memberships.

    Parameters
    ----------
    evidence : features (n, p), or a similarity (n, n): an array, a sparse array or an operator
    memberships : array of shape (n, k)
    kind : {"features", "similarity"}
    noise : bool
        Whether the last column is noise, whose objects are left out.

    Returns
    -------
    structure : Structure or None
        None where nothing can be said: one cluster, fewer than 50 objects, or evidence elsewhere.
    """
    n, k = memberships.shape[0], memberships.shape[1] - noise
    if n < FEWEST or k < 2 or not _readable(evidence):
        return None
    few = _sample(n, evidence, kind)
    labels = to_numpy(memberships if few is None else memberships[few]).argmax(axis=1)
    sizes = np.bincount(labels, minlength=k)[:k]
    if (sizes >= SMALLEST).sum() < 2:
        return Structure(-np.inf, 0.0, 1.0, 1, False, None)
    if kind == "similarity":
        return _of_similarity(evidence, few, labels, sizes)
    large = np.append(sizes >= SMALLEST, [False] * noise)
    kept = np.flatnonzero(large[labels])
    X = _rows(evidence, kept if few is None else few[kept])
    complete = np.isfinite(X).all(axis=1)
    if complete.sum() < FEWEST:
        return None
    return _of_features(X[complete], labels[kept][complete], k)


def _of_features(X: np.ndarray, labels: np.ndarray, k: int) -> Structure:
    names, codes = np.unique(labels, return_inverse=True)
    X = leading_coordinates(without_ties(X))
    if X.shape[1] == 0 or len(names) < 2:
        return Structure(-np.inf, 0.0, 1.0, 1, False, None)
    found = valleys(discriminating_coordinates(X, codes), codes)
    split = np.flatnonzero(found.pieces > 1)
    first = int(names[split[0]]) if len(split) else None
    if len(found.z) == 0:
        return Structure(np.inf, 0.0, 0.0, len(names), len(names) == k, first)
    threshold = FLAT[0] + FLAT[1] * float(ndtri(1 - LEVEL))
    if X.shape[1] > MOST and len(names) - 1 > MOST:
        # Few common directions may hide the gap between two of many clusters: look along its own.
        # Where more pairs are shallow than there are clusters, most clusters are cuts.
        shallow = found.z <= FLAT[0] + FLAT[1] * float(ndtri(1 - LEVEL / LOOKS))
        pairs = found.pairs[shallow] if shallow.sum() <= len(names) else found.pairs[:0]
        own = [_between(X, codes, pair) for pair in pairs]
        found.z[shallow] = np.maximum(own or -np.inf, found.z[shallow])
    least = float(found.z.min())
    p_value = float(ndtr(-(least - FLAT[0]) / FLAT[1]))
    shallow = found.pairs[found.z <= threshold]
    joined = sp.csr_array((np.ones(len(shallow)), shallow.T), shape=(len(names), len(names)))
    apart = int(connected_components(joined, directed=False)[0])
    return Structure(least, threshold, p_value, apart, apart == k, first)


def _between(X: np.ndarray, codes: np.ndarray, pair: np.ndarray) -> float:
    """Valley between two clusters in coordinates of their own."""
    rows = np.isin(codes, pair)
    if rows.sum() < ALONE * X.shape[1]:
        return -np.inf  # so few objects come apart along some direction whatever they are
    two = (codes[rows] == pair[1]).astype(int)
    Y = discriminating_coordinates(X[rows], two)
    return float(valleys(Y, two, strays=False).z.min(initial=np.inf))


def _of_similarity(
    W: Any, few: np.ndarray | None, labels: np.ndarray, sizes: np.ndarray
) -> Structure:
    W = W if few is None else _part(W, few)
    W = W.float() if is_bfloat16(W) else W
    k, large = len(sizes), sizes >= SMALLEST
    degree = np.maximum(to_numpy(degrees(W)).astype(np.float64), np.finfo(float).tiny)
    vectors = to_numpy(leading_eigenvectors(normalized_operator(W), k, tol=1e-3).vectors)
    blocks = np.zeros((labels.max() + 1, vectors.shape[1]))
    np.add.at(blocks, labels, np.sqrt(degree)[:, None] * vectors)
    mass = np.maximum(np.bincount(labels, degree), np.finfo(float).tiny)
    left = _unexplained(blocks, mass, k)
    threshold = WAVES[0] + WAVES[1] * float(ndtri(LEVEL))
    p_value = float(ndtr((left - WAVES[0]) / WAVES[1]))
    apart = _groups(blocks, mass, k, threshold) if left >= threshold else int(large.sum())
    return Structure(left, threshold, p_value, apart, apart == k, None)


def _unexplained(blocks: np.ndarray, mass: np.ndarray, k: int) -> float:
    """Share of the worst direction of the first k eigenvectors that varies within the groups."""
    explained = np.linalg.svd(blocks[:, :k] / np.sqrt(mass)[:, None], compute_uv=False)
    return 1.0 - float(explained[k - 1] if len(explained) >= k else 0.0) ** 2


def _groups(blocks: np.ndarray, mass: np.ndarray, k: int, threshold: float) -> int:
    """Largest number of groups of clusters that stand apart; the nearest two are joined in turn."""
    while k > 2:
        k -= 1
        while len(mass) > k:
            means = blocks[:, :k] / mass[:, None]
            squares = ((means[:, None] - means[None]) ** 2).sum(axis=2)
            cost = squares / (1 / mass[:, None] + 1 / mass[None])  # as in Ward's method
            a, b = np.unravel_index(
                np.argmin(cost + np.diag(np.full(len(mass), np.inf))), cost.shape
            )
            blocks[a] += blocks[b]
            mass[a] += mass[b]
            blocks, mass = np.delete(blocks, b, axis=0), np.delete(mass, b)
        if _unexplained(blocks, mass, k) < threshold:
            return k
    return 1


def _readable(evidence: ArrayLike) -> bool:
    """Whether rows can be taken here, rather than on a cluster of machines."""
    return is_numpy(evidence) or type(evidence).__module__.split(".")[0] == "torch"


def _sample(n: int, evidence: ArrayLike, kind: str) -> np.ndarray | None:
    """A fixed sample of many objects, or None for all; a graph falls apart when it is cut."""
    dense = isinstance(evidence, np.ndarray) or not is_numpy(evidence)
    divisible = dense or hasattr(evidence, "table")
    if n <= LARGEST or (kind == "similarity" and not divisible):
        return None
    return np.sort(np.random.default_rng(0).choice(n, LARGEST, replace=False))


def _rows(X: Any, rows: np.ndarray) -> np.ndarray:
    part = X[rows]
    part = (part.toarray() if sp.issparse(part) else to_numpy(part)).astype(np.float64)
    largest = float(np.nanmax(np.abs(part), initial=0.0))
    return part / (largest or 1.0)  # so that no square overflows


def _part(W: Any, rows: np.ndarray) -> Any:
    return type(W)(W.table.objects(rows)) if hasattr(W, "table") else W[rows][:, rows]


def warn_about_structure(found: Structure, memberships: np.ndarray, n_clusters: int) -> None:
    """Warn where confident memberships are not supported, or where a cluster falls into pieces."""
    if float(to_numpy(memberships).max(axis=1).mean()) < CONFIDENT:
        return
    p = f"p = {found.p_value:.2g}"
    if found.n_apart == 1:
        warn(
            f"{PREFIX}the evidence shows no separate clusters ({p}): the memberships cut a "
            "continuum, or noise; do not read them as groups, or compare with n_clusters='auto'"
        )
    elif not found.supported:
        warn(
            f"{PREFIX}the evidence tells {found.n_apart} groups apart, not {n_clusters} ({p}): "
            "some clusters are cuts through one group, or hold a few outliers; try fewer clusters"
        )
    elif found.split is not None:
        warn(
            f"{PREFIX}cluster {found.split} falls into pieces with an empty region between them: "
            "try more clusters, or a model of clusters of any shape"
        )
