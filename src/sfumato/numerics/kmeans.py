"""From an embedding to clusters: weighted k-means, and memberships.

    distortion   sum_i w_i min_r |z_i - c_r|^2
    memberships  u_ir ~ (1 + |z_i - c_r|^2 / t)^(-(1 + q) / 2),    q = k - 1,

the posterior of k spherical Cauchy densities (Student's t with one degree of freedom) of equal
weight, with the maximum-likelihood scale t: embedded clusters are compact cores with thin bridges,
for which Gaussian tails are too short. The largest membership belongs to the nearest center.
Centers and scale are computed on the host. With z_i = e_i / sqrt(d_i) and w_i = d_i the distortion
is the spectral cost J = 1/2 |E E' - Pi|^2 of Bach and Jordan (2006), where Pi is the projection
onto the sqrt(d)-weighted cluster indicators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import inplace, namespace, native, to_numpy
from ..array.types import Array, Similarity
from . import simplex
from .distances import unit_rows
from .eigen import leading_eigenvectors


def spectral_start(A: Similarity, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) from the leading eigenvectors of ``A``, not below about ``floor``."""
    Z = to_numpy(unit_rows(leading_eigenvectors(A, k, tol=1e-3).vectors))
    return soft_assignment(Z, k, rng, floor)


def soft_assignment(Z: np.ndarray, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) from cosines of rows with k nearly orthogonal ones, the first random."""
    chosen = native("kmeans").orthogonal_rows(Z, k, [int(rng.integers(len(Z)))])[0]
    return simplex.normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + floor)


def squared_distances(Z: Array, centers: Array) -> Any:
    """Squared distances (n, k), from differences, so exact if a row is equal to a center."""
    xp = namespace(Z)
    columns = [xp.sum((Z - centers[r, :]) ** 2, axis=1) for r in range(centers.shape[0])]
    return xp.stack(columns, axis=1)


def memberships(distances: Array, t: float, q: int) -> Any:
    """Rows of (1 + distances / t)^(-(1 + q) / 2), normalised."""
    logits = inplace("log1p", distances / t)
    logits *= -(1 + q) / 2
    return simplex.normalize(simplex.softmax(logits)[0])


def temperature(distances: Array, weights: Array, q: int, *, max_iter: int = 200) -> float:
    """Maximum-likelihood scale t for fixed centers, by EM."""
    D, w = to_numpy(distances), to_numpy(weights)
    largest = float(D.max())
    if largest == 0:
        return 1.0
    smallest = max(1e-24 * largest, float(np.finfo(D.dtype).smallest_normal))
    t = max(smallest, float((w * D.min(axis=1)).sum()) / (q * float(w.sum())))
    return native("kmeans").cauchy_scale(D, w, q, t, smallest, max_iter)


def spectral_cost(E: np.ndarray, degree: Array, labels: Array, k: int) -> float:
    """J = k - sum_r |sum_{i in r} sqrt(d_i) e_i|^2 / sum_{i in r} d_i  for orthonormal E (n, k)."""
    xp = namespace(E)
    indicator = xp.astype(labels[:, None] == xp.arange(k, device=E.device)[None, :], E.dtype)
    sums = (indicator * degree[:, None] ** 0.5).T @ E
    volume = xp.sum(indicator * degree[:, None], axis=0)
    used = volume > 0
    shares = xp.sum(sums * sums, axis=1) / xp.where(used, volume, xp.ones_like(volume))
    n_used = int(np.sum(np.asarray(used.tolist())))
    return max(0.0, 0.5 * (E.shape[1] + n_used) - float(xp.sum(shares)))
