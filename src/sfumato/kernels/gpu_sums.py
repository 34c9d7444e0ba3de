"""Sums of soft assignment on a CUDA device: objects are read once, memberships are never stored. Needs torch and Triton.

D_j(x) = c_j + C_j . x + q_j |x|^2   (or + Q_j . x^2)        one block of objects at a time
A = u^2 of u ~ 1 / D  (fuzzy c-means, fuzzifier 2),  or softmax(D)  (mixtures)
sums over the objects of  w A (1, x, |x|^2)  (or w A (1, x, x^2)),  and of  w k / sum 1 / D,  or  w log sum exp D
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

__all__ = ["fits", "soft_sums"]

PROGRAMS = 528  # four for each multiprocessor of an H200
LARGEST = 128  # clusters, features
TILE = {"B": 64, "num_warps": 4, "num_stages": 3}


@triton.jit
def _soft_sums(
    X, weights, constant, linear, quadratic, out, cost, stride, n, d, k, floor,
    FUZZY: tl.constexpr, DIAGONAL: tl.constexpr, WEIGHTED: tl.constexpr, B: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    cluster, feature = tl.arange(0, K), tl.arange(0, D)
    table = cluster[:, None] * D + feature[None, :]
    c, C = tl.load(constant + cluster), tl.load(linear + table)
    Q = tl.load(quadratic + table) if DIAGONAL else tl.load(quadratic + cluster)
    mass, level = tl.zeros((K,), dtype=tl.float32), tl.zeros((B,), dtype=tl.float32)
    first = tl.zeros((K, D), dtype=tl.float32)
    second = tl.zeros((K, D), dtype=tl.float32) if DIAGONAL else tl.zeros((K,), dtype=tl.float32)
    for begin in range(program * B, n, programs * B):
        object = begin + tl.arange(0, B)
        inside = object < n
        x = tl.load(X + feature[:, None].to(tl.int64) * stride + object[None, :], mask=(feature < d)[:, None] & inside[None, :], other=0.0)
        w = tl.load(weights + object, mask=inside, other=0.0) if WEIGHTED else inside.to(tl.float32)
        L = tl.dot(C, x, input_precision="tf32x3") + c[:, None]
        if DIAGONAL:
            L += tl.dot(Q, x * x, input_precision="tf32x3")
        else:
            norm = tl.sum(x * x, axis=0)
            L += Q[:, None] * norm[None, :]
        if FUZZY:
            A = tl.where((cluster < k)[:, None], 1.0 / tl.maximum(L + floor, floor), 0.0)
            total = tl.sum(A, axis=0)
            level += w * k / total
            A = A * A * (w / (total * total))[None, :]
        else:
            L = tl.where((cluster < k)[:, None], L, -float("inf"))
            top = tl.max(L, axis=0)
            A = tl.exp(L - top[None, :])
            total = tl.sum(A, axis=0)
            level += w * (tl.log(total) + top)
            A = A * (w / total)[None, :]
        mass += tl.sum(A, axis=1)
        first += tl.dot(A, tl.trans(x), input_precision="tf32x3")
        if DIAGONAL:
            second += tl.dot(A, tl.trans(x * x), input_precision="tf32x3")
        else:
            second += tl.sum(A * norm[None, :], axis=1)
    here = out + program * K * (2 * D + 1) if DIAGONAL else out + program * K * (D + 2)
    tl.store(here + cluster, mass)
    tl.store(here + K + table, first)
    tl.store(here + K + K * D + (table if DIAGONAL else cluster), second)
    tl.store(cost + program, tl.sum(level.to(tl.float64), axis=0))


def fits(Z: Any, coefficients: np.ndarray, d: int) -> bool:
    """Whether columns z(x), (q, n) with objects contiguous, and coefficients (k, q) are of a kind and size for ``soft_sums``."""
    k, q = coefficients.shape
    return bool(Z.is_cuda and Z.dtype == torch.float32 and Z.stride(1) == 1 and max(k, d) <= LARGEST and q in (d + 2, 2 * d + 1))


def soft_sums(Z: Any, weights: Any, coefficients: np.ndarray, d: int, *, fuzzy: bool, floor: float = 0.0) -> tuple[np.ndarray, float]:
    """Weighted sums (k, q) of z(x) and the sum of the objects' costs (log-likelihoods); ``coefficients`` (k, q) give D of z(x).

    With ``fuzzy``, D is raised by ``floor``, which rounding could take from it.
    """
    k, q = coefficients.shape
    n, diagonal = Z.shape[1], q == 2 * d + 1 and d > 1
    K, D = (max(16, triton.next_power_of_2(size)) for size in (k, d))
    table = np.zeros((K, 1 + D + (D if diagonal else 1)), dtype=np.float32)
    table[:k, 0], table[:k, 1 : d + 1] = coefficients[:, 0], coefficients[:, 1 : d + 1]
    table[:k, D + 1 : D + 1 + q - d - 1] = coefficients[:, d + 1 :]
    columns = torch.from_numpy(table).to(Z.device)
    constant, linear, quadratic = (part.contiguous() for part in (columns[:, 0], columns[:, 1 : D + 1], columns[:, D + 1 :]))
    programs = min(PROGRAMS, triton.cdiv(n, 64))
    out = torch.empty((programs, K * table.shape[1]), dtype=torch.float32, device=Z.device)
    cost = torch.empty(programs, dtype=torch.float64, device=Z.device)
    _soft_sums[(programs,)](
        Z[1:], Z if weights is None else weights, constant, linear, quadratic, out, cost, Z.stride(0), n, d, k, float(floor),
        FUZZY=fuzzy, DIAGONAL=diagonal, WEIGHTED=weights is not None, K=K, D=D, **TILE,
    )  # fmt: skip
    total = torch.cat([out.sum(0, dtype=torch.float64), cost.sum()[None]]).cpu().numpy()
    mass, first, second = total[:K], total[K : K + K * D].reshape(K, D), total[K + K * D : -1].reshape(K, -1)
    return np.hstack([mass[:k, None], first[:k, :d], second[:k, : q - d - 1]]), float(total[-1])
