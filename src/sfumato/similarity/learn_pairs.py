"""Learn a similarity from pairs of objects, where ``learn`` does it from labels."""

from __future__ import annotations

import numpy as np

from ..array.docs import documented
from ..array.types import ArrayLike, Similarity
from ..array.validation import check_number
from ..array.warn import warn
from ..data.constraints import check_pairs
from ..data.matrices import check_similarity
from ..numerics.operators import as_dense
from ..numerics.waiting import waited

__all__ = ["pair_cost_gradient"]

ABSENT = 1e-24  # squared length of a row of the embedding that is zero but for rounding
LEAST_GAP = 1e-10  # between eigenvalues; the derivative of the leading eigenvectors divides by it


@documented
def pair_cost_gradient(
    W: Similarity,
    n_clusters: int,
    *,
    must_link: ArrayLike | None = None,
    cannot_link: ArrayLike | None = None,
) -> tuple[float, np.ndarray]:
    """Cost of known pairs in the spectral embedding, and its derivative by every similarity.

    With e_i the rows of the leading eigenvectors of the normalised similarity and c_ij the cosine
    of e_i and e_j, the cost is the weighted mean of (1 - c_ij)^2 over pairs that belong together
    and of c_ij^2 over pairs that belong apart. It is 0 where spectral clustering into
    ``n_clusters`` satisfies all pairs. With its derivative any similarity that depends smoothly on
    parameters can be learnt from pairs, as with ``spectral_cost_gradient`` from labels.

    Parameters
    ----------
    W : array or sparse array of shape (n, n)
        Symmetric, nonnegative similarities; every object has some to another. Costs O(n^3).
        Where W falls into more unconnected pieces than ``n_clusters``, objects that the leading
        eigenvectors leave out count as orthogonal to the others, with a warning.
    n_clusters : int
        Number of leading eigenvectors, at least 2 and fewer than n.
    must_link, cannot_link : array of shape (m, 2) or (m, 3), optional
        Pairs of rows that belong together and apart; a third column holds positive weights, which
        are 1 by default. At least one pair is needed.

    Returns
    -------
    cost : float
    %(similarity_gradient)s

    %(learning_spectral)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import pair_cost_gradient
    >>> W = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> cost, G = pair_cost_gradient(W, 2, must_link=[(0, 1)], cannot_link=[(1, 4)])
    >>> bool(cost < 1e-12), G.shape
    (True, (6, 6))
    """
    dense: np.ndarray = as_dense(check_similarity(W)).astype(np.float64)
    n = len(dense)
    if n < 3:
        raise ValueError(
            f"W holds similarities of {n} object{'s' * (n > 1)}: pairs are learnt from 3 or more"
        )
    check_number(n_clusters, "n_clusters", low=2, high=n - 1, integer=True)
    pairs, wanted, weights = _known(must_link, cannot_link, n)
    degree = dense.sum(axis=1)
    if not (degree > 1e-100 * max(degree.max(), 1.0)).all():
        raise ValueError(f"object {degree.argmin()} has no similarity to any other: leave it out")
    s = degree**-0.5
    values, V = waited(np.linalg.eigh, s[:, None] * dense * s)
    E, rest = V[:, -n_clusters:], V[:, :-n_clusters]
    P = E @ E.T
    _warn_of_absent(P.diagonal(), pairs, n_clusters)
    cost, G = _of_projection(P, pairs, wanted, weights)
    gaps = np.maximum(values[-n_clusters:] - values[:-n_clusters, None], LEAST_GAP)
    G = rest @ (2.0 * (rest.T @ G @ E) / gaps) @ E.T
    G = (G + G.T) / 2
    by_degree = -((G * dense) @ s) * degree**-1.5
    return cost, G * s[:, None] * s + (by_degree[:, None] + by_degree) / 2


def _known(
    must_link: ArrayLike | None, cannot_link: ArrayLike | None, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs (m, 2), the cosine that is wanted of each, and weights that sum to one."""
    none = np.empty((0, 2))
    together, first = check_pairs(none if must_link is None else must_link, n, "must_link")
    apart, second = check_pairs(none if cannot_link is None else cannot_link, n, "cannot_link")
    pairs = np.concatenate([together, apart])
    if not len(pairs):
        raise ValueError("must_link or cannot_link must hold a pair of rows, got none")
    weights = np.nan_to_num(np.concatenate([first, second]), nan=1.0)
    return pairs, np.repeat([1.0, 0.0], [len(together), len(apart)]), weights / weights.sum()


def _warn_of_absent(own: np.ndarray, pairs: np.ndarray, n_clusters: int) -> None:
    """Warn of objects of pairs whose row of the embedding is zero."""
    absent = np.unique(pairs)[own[np.unique(pairs)] <= ABSENT]
    if absent.size:
        shown = ", ".join(map(str, absent[:5])) + (", ..." if absent.size > 5 else "")
        warn(
            f"objects {shown} of the pairs do not appear in the {n_clusters} leading eigenvectors: "
            "W has more pieces that are not connected than n_clusters. Their pairs count as "
            "orthogonal and have no derivative; widen the similarity"
        )


def _of_projection(
    P: np.ndarray, pairs: np.ndarray, wanted: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """The cost for the projection P on the leading eigenvectors, and its derivative by P."""
    i, j = pairs.T
    there = np.minimum(P.diagonal()[i], P.diagonal()[j]) > ABSENT
    own = np.where(P.diagonal() > ABSENT, P.diagonal(), 1.0)
    size = np.sqrt(own[i] * own[j])
    cosine = np.where(there, P[i, j] / size, 0.0)
    miss = cosine - wanted
    slope = np.where(there, 2.0 * weights * miss, 0.0)
    G = np.zeros_like(P)
    np.add.at(G, (i, j), slope / size / 2)
    np.add.at(G, (j, i), slope / size / 2)
    for one in (i, j):
        np.add.at(G, (one, one), -slope * cosine / (2 * own[one]))
    return float(weights @ miss**2), G
