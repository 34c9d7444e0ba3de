"""Discriminative clustering: cells of x whose class distributions differ (Sinkkonen and Kaski
2002; Sinkkonen, Kaski and Nikkila 2002).

q_i(x) is the class distribution of x times its weight, p_i the prior counts with sum P, s the
bandwidth, m_j the prototypes:

    y_j(x) = exp(-|x - m_j|^2 / s^2) / Z(x),    r_ji = sum_x y_j(x) q_i(x),    R_j = sum_i r_ji,
            R = sum_j R_j

    maximise  L = sum_ji log [G(p_i + r_ji) / G(p_i)] - sum_j log [G(P + R_j) / G(P)] - penalty
    sum_j R_j log(k R_j / R)

With  A = dL/dr  and  e_j(x) = sum_i q_i(x) A_ji:
        dL/dm_j = (2/s^2) sum_x (x - m_j) y_j(x) [e_j(x) - sum_l y_l(x) e_l(x)].
Both r and the gradient add up over row blocks. With distributions psi_j as parameters in the place
of the counts, the expected Kullback-Leibler distortion of the source:

    minimise   E = - sum_x sum_j y_j(x) sum_i q_i(x) log psi_j(i) = - sum_ji r_ji log psi_j(i)

The best psi_j for given prototypes are r_ji / R_j, and at these  dE/dm  is the partial derivative:
the same formula with  A = log psi.  Online steps are s^2/2 times the gradient of a batch.

A missing value (NaN) is left out of the distance, which is raised by p over the number of the
others (Hathaway and Bezdek 2001): x - m_j is zero there, and correspondingly larger elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import psi, xlogy

from ...array.arrays import namespace, to_numpy
from ...array.types import Array
from ...numerics.simplex import softmax


def memberships(X: Any, centers: np.ndarray, bandwidth: float) -> Any:
    """Memberships y_j(x) (n, k); |x|^2 cancels, so a sparse ``X`` stays sparse."""
    return softmax(_affinities(X, centers, 2.0 / bandwidth**2))[0]


def cells(X: Array, centers: np.ndarray) -> Any:
    """Index of the nearest prototype (the Voronoi cell) of every row."""
    affinities = _affinities(X, centers, 1.0)
    return namespace(affinities).argmax(affinities, axis=1)


def _affinities(X: Any, centers: np.ndarray, scale: float) -> Any:
    """scale (x'm_j - |m_j|^2 / 2): minus half the squared distance, up to a term in x only."""
    xp = namespace(X)
    if (partial := _partial(X)) is not None:
        heavy, there = partial
        return heavy @ (scale * centers).T - there @ (0.5 * scale * centers**2).T
    slopes, heights = (scale * centers).T, (-0.5 * scale) * np.sum(centers**2, axis=1)
    if xp is not np:
        slopes, heights = (
            xp.asarray(part, dtype=X.dtype, device=X.device) for part in (slopes, heights)
        )
    affinities = X @ slopes
    affinities += heights
    return affinities


def counts(Y: Array, Q: Array) -> np.ndarray:
    """r = Y'Q (k, classes) for memberships (n, k) and weighted class distributions."""
    return np.asarray((Q.T @ Y).T) if sp.issparse(Q) else to_numpy(Y.T @ Q)


def size_cost(r: np.ndarray) -> float:
    """sum_j R_j log(k R_j / R): 0 for equal sizes, R log k if one cluster holds everything."""
    sizes = r.sum(axis=1)
    return float(xlogy(sizes, len(sizes) * sizes / sizes.sum()).sum())


def distortion(r: np.ndarray) -> float:
    """E for counts r (k, classes), with the best class distributions of the clusters."""
    return -float(np.sum(r * _log_shares(r)))


def _log_shares(r: np.ndarray) -> np.ndarray:
    """log psi (k, classes); for absent classes, the log of the smallest float."""
    tiny = np.finfo(float).tiny
    return np.log(np.maximum(r / np.maximum(r.sum(axis=1, keepdims=True), tiny), tiny))


def slopes(r: np.ndarray, prior: np.ndarray | None, penalty: float = 0.0) -> np.ndarray:
    """A = dL/dr (k, classes) up to a constant, which cancels; without a prior, that of -E."""
    sizes = r.sum(axis=1, keepdims=True)
    A = _log_shares(r) if prior is None else psi(prior + r) - psi(prior.sum() + sizes)
    share = np.maximum(len(sizes) * sizes / sizes.sum(), np.finfo(float).tiny)
    return A - penalty * np.log(share) if penalty else A


def pull(
    X: Any, Y: np.ndarray, Q: Any, A: np.ndarray, centers: np.ndarray, bandwidth: float
) -> np.ndarray:
    """dL/dm (k, p) of a block, given the slopes ``A`` for all data."""
    xp = namespace(X)
    E = Q @ A.T if xp is np else Q @ xp.asarray(A.T, dtype=X.dtype, device=X.device)
    E -= xp.sum(Y * E, axis=1)[:, None]
    E *= Y
    return (2.0 / bandwidth**2) * moved(X, E, centers)


def _partial(X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows with zeros for missing values, and indicators of values, rescaled to all features."""
    if not isinstance(X, np.ndarray) or not np.isnan(X).any():
        return None
    there = ~np.isnan(X)
    share = X.shape[1] / np.maximum(there.sum(axis=1, keepdims=True), 1)
    return share * np.where(there, X, 0.0), share * there


def moved(X: Any, E: Any, centers: np.ndarray) -> np.ndarray:
    """sum_x E_j(x) (x - m_j), (k, p)."""
    if (partial := _partial(X)) is not None:
        heavy, there = partial
        return E.T @ heavy - (E.T @ there) * centers
    total = np.asarray((X.T @ E).T) if sp.issparse(X) else to_numpy(E.T @ X)
    return total - to_numpy(namespace(E).sum(E, axis=0))[:, None] * centers
