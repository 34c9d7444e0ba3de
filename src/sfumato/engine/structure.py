"""The structure test after every fit: whether there are clusters, and whether they are separate.

Features: objects are projected on the directions that separate the clusters (eigenvectors of
S_w^-1 S_b). With r_m(y) the distance to the m-th neighbour of a point y in q dimensions, log
density is -q log r_m(y) up to a constant, with standard deviation 1 / sqrt(m) whatever q is. For
two clusters a and b that are neighbours in the graph of nearest neighbours,

    z_ab = sqrt(m) ( min(g_a, g_b) - g_ab )

where g_a is the median log density in a, and g_ab that of the border: the midpoints of the edges
from a to b. On the side with fewer border objects, every object counts once, since a single stray
inside the other cluster has many edges. A valley gives a large z; a cut through one cloud gives z
near or below 0. For a flat density, the least favourable case, z is approximately normal. All
clusters are separate only if every pair is, so the p value is that of the shallowest valley (an
intersection-union test, which needs no correction for the number of pairs).

Similarities and labelings: in the space of the k leading eigenvectors of the normalised similarity,
the statistic is the unexplained share of the direction that the labels explain worst: almost
nothing for blocks, a fifth or more for the smooth waves of a continuum and for noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.special import ndtr, ndtri

from ..array.arrays import is_bfloat16, is_numpy, native, to_numpy
from ..array.rows import sorted_rows
from ..array.types import ArrayLike
from ..array.warn import warn
from ..numerics.eigen import leading_eigenvectors
from ..numerics.operators import degrees, normalized_operator

LEVEL = 0.05  # accepted rate of false positives
# Independent tests that a search over all numbers counts as, since candidates are similar.
SEARCH_TESTS = 3
FEWEST = 50  # fewest objects for comparing densities
SMALLEST = 5  # fewest objects of a cluster for comparing it with another
LARGEST = 2000  # size of the fixed sample that is tested if there are more objects
CONFIDENT = 0.75  # mean largest membership above which a warning is given
PREFIX = "structure test: "


class Tuning(NamedTuple):
    """Distributions of the statistics without clusters (mean and standard deviation), and constants
    of borders; docs/thresholds.md says where they come from.
    """

    flat: tuple[float, float] = (-0.2, 0.82)  # z for two clusters of one uniform cloud
    waves: tuple[float, float] = (0.215, 0.045)  # unexplained share in graphs of such clouds
    per_coordinate: int = 12  # objects per coordinate when two of many clusters are compared
    # Principal axes of wider data: ten, or one per fifty objects; of many, some separate noise.
    axes: int = 10
    per_axis: int = 50
    dimensions: int = 4  # in more, neighbours of some hundred objects do not show the density
    neighbours: float = 0.8  # times sqrt(n)
    part: float = 0.25  # largest share of the smaller of two clusters that counts as neighbours
    strays: float = 0.1  # share of the smaller cluster that may be outliers in the other one


TUNING = Tuning()


class Structure(NamedTuple):
    """A statistic, the threshold it must exceed, and the probability of such a value without
    clusters. ``n_apart`` is the number of separate groups; ``supported`` says whether these are all
    clusters of the fit. ``split`` is a cluster that consists of separate pieces, or None.
    """

    statistic: float
    threshold: float
    p_value: float
    n_apart: int
    supported: bool
    split: int | None


def convinces(found: Structure) -> bool:
    """Whether the clusters are supported, allowing for a search over several numbers."""
    return found.supported and found.p_value <= LEVEL / SEARCH_TESTS


def assess(
    evidence: np.ndarray, memberships: Any, *, kind: str, noise: bool = False
) -> Structure | None:
    """Test whether features (n, p) or a similarity (n, n) support memberships (n, k), the last of
    which may be ``noise``. None if no test applies.
    """
    n, k = memberships.shape[0], memberships.shape[1] - noise
    here = is_numpy(evidence) or type(evidence).__module__.split(".")[0] == "torch"
    if n < FEWEST or k < 2 or not here:
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
    X = leading_coordinates(without_ties(X), max(TUNING.axes, len(X) // TUNING.per_axis))
    if X.shape[1] == 0 or len(names) < 2:
        return Structure(-np.inf, 0.0, 1.0, 1, False, None)
    found = valleys(discriminating_coordinates(X, codes), codes)
    split = np.flatnonzero(found.pieces > 1)
    first = int(names[split[0]]) if len(split) else None
    threshold = _flat(LEVEL)
    if len(names) - 1 > TUNING.dimensions:
        _look_along_axes(X, codes, found, threshold)
    least = float(found.z.min(initial=np.inf))
    p_value = float(ndtr((TUNING.flat[0] - least) / TUNING.flat[1]))
    shallow = found.pairs[found.z <= threshold]
    joined = sp.csr_array((np.ones(len(shallow)), shallow.T), shape=(len(names), len(names)))
    apart = int(connected_components(joined, directed=False)[0])
    return Structure(least, threshold, p_value, apart, apart == k, first)


def _flat(level: float) -> float:
    """The z that two clusters of one cloud exceed at this rate."""
    return TUNING.flat[0] + TUNING.flat[1] * float(ndtri(1 - level))


def _look_along_axes(X: np.ndarray, codes: np.ndarray, found: Valleys, threshold: float) -> None:
    """Replace valleys of shallow pairs by deeper ones in coordinates made for each pair."""
    shallow = _flat(LEVEL / SEARCH_TESTS)
    group = np.arange(int(codes.max()) + 1)
    for at in np.argsort(found.z, kind="stable")[: int((found.z <= shallow).sum())]:
        one, other = group[found.pairs[at]]
        if one != other:
            found.z[at] = max(found.z[at], _between(X, codes, found.pairs[at]))
            if found.z[at] <= threshold:
                group[group == other] = one


def _between(X: np.ndarray, codes: np.ndarray, pair: np.ndarray) -> float:
    """Valley between two clusters in coordinates made for this pair."""
    rows = np.isin(codes, pair)
    two = (codes[rows] == pair[1]).astype(int)
    own = leading_coordinates(X[rows], max(1, int(rows.sum()) // TUNING.per_coordinate))
    Y = discriminating_coordinates(own, two)
    return float(valleys(Y, two, strays=False).z.min(initial=np.inf))


class Valleys(NamedTuple):
    """Touching pairs of clusters (m, 2), their z values (m,), the pieces of every cluster."""

    pairs: np.ndarray
    z: np.ndarray
    pieces: np.ndarray


def leading_coordinates(X: np.ndarray, k: int = TUNING.axes) -> np.ndarray:
    """At most ``k`` leading principal axes, scaled to variance one; columns are standardised if
    their spreads differ more than tenfold.
    """
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    X, spread = X[:, spread > 1e-12 * spread.max(initial=0.0)], spread[spread > 0]
    if X.shape[1] == 0:
        return X
    if spread.max() > 10 * spread.min():
        X = X / X.std(axis=0)
    n, p = X.shape
    few = min(k, n, p)
    if p <= n:
        values, axes = eigh(X.T @ X, subset_by_index=[p - few, p - 1])
        scores = X @ axes
    else:
        values, scores = eigh(X @ X.T, subset_by_index=[n - few, n - 1])
    scores = scores[:, values > 1e-10 * values[-1]]
    return scores / np.sqrt((scores**2).mean(axis=0))


def without_ties(X: np.ndarray) -> np.ndarray:
    """Features whose rounded columns are spread evenly, up to half-way to the nearest value, since
    copies have distance zero. Columns with fewer than five values are categories, and unchanged.
    """
    rng, X = np.random.default_rng(0), X.copy()
    ordered = np.sort(X.T, axis=1)
    counts = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    rounded = (counts >= 5) & (counts <= len(X) / 2)
    for place in np.flatnonzero(rounded):
        column = X[:, place]
        values, places = np.unique(column, return_inverse=True)
        gaps = np.diff(values)
        reach = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
        column += reach[places] * (rng.random(len(column)) - 0.5)
    return X


def discriminating_coordinates(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Up to four coordinates that separate the clusters, in which clusters are round."""
    n, p = X.shape
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    sums = np.zeros((k, p))
    np.add.at(sums, labels, X)
    means = sums / np.maximum(sizes, 1)[:, None]
    residuals = X - means[labels]
    within, between = residuals.T @ residuals / n, (means * sizes[:, None]).T @ means / n
    total = float(np.trace(within) + np.trace(between))
    ridge = 1e-3 * float(np.trace(within)) / p + 1e-9 * total / p
    axes = eigh(between, within + ridge * np.eye(p))[1][:, ::-1]
    most = TUNING.dimensions
    return X @ (axes if p <= most else axes[:, : max(2, min(k - 1, most))])


def valleys(Y: np.ndarray, labels: np.ndarray, *, strays: bool = True) -> Valleys:
    """Depth of the valleys between touching clusters of objects Y (n, q). They touch if more than a
    few ``strays`` have neighbours in the other one.
    """
    n = len(Y)
    k = int(labels.max()) + 1
    m = int(np.clip(round(TUNING.neighbours * np.sqrt(n)), 3, n - 1))
    tree = cKDTree(Y)
    distances, neighbours = native("neighbours").neighbours(tree.data, tree.indices, m)
    parts, (i, j) = native("neighbours").connected_pieces(neighbours, labels)
    pieces = _pieces(parts, labels, k, m) if strays else np.ones(k, dtype=int)
    first = labels[i] < labels[j]
    lower, upper = np.where(first, i, j), np.where(first, j, i)
    key = labels[lower] * k + labels[upper]
    found = np.unique(key)
    sizes = np.bincount(labels, minlength=k)
    for side in (lower, upper):  # a few outliers inside another cluster do not make a border
        owner, counts = np.unique(np.unique(key * n + side) // n, return_counts=True)
        least = np.minimum(sizes[owner // k], sizes[owner % k]) * TUNING.strays
        few = np.clip(least, 2, max(2, m / 3)) if strays else 0
        found = np.intersect1d(found, owner[counts > few])
    pairs, z = np.column_stack([found // k, found % k]), np.empty(len(found))
    for at, (a, b) in enumerate(pairs):
        edges = np.flatnonzero(key == found[at])
        if len(edges) > 200:  # enough for the median
            edges = np.random.default_rng(0).choice(edges, 200, replace=False)
        own = int(np.clip(TUNING.part * min(sizes[a], sizes[b]), min(5, m), m))
        inside = max(np.median(distances[labels == c, own - 1]) for c in (a, b))
        border = _border(tree, lower[edges], upper[edges], own)
        tiny = 1e-12 * max(inside, border, np.finfo(float).tiny)
        z[at] = np.sqrt(own) * Y.shape[1] * np.log(max(border, tiny) / max(inside, tiny))
    return Valleys(pairs, z, pieces)


def _border(tree: cKDTree, lower: np.ndarray, upper: np.ndarray, m: int) -> float:
    """Median distance to the m-th neighbour half-way along the edges, over the smaller side."""
    radius = tree.query((tree.data[lower] + tree.data[upper]) / 2, [m])[0][:, 0]
    side = min((lower, upper), key=lambda side: len(np.unique(side)))
    return float(np.median(_medians(radius, side)))


def _medians(values: np.ndarray, owner: np.ndarray) -> np.ndarray:
    order = np.lexsort((values, owner))
    values, starts = values[order], np.flatnonzero(np.diff(owner[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(values)))
    return (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2


def _pieces(parts: np.ndarray, labels: np.ndarray, k: int, m: int) -> np.ndarray:
    sizes, sizes_of_clusters = np.bincount(parts), np.bincount(labels, minlength=k)
    cluster = np.zeros(len(sizes), dtype=int)
    cluster[parts] = labels
    large = sizes >= np.maximum(m + 1, 0.1 * sizes_of_clusters[cluster])
    return np.bincount(cluster[large], minlength=k)


def _of_similarity(
    W: Any, few: np.ndarray | None, labels: np.ndarray, sizes: np.ndarray
) -> Structure:
    """The test for a similarity: shares of leading eigenvectors that the labels explain."""
    if few is not None:
        W = type(W)(W.table.objects(few)) if hasattr(W, "table") else W[few][:, few]
    W = W.float() if is_bfloat16(W) else W
    k, tiny = len(sizes), np.finfo(float).tiny
    degree = np.maximum(to_numpy(degrees(W)).astype(np.float64), tiny)
    vectors = to_numpy(leading_eigenvectors(normalized_operator(W), k, tol=1e-3).vectors)
    sums = np.zeros((k, k))
    np.add.at(sums, labels, np.sqrt(degree)[:, None] * vectors)
    mass = np.maximum(np.bincount(labels, degree, k), tiny)
    left = 1.0 - np.linalg.svd(sums / np.sqrt(mass)[:, None], compute_uv=False) ** 2
    mean, deviation = TUNING.waves
    threshold, worst = mean + deviation * float(ndtri(LEVEL)), float(left[-1])
    apart = max(1, min(int((left < threshold).sum()), int((sizes >= SMALLEST).sum())))
    p_value = float(ndtr((worst - mean) / deviation))
    return Structure(worst, threshold, p_value, apart, apart == k, None)


def _sample(n: int, evidence: ArrayLike, kind: str) -> np.ndarray | None:
    """A fixed sample of many objects, or None for all; graphs cannot be sampled."""
    dense = isinstance(evidence, np.ndarray) or not is_numpy(evidence)
    divisible = dense or hasattr(evidence, "table")
    if n <= LARGEST or (kind == "similarity" and not divisible):
        return None
    chosen = np.sort(np.random.default_rng(0).choice(n, LARGEST, replace=False))
    if is_numpy(evidence) and kind != "similarity":
        chosen = sorted_rows(evidence)[chosen]  # the same objects in whatever order they come
    return chosen


def _rows(X: Any, rows: np.ndarray) -> np.ndarray:
    part = X[rows]
    part = (part.toarray() if sp.issparse(part) else to_numpy(part)).astype(np.float64)
    largest = float(np.nanmax(np.abs(part), initial=0.0))
    return part / (largest or 1.0)  # so that no square overflows


def warn_about_structure(found: Structure, memberships: np.ndarray, n_clusters: int) -> None:
    """Warn if confident memberships are not supported, or if a cluster consists of pieces."""
    U = to_numpy(memberships)
    if float(U.max(axis=1).mean()) < CONFIDENT:
        return
    if found.n_apart == 1:
        warn(
            f"{PREFIX}the data show no separate clusters: the memberships cut a continuum, or "
            "noise; do not read them as groups"
        )
    elif not found.supported and len(np.unique(U.argmax(axis=1))) == found.n_apart < n_clusters:
        return  # the existing clusters are separate, and the others are empty
    elif not found.supported:
        warn(
            f"{PREFIX}of {n_clusters} clusters, the data separate only {found.n_apart} groups: "
            "some clusters are parts of one group, or hold a few outliers; try fewer clusters"
        )
    elif found.split is not None:
        warn(
            f"{PREFIX}cluster {found.split} falls into pieces with an empty region between them: "
            "try more clusters, or a model of clusters of any shape"
        )


def has_few(X: Any) -> bool:
    """Whether there are too few (different) objects to compare densities."""
    return X.shape[0] < FEWEST or count_distinct(X, SMALLEST) < SMALLEST


def count_distinct(X: Any, most: int) -> int:
    """Number of different rows, or ``most`` if there are more."""
    if not isinstance(X, np.ndarray):
        return most
    for rows in (X[:1000], X):
        found = len(np.unique(rows, axis=0))
        if found >= most:
            return most
    return found
