"""From an embedding to clusters: weighted k-means, and how sure each row is.

    distortion   sum_i w_i min_r |z_i - c_r|^2
    memberships  u_ir ~ (1 + |z_i - c_r|^2 / t)^(-(1 + q) / 2),    q = k - 1,

the posterior of k spherical Cauchy densities (Student's t with one degree of freedom) of equal
weight, whose scale t has the largest likelihood: embedded clusters are compact cores with thin
bridges, which Gaussian tails would cut. The largest membership is the nearest center. With z_i =
e_i / sqrt(d_i) and w_i = d_i the distortion is the spectral cost J = 1/2 |E E' - Pi|^2 of Bach and
Jordan (2006), Pi the projection onto the sqrt(d)-weighted cluster indicators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import inplace, namespace, native, to_numpy
from ..array.types import Array, Similarity
from . import simplex
from .distances import unit_rows
from .eigen import leading_eigenvectors


def orthogonal_rows(Z: Array, k: int, first: int) -> list[int]:
    """Row ``first``, then one after another the row most orthogonal to those chosen."""
    xp = namespace(Z)
    lengths = xp.sum(Z * Z, axis=1) ** 0.5
    nonzero = lengths > 0
    U = Z / xp.where(nonzero, lengths, xp.ones_like(lengths))[:, None]
    chosen = [first]
    worst = xp.where(nonzero, xp.abs(U @ U[first, :]), xp.full_like(lengths, 2.0))
    for _ in range(k - 1):
        chosen.append(int(xp.argmin(worst)))
        worst = xp.maximum(worst, xp.abs(U @ U[chosen[-1], :]))
    return chosen


def spectral_start(A: Similarity, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) from the leading eigenvectors of ``A``, never below about ``floor``."""
    Z = to_numpy(unit_rows(leading_eigenvectors(A, k, tol=1e-3).vectors))
    return soft_assignment(Z, k, rng, floor)


def soft_assignment(Z: np.ndarray, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) by the cosines of rows with k nearly orthogonal ones, the first drawn."""
    chosen = orthogonal_rows(Z, k, int(rng.integers(len(Z))))
    return simplex.normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + floor)


def squared_distances(Z: Array, centers: Array) -> Any:
    """|z_i - c_r|^2, (n, k), from differences: exact where a row lies on a center."""
    xp = namespace(Z)
    columns = [xp.sum((Z - centers[r, :]) ** 2, axis=1) for r in range(centers.shape[0])]
    return xp.stack(columns, axis=1)


def lloyd_step(Z: Any, weights: Array, lengths: Array, centers: Any) -> tuple[Any, float]:
    """Means of the rows nearest to each center, and the distortion before; ``lengths``: |z_i|^2.

    A center without rows goes to the worst row.
    """
    xp = namespace(Z)
    k = centers.shape[0]
    partial = Z @ (-2 * centers.T)
    partial += xp.sum(centers * centers, axis=1)[None, :]
    labels = xp.argmin(partial, axis=1)
    nearest = xp.take_along_axis(partial, labels[:, None], axis=1)[:, 0]
    errors = weights * xp.clip(nearest + lengths, min=0.0)
    indicator = xp.take(xp.eye(k, dtype=Z.dtype, device=Z.device), labels, axis=0)
    indicator *= weights[:, None]
    mass = xp.sum(indicator, axis=0)
    moved = (indicator.T @ Z) / xp.where(mass > 0, mass, xp.ones_like(mass))[:, None]
    distortion = float(xp.sum(errors))
    for r in range(k):
        if float(mass[r]) == 0:
            worst = int(xp.argmax(errors))
            moved[r, :] = Z[worst, :]
            errors[worst] = 0
    return moved, distortion


def memberships(distances: Array, t: float, q: int) -> Any:
    """Rows of (1 + distances / t)^(-(1 + q) / 2), normalised."""
    logits = inplace("log1p", distances / t)
    logits *= -(1 + q) / 2
    return simplex.normalize(simplex.softmax(logits)[0])


def temperature(distances: np.ndarray, weights: Array, q: int, *, max_iter: int = 200) -> float:
    """The t of largest likelihood around fixed centers, by expectation-maximisation.

    After every two steps the rest of the way is guessed from their ratio (Aitken).
    """
    xp = namespace(distances)
    largest = float(xp.max(distances))
    if largest == 0:
        return 1.0
    smallest = max(1e-24 * largest, float(xp.finfo(distances.dtype).smallest_normal))
    nearest = float(xp.sum(weights * xp.min(distances, axis=1)))
    t = max(smallest, nearest / (q * float(xp.sum(weights))))
    if isinstance(distances, np.ndarray):
        return native("kmeans").cauchy_scale(distances, weights, q, t, smallest, max_iter)
    way = 0.0
    for step in range(max_iter):
        U = memberships(distances, t, q)
        U *= weights[:, None]
        U /= 1 + distances / t
        before, t = t, max(smallest, float(xp.sum(U * distances)) / (q * float(xp.sum(U))))
        last, way = way, float(np.log(t / before))
        if abs(way) <= 1e-6:
            break
        if step % 2 and 0 < (ratio := way / last) < 1:
            t = max(smallest, t * float(np.exp(np.clip(way * ratio / (1 - ratio), -3, 3))))
    return t


def spectral_cost(E: np.ndarray, degree: Array, labels: Array, k: int) -> float:
    """J = k - sum_r |sum_{i in r} sqrt(d_i) e_i|^2 / sum_{i in r} d_i  of orthonormal E (n, k)."""
    xp = namespace(E)
    indicator = xp.astype(labels[:, None] == xp.arange(k, device=E.device)[None, :], E.dtype)
    sums = (indicator * degree[:, None] ** 0.5).T @ E
    volume = xp.sum(indicator * degree[:, None], axis=0)
    used = volume > 0
    shares = xp.sum(sums * sums, axis=1) / xp.where(used, volume, xp.ones_like(volume))
    n_used = int(np.sum(np.asarray(used.tolist())))
    return max(0.0, 0.5 * (E.shape[1] + n_used) - float(xp.sum(shares)))
