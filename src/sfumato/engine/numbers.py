"""Scores of numbers of clusters: the eigengap of a similarity, reduced by the misfit of clusters.

With the eigenvalues lambda of the normalised similarity in descending order, its k leading
eigenvectors Z_k with rows of length one, and memberships U_k in k clusters,

    gap_k    = (lambda_k - lambda_{k+1}) / (1 - lambda_{k+1})
    misfit_k = |Z_k Z_k' - U_k U_k'|^2 / |Z_k Z_k'|^2
    score_k  = gap_k max(0, 1 - 10 misfit_k)

The gap is 1 if k blocks share nothing, and 0 if no number stands out. The misfit is 0 if the rows
of Z_k point in k orthogonal directions, as for k blocks.

``number_scores`` computes them for all k from one spectrum. If all pairs have some similarity in
common, every eigenvalue but the first is lowered by one factor, so the gap is then relative to
lambda_k if that is smaller. Blocks of a neighbour graph may share nothing by chance, so the
denominator counts one more edge to other clusters for every cluster, k / (number of edges); and
scores below ``noise_level`` count as noise.

Few objects are compared with clouds without clusters (``few_scores``), by the gap statistic of
Tibshirani, Walther and Hastie (2001), standardised:

    z_k = ( mean log W_k - log W_k ) / deviation

W_k is the scatter within k clusters of Ward's tree relative to the total scatter; mean and
deviation are those of uniform objects in the box around the principal axes. There are clusters if
the largest z exceeds that of 95 of 100 uniform clouds, and also of 95 of 100 skewed clouds of one
group, whose axes have gamma distributions: the long tail of a single group is also far from the
rest. The number of clusters is the one whose last split lowers log W most beyond uniform clouds;
the largest z would split 45 flowers, a third of iris, into 9, this rule into 2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage

from ..array.rows import one_blas_thread
from ..array.types import ArrayLike, Weights
from ..array.warn import warn
from ..numerics import simplex
from ..numerics.distances import unit_rows
from ..numerics.eigen import leading_eigenvectors
from ..numerics.operators import Factored, degrees, magnitudes, normalized_operator
from . import loop
from .similarity_evidence import Evidence, isolated
from .structure import LEVEL

# A misfit of a tenth removes the whole gap: clusters leave .000 to .03 of the kernel unexplained,
# continua and noise .03 to .2.
MISFIT_PENALTY = 10.0
# The largest score of 95 of 100 clouds is .15 to .23 for 150 objects; it grows like 1 / sqrt(n).
NOISE, FEW, MANY = 0.2, 30, 150


def misfit(factor: ArrayLike, memberships: ArrayLike) -> float:
    """Share of the cluster kernel that memberships do not explain, |ZZ' - UU'|^2 / |ZZ'|^2.

    ``factor`` (n, k) are leading eigenvectors of the normalised similarity with rows of length one.
    About 0 to .03 if there are k clusters, .04 and more if not.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.selection.criteria import misfit
    >>> misfit(np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 0, 1]])
    0.0
    """
    Z, U = (np.asarray(values, dtype=np.float64) for values in (factor, memberships))
    return misfit_of_sums(Z.T @ Z, Z.T @ U, U.T @ U)


def misfit_of_sums(factor: ArrayLike, cross: Any, memberships: ArrayLike) -> float:
    """The misfit from the k x k sums Z'Z, Z'U and U'U, which add up over blocks of objects."""
    given = (np.asarray(sums, dtype=np.float64) for sums in (factor, cross, memberships))
    square, both, own = (float(np.square(sums).sum()) for sums in given)
    return max(0.0, (square - 2 * both + own) / max(square, np.finfo(float).tiny))


def eigengap(eigenvalues: ArrayLike) -> np.ndarray:
    """Relative eigengaps for k = 1, ..., m - 1 of m eigenvalues in descending order.

    (lambda_k - lambda_{k+1}) / (1 - lambda_{k+1}): 1 if k blocks share nothing, 0 if there is no
    gap. The first entry, for one cluster, is NaN.

    Examples
    --------
    >>> from sfumato.selection.criteria import eigengap
    >>> eigengap([1.0, 0.9, 0.2, 0.1]).round(3)
    array([  nan, 0.875, 0.111])
    """
    values = np.minimum(np.asarray(eigenvalues, dtype=np.float64), 1.0)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"eigenvalues must be two numbers or more, got shape {values.shape}")
    gaps = (values[:-1] - values[1:]) / np.maximum(1.0 - values[1:], 1e-9)
    gaps[0] = np.nan
    return gaps


def penalized_eigengap(eigengap: Any, misfit: Any) -> Any:
    """Eigengap reduced by the misfit, ``eigengap * max(0, 1 - 10 misfit)``."""
    return eigengap * np.maximum(0.0, 1.0 - MISFIT_PENALTY * np.asarray(misfit, dtype=np.float64))


def noise_level(n_objects: float) -> float:
    """Score that noise with this number of objects rarely exceeds."""
    return NOISE * (MANY / min(max(n_objects, FEW), MANY)) ** 0.5


def number_scores(W: Any, weights: Weights, largest: int) -> dict[int, float]:
    """Scores of 2, ..., ``largest`` clusters of a similarity (n, n), without isolated objects."""
    alone = isolated(W)
    if alone.any():
        W, weights, *_ = Evidence(W, weights).take(~alone)
    largest = min(largest, W.shape[0] - 1)
    if largest < 2:
        return {}
    A = normalized_operator(W, degrees(magnitudes(W), weights), weights)
    # The error of eigenvalues is the square of this tolerance.
    spectrum = leading_eigenvectors(A, largest, tol=1e-4)
    values = np.minimum(np.append(np.asarray(spectrum.values), spectrum.following), 1.0)
    n, edges = W.shape[0], _edges(W, weights)
    # Rows of the eigenvectors of weighted objects are sqrt(v) times those of single copies.
    few = np.arange(n) if n <= 1000 else np.random.default_rng(0).choice(n, 1000, replace=False)
    E = np.asarray(spectrum.vectors)[few].astype(np.float64)
    root = np.ones(len(few)) if weights is None else np.sqrt(weights[few])
    scores = {}
    with one_blas_thread():  # thin products gain nothing from threads
        for k in range(2, largest + 1):
            # Vanishing eigenvalues have arbitrary relative gaps.
            most = min(1.0 - values[k] + k / edges, max(values[k - 1], NOISE / 4))
            gap = (values[k - 1] - values[k]) / most
            fit = 1.0
            if gap > NOISE / 4:  # no score is larger than its gap, so smaller gaps are skipped
                Z = unit_rows(E[:, :k])
                fit = misfit(root[:, None] * Z, root[:, None] * reading(Z, root**2))
            scores[k] = float(penalized_eigengap(gap, fit))
            loop.tell(k - 1, largest - 1, scores[k])
    return scores


def reading(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Memberships (n, k) of unit rows, by a rotation of k directions to the corners of the simplex:
    k rows far from each other (Damle, Minden and Ying 2019), moved to the means of nearby rows.
    """
    weighted = weights[:, None] * Z
    close = Z @ weighted.sum(axis=0) / weights.sum()
    rest, C = Z * (1.0 + 1e-3 * close)[:, None], np.empty((Z.shape[1], Z.shape[1]))
    for r in range(len(C)):  # QR with pivoting; LAPACK's would start threads
        far = np.argmax(np.einsum("ij,ij->i", rest, rest))
        C[r], direction = Z[far], rest[far] / max(np.linalg.norm(rest[far]), 1e-150)
        rest = rest - np.outer(rest @ direction, direction)
    clusters, labels = np.arange(len(C)), np.full(len(Z), -1)
    for _ in range(10):  # k-means steps, which start close to convergence
        before, labels = labels, (Z @ C.T).argmax(axis=1)
        if (before == labels).all():
            break
        C = (labels == clusters[:, None]) @ weighted
        C /= np.maximum(np.linalg.norm(C, axis=1), 1e-150)[:, None]
    U, _, V = np.linalg.svd(C)
    return simplex.project(Z @ (U @ V).T)


def _edges(W: Any, weights: Weights) -> float:
    """Number of edges of a graph; if weighted, that of equal edges with the same variation."""
    n = W.shape[0]
    v = np.ones(n) if weights is None else weights
    if isinstance(W, Factored):
        F = (np.sqrt(v)[:, None] * (W.factor.toarray() if sp.issparse(W.factor) else W.factor)).T
        total, square = float(np.square(F @ np.sqrt(v)).sum()), float(np.square(F @ F.T).sum())
    elif sp.issparse(W) or isinstance(W, np.ndarray):
        square = float(v @ (W.multiply(W) if sp.issparse(W) else W * W) @ v)
        total = float(v @ abs(W) @ v)
    else:
        return float(v.sum()) ** 2 / 2
    return max(total**2 / max(square, np.finfo(float).tiny) / 2, 1.0)


class Tuning(NamedTuple):
    """Constants of the comparison of few objects (docs/thresholds.md)."""

    draws: int = 99  # clouds, for a level of exactly 0.05
    # Factor on the skewness of few objects, which is underestimated; nearly normal to exponential.
    skewed: float = 1.5
    least_skewed: float = 0.1
    most_skewed: float = 2.0
    objects: int = 5  # smallest mean number of objects in a cluster
    most: int = 20  # largest number of clusters


TUNING = Tuning()


def few_scores(X: Any, weights: Weights = None) -> np.ndarray:
    """Scores of 1, 2, ... clusters: how much more the last split lowers log W than in noise; 0 for
    one cluster, alone if nothing is beyond noise.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if weights is not None:
        copies = np.rint(weights) if np.all(weights == np.rint(weights)) else weights > 0
        X = np.repeat(X, np.minimum(copies, len(X)).astype(int), axis=0)
    S = _principal(X)
    largest = min(max(2, min(len(S) // TUNING.objects, TUNING.most)), len(np.unique(S, axis=0)))
    if largest < 2 or len(S) < 3:
        return np.zeros(1)
    low, high = S.min(axis=0), S.max(axis=0)
    below, clustered = _against_draws(S, largest, lambda rng: rng.uniform(low, high, S.shape))
    if not clustered or not _against_draws(S, largest, _skewed_clouds(S))[1]:
        return np.zeros(1)
    return np.append(0.0, np.diff(below, prepend=0.0))


def _against_draws(
    S: np.ndarray, largest: int, draw: Callable[[np.random.Generator], np.ndarray]
) -> tuple[np.ndarray, bool]:
    """Difference of log W to that of drawn clouds, and whether it exceeds 95 of 100 of them."""
    rng = np.random.default_rng(0)
    null = np.array([_scatter(draw(rng), largest) for _ in range(TUNING.draws)])
    mean, deviation = null.mean(axis=0), np.maximum(null.std(axis=0, ddof=1), 1e-12)
    highest = ((mean - null) / deviation).max(axis=1)
    below = mean - _scatter(S, largest)
    bound = np.quantile(highest, 1 - LEVEL, method="higher")
    return below, bool((below / deviation).max() > bound)


def _skewed_clouds(S: np.ndarray) -> Callable[[np.random.Generator], np.ndarray]:
    """A function that draws one-group clouds with the deviations and skewness of the axes."""
    deviation = S.std(axis=0)
    unit = S / np.maximum(deviation, np.finfo(float).tiny)
    skewness = np.abs(np.mean(unit**3, axis=0))
    # The gamma distribution of shape 4 / g^2 has skewness g; the sign does not affect scatter.
    wider = np.clip(TUNING.skewed * skewness, TUNING.least_skewed, TUNING.most_skewed)
    shape = 4.0 / wider**2
    scale = deviation / np.sqrt(shape)
    return lambda rng: rng.gamma(shape, scale, S.shape)


def number_of_few(X: Any, weights: Weights = None) -> int:
    """The number of clusters of a few objects; warns if it is one."""
    step = max(1, X.shape[0] // 1000)  # there are few different objects, so the others are copies
    scores = few_scores(X[::step], None if weights is None else weights[::step])
    found = int(np.argmax(scores)) + 1
    if found == 1 < X.shape[0]:
        warn(f"{X.shape[0]} objects are no closer in clusters than noise: one is the answer")
    return found


def _principal(X: np.ndarray) -> np.ndarray:
    """Objects on their principal axes, scaled to the largest extent; missing values at the mean."""
    seen = ~np.isnan(X)
    X = X / max(float(np.abs(X[seen]).max(initial=0.0)), np.finfo(float).tiny)
    mean = np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    X = np.where(seen, X - mean, 0.0)
    X = X[:, (X[:1] != X).any(axis=0)]
    if not X.size:
        return X
    reach = float(np.abs(X).max())
    return X / reach @ np.linalg.svd(X / reach, full_matrices=False)[2].T


def _scatter(S: np.ndarray, largest: int) -> np.ndarray:
    """Log shares of the scatter within 2, ..., ``largest`` clusters."""
    within = np.append(np.cumsum(linkage(S, "ward")[:, 2] ** 2)[::-1], 0.0)
    return np.log(np.maximum(within[1:largest] / within[0], 1e-12))
