"""The simplex: rows that are nonnegative and sum to one.

``project`` gives the nearest point, ``normalize`` divides by the row sum, ``softmax`` takes
logarithms, and ``quadratic_program`` solves min over the simplex of u'Hu / 2 - b'u for many rows at
once, by an active set on the host and by pair steps on devices.
"""

from typing import Any

import numpy as np

from ..array.arrays import add_at, device, inplace, namespace, native
from ..array.types import Array

TINY = 1e-15


def normalize(U: Array) -> Any:
    """Rows divided by their sums; a row without mass becomes uniform."""
    xp = namespace(U)
    total = xp.sum(U, axis=-1, keepdims=True)
    safe = xp.where(total > 0, total, xp.ones_like(total))
    return xp.where(total > 0, U / safe, xp.full_like(U, 1.0 / U.shape[-1]))


def softmax(logits: Array) -> tuple[Any, Any]:
    """Rows of exp(logits) divided by their sums (in place), and the logarithms of the sums."""
    xp = namespace(logits)
    top = xp.max(logits, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    logits -= top
    logits = inplace("exp", logits)
    total = xp.sum(logits, axis=-1, keepdims=True)
    logits /= total
    return logits, xp.squeeze(xp.log(total) + top, axis=-1)


def project(V: Array) -> Any:
    """Nearest point of the simplex for every row (Held, Wolfe and Crowder 1974)."""
    xp = namespace(V)
    k = V.shape[-1]
    with np.errstate(over="ignore"):
        V = V - xp.max(V, axis=-1, keepdims=True)
    V = xp.clip(V, min=-2.0)  # scores lower than the largest by at least one get no share
    descending = xp.flip(xp.sort(V, axis=-1), axis=-1)
    excess = xp.cumulative_sum(descending, axis=-1) - 1.0
    rank = xp.arange(1, k + 1, dtype=V.dtype, device=device(V))
    active = xp.sum(xp.astype(descending * rank > excess, xp.int64), axis=-1, keepdims=True)
    threshold = xp.take_along_axis(excess, active - 1, axis=-1) / xp.astype(active, V.dtype)
    return normalize(xp.clip(V - threshold, min=0.0))


def draw(rng: np.random.Generator, shape: tuple[int, ...], concentration: float = 1.0) -> Any:
    """Dirichlet draws along the last axis, as a NumPy array."""
    return normalize(rng.standard_gamma(concentration, size=shape) + TINY)


def pair_steps(H: Array, gradient: Array, U: Array, n_steps: int) -> Any:
    """``n_steps`` exact line searches between the best and the worst used vertex of each row.

    ``U`` is (rows, k), ``gradient`` = U H - B; both are overwritten, the gradient up to the last
    step. ``H`` is (k, k), or (r, k, k): row i then belongs to problem i mod r. Mass moves from the
    used coordinate with the largest gradient to the one with the smallest, up to the minimum, where
    their gradients are set exactly equal, so that order rather than rounding breaks the tie.
    """
    xp = namespace(U)
    n_rows, k = U.shape
    rows = xp.arange(n_rows, device=device(U))
    problem = rows % (H.shape[0] if H.ndim == 3 else 1) * k
    rows = rows * k
    curvature, H = xp.reshape(_pair_curvature(H), (-1,)), xp.reshape(H, (-1, k))
    unused = xp.asarray(-xp.inf, dtype=U.dtype, device=device(U))
    mass, slope = xp.reshape(U, (-1,)), xp.reshape(gradient, (-1,))
    for step_number in range(n_steps):
        to = xp.argmin(gradient, axis=1)
        out = xp.argmax(xp.where(U > 0, gradient, unused), axis=1)
        at_to, at_out, from_out = rows + to, rows + out, problem + out
        step = xp.take(slope, at_out) - xp.take(slope, at_to)
        step /= xp.take(curvature, from_out * k + to)
        left = xp.take(mass, at_out)
        step = xp.minimum(step, left)
        add_at(mass, at_to, step)
        add_at(mass, at_out, -step)
        if step_number == n_steps - 1:
            break
        change = xp.take(H, problem + to, axis=0)
        change -= xp.take(H, from_out, axis=0)
        change *= step[:, None]
        gradient += change
        level = xp.take(slope, at_to) - xp.take(slope, at_out)
        add_at(slope, at_out, xp.where(step < left, level, xp.zeros_like(level)))
    return U


def quadratic_program(H: Array, B: Array, *, max_steps: int = 200, tol: float = 1e-12) -> Any:
    """Rows u (n, k) on the simplex that minimise u'Hu / 2 - b'u, one for every row b of ``B``.

    ``H`` (k, k) or (n, k, k) is positive semidefinite. NumPy arrays use an exact active set; others
    at most ``max_steps`` rounds of pair steps, up to ``tol`` relative to the entries of H and B.
    """
    xp = namespace(B)
    if xp is np:
        return native("simplex").quadratic_programs(np.asarray(H), np.asarray(B))
    k = B.shape[1]
    U = xp.full_like(B, 1.0 / k)
    scale = xp.max(xp.abs(H)) + xp.max(xp.abs(B)) if B.shape[0] else 1.0
    for _ in range(max_steps):
        U = pair_steps(H, _rows_times(U, H) - B, U, max(1, k // 2))
        gradient = _rows_times(U, H) - B
        used = xp.where(U > 0, gradient, xp.full_like(gradient, -xp.inf))
        if not bool(xp.any(xp.max(used, axis=1) - xp.min(gradient, axis=1) > tol * scale)):
            break
    return normalize(U)


def _rows_times(U: Array, H: Array) -> Any:
    """Products u_i H, or u_i H_i if every row has its own matrix."""
    return U @ H if H.ndim == 2 else (U[:, None, :] @ H)[:, 0, :]


def _pair_curvature(H: Array) -> Any:
    """H_rr + H_ss - 2 H_rs, bounded away from zero so that a flat pair takes the whole step."""
    xp = namespace(H)
    diagonal = xp.linalg.diagonal(H)
    curvature = diagonal[..., :, None] + diagonal[..., None, :] - 2.0 * H
    return xp.clip(curvature, min=float(xp.finfo(H.dtype).smallest_normal) ** 0.5)
