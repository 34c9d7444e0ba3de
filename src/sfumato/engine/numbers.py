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
lambda_k if that is smaller. Two rules protect against chance. Neighbour graphs have few edges, so
blocks may share nothing by chance and would always win: the denominator of the gap counts one more
edge to other clusters for every cluster, k / (number of edges). And scores below ``noise_level``
count as noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.rows import one_blas_thread
from ..array.types import ArrayLike
from ..numerics import simplex
from ..numerics.distances import unit_rows
from ..numerics.eigen import leading_eigenvectors
from ..numerics.operators import Factored, degrees, magnitudes, normalized_operator
from . import loop
from .similarity_evidence import Evidence, isolated

# A misfit of a tenth removes the whole gap: clusters leave .000 to .03 of the kernel unexplained,
# continua and noise .03 to .2 (45 small data sets of many shapes; noise in 2 to 20 dimensions).
MISFIT_PENALTY = 10.0
# For similarities from nearest neighbours, the largest score of 95 of 100 normal, uniform,
# exponential and t clouds in 1 to 10 dimensions is .15 to .23 with 150 objects, and less with more;
# with fewer it grows like 1 / sqrt(n), to .45 at 30. Normal clouds four times as long as wide reach
# .3.
NOISE, FEW, MANY = 0.2, 30, 150


def misfit(factor: ArrayLike, memberships: ArrayLike) -> float:
    """Share of the cluster kernel that memberships do not explain, |ZZ' - UU'|^2 / |ZZ'|^2.

    Parameters
    ----------
    factor : array of shape (n, k)
        Leading eigenvectors of the normalised similarity, every row scaled to length one.
    memberships : array of shape (n, k')

    Returns
    -------
    misfit : float
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
    square, both, own = (
        float(np.square(np.asarray(sums, dtype=np.float64)).sum())
        for sums in (factor, cross, memberships)
    )
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
        raise ValueError(
            f"eigenvalues must be an array of at least two numbers, got shape {values.shape}"
        )
    gaps = (values[:-1] - values[1:]) / np.maximum(1.0 - values[1:], 1e-9)
    gaps[0] = np.nan
    return gaps


def penalized_eigengap(eigengap: Any, misfit: Any) -> Any:
    """Eigengap reduced by the misfit, ``eigengap * max(0, 1 - 10 misfit)``."""
    return eigengap * np.maximum(0.0, 1.0 - MISFIT_PENALTY * np.asarray(misfit, dtype=np.float64))


def noise_level(n_objects: float) -> float:
    """Score that noise with this number of objects rarely exceeds."""
    return NOISE * (MANY / min(max(n_objects, FEW), MANY)) ** 0.5


def number_scores(W: Any, weights: np.ndarray | None, largest: int) -> dict[int, float]:
    """Scores of 2, ..., ``largest`` clusters from one spectrum of a similarity (n, n).

    They are 0 if the gap is far below that of noise. Objects without any similarity are left out.
    """
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
    """Memberships (n, k) of unit rows, by a rotation of k directions to the corners of the simplex.

    The directions are k rows far from each other (Damle, Minden and Ying 2019; in a tie, the one
    closest to all others), moved to the means of nearby rows.
    """
    weighted = weights[:, None] * Z
    close = Z @ weighted.sum(axis=0) / weights.sum()
    rest, C = Z * (1.0 + 1e-3 * close)[:, None], np.empty((Z.shape[1], Z.shape[1]))
    for r in range(len(C)):  # a QR decomposition with pivoting, without idle threads
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


def _edges(W: Any, weights: np.ndarray | None) -> float:
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
