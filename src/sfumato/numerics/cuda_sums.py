"""Sums of soft assignments on a CUDA device: objects are read once, memberships never stored.

Needs torch and Triton.

D_j(x) = c_j + C_j . x + q_j |x|^2   (or + Q_j . x^2)        one block of objects at a time
A = u^m of u ~ D^(-1 / (m - 1))  (fuzzy c-means, fuzzifier m),  or softmax(D)  (mixtures)
sums over the objects of  w A (1, x, |x|^2)  (or w A (1, x, x^2)),  and of their costs, which are
w k / sum 1 / D  for m = 2,  or  w log sum exp D
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from ..array.types import Array

BLOCK = 32  # objects per block


@triton.jit
def _reciprocal(x):
    """1 / x by a device instruction, with an error of one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _upper(x):
    """``x`` rounded to the 11 leading bits that tensor cores use."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def _add_product(total, a_upper, a_lower, b_upper, b_lower):
    """``total`` + a b in single precision, from three products of upper and lower parts."""
    total = tl.dot(a_lower, b_upper, total, input_precision="tf32")
    total = tl.dot(a_upper, b_lower, total, input_precision="tf32")
    return tl.dot(a_upper, b_upper, total, input_precision="tf32")


@triton.jit
def _soft_sums(
    X, weights, table, out, stride, n, d, k, floor, fuzzifier,
    FUZZY: tl.constexpr, SQUARE: tl.constexpr, DIAGONAL: tl.constexpr, WEIGHTED: tl.constexpr, B: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    cluster, feature = tl.arange(0, K), tl.arange(0, D)
    WIDTH: tl.constexpr = 2 * D + 1 if DIAGONAL else D + 2
    row, entry = cluster * WIDTH, cluster[None, :] * WIDTH + 1 + feature[:, None]
    c, C = tl.load(table + row), tl.load(table + entry)
    Q = tl.load(table + entry + D) if DIAGONAL else tl.load(table + row + 1 + D)
    C_upper = _upper(C)
    C_lower = C - C_upper
    if DIAGONAL:
        Q_upper = _upper(Q)
        Q_lower = Q - Q_upper
    mass, level = tl.zeros((K,), dtype=tl.float32), tl.zeros((B,), dtype=tl.float32)
    first = tl.zeros((D, K), dtype=tl.float32)
    second = tl.zeros((D, K), dtype=tl.float32) if DIAGONAL else tl.zeros((K,), dtype=tl.float32)
    for begin in range(program * B, n, programs * B):
        object = begin + tl.arange(0, B)
        inside = object < n
        place = X + feature[:, None].to(tl.int64) * stride + object[None, :]
        x = tl.load(place, mask=(feature < d)[:, None] & inside[None, :], other=0.0)
        w = tl.load(weights + object, mask=inside, other=0.0) if WEIGHTED else inside.to(tl.float32)
        x_upper, square = _upper(x), x * x
        x_lower = x - x_upper
        if DIAGONAL:
            square_upper = _upper(square)
            square_lower = square - square_upper
            L = tl.zeros((B, K), dtype=tl.float32) + c[None, :]
            L = _add_product(L, tl.trans(square_upper), tl.trans(square_lower), Q_upper, Q_lower)
        else:
            norm = tl.sum(square, axis=0)
            L = norm[:, None] * Q[None, :] + c[None, :]
        L = _add_product(L, tl.trans(x_upper), tl.trans(x_lower), C_upper, C_lower)
        if SQUARE:
            A = tl.where((cluster < k)[None, :], _reciprocal(tl.maximum(L + floor, floor)), 0.0)
            total = tl.sum(A, axis=1)
            level += w * k / total
            A = A * A * (w / (total * total))[:, None]
        elif FUZZY:
            L = tl.where((cluster < k)[None, :], tl.maximum(L + floor, floor), float("inf"))
            least = tl.min(L, axis=1)
            ratio = least[:, None] * _reciprocal(L)  # at most one, so that no power overflows
            A = tl.exp2(tl.log2(ratio) / (fuzzifier - 1.0))
            total = tl.sum(A, axis=1)
            scale = tl.exp2(tl.log2(k / total) * (fuzzifier - 1.0))
            level += w * least * scale
            A = A * ratio * (w * scale / total)[:, None]
        else:
            L = tl.where((cluster < k)[None, :], L, -float("inf"))
            top = tl.max(L, axis=1)
            A = tl.exp(L - top[:, None])
            total = tl.sum(A, axis=1)
            level += w * (tl.log(total) + top)
            A = A * (w / total)[:, None]
        mass += tl.sum(A, axis=0)
        A_upper = _upper(A)
        A_lower = A - A_upper
        first = _add_product(first, x_upper, x_lower, A_upper, A_lower)
        if DIAGONAL:
            second = _add_product(second, square_upper, square_lower, A_upper, A_lower)
        else:
            second += tl.sum(A * norm[:, None], axis=0)
    here = out + program * (K * WIDTH + 1)
    tl.store(here + row, mass)
    tl.store(here + entry, first)
    tl.store(here + (entry + D if DIAGONAL else row + 1 + D), second)
    tl.store(here + K * WIDTH, tl.sum(level, axis=0))


def fits(Z: Any, coefficients: np.ndarray, d: int) -> bool:
    """Whether ``soft_sums`` can use columns z(x) (q, n) and coefficients (k, q)."""
    k, q = coefficients.shape
    tables = _padded(k) * _padded(d) * (2 if q == 2 * d + 1 else 1)
    small = tables <= 128 * 128  # padded coefficients that fit into shared memory with the objects
    single = Z.is_cuda and Z.dtype == torch.float32 and Z.stride(1) == 1
    return bool(single and small and q in (d + 2, 2 * d + 1))


def _padded(size: int) -> int:
    return max(16, triton.next_power_of_2(size))


def soft_sums(
    Z: Any,
    weights: Array,
    coefficients: np.ndarray,
    d: int,
    *,
    fuzzifier: float | None = None,
    floor: float = 0.0,
) -> tuple[np.ndarray, float]:
    """Weighted sums (k, q) of z(x), and the sum of the objects' costs (log-likelihoods).

    With a ``fuzzifier``, ``floor`` is added to D, as a bound on rounding errors; without one, the
    sums are those of mixtures.
    """
    k, q = coefficients.shape
    n, diagonal = Z.shape[1], q == 2 * d + 1 and d > 1
    K, D = _padded(k), _padded(d)
    table = np.zeros((K, 1 + D + (D if diagonal else 1)), dtype=np.float32)
    table[:k, : d + 1] = coefficients[:, : d + 1]
    table[:k, D + 1 : D + q - d] = coefficients[:, d + 1 :]
    # The sums are kept in registers: with too few warps a pass takes fifty times as long.
    warps = 2 if K * D <= 2048 else 4 if K * D <= 8192 else 8
    # 16, 4 and 2 per multiprocessor, measured on an H200 for 4 to 128 features and 3 to 128
    # clusters.
    programs = min({2: 2112, 4: 528, 8: 264}[warps], triton.cdiv(n, BLOCK))
    out = torch.empty((programs, table.size + 1), dtype=torch.float32, device=Z.device)
    _soft_sums[(programs,)](
        Z[1:], Z if weights is None else weights, torch.from_numpy(table).to(Z.device), out, Z.stride(0), n, d, k, float(floor), fuzzifier or 0.0,
        FUZZY=fuzzifier is not None, SQUARE=fuzzifier == 2.0, DIAGONAL=diagonal, WEIGHTED=weights is not None, B=BLOCK, K=K, D=D, num_warps=warps, num_stages=1,
    )  # fmt: skip
    total = out.sum(0, dtype=torch.float64).cpu().numpy()
    sums = total[:-1].reshape(K, -1)[:k]
    return np.hstack([sums[:, : d + 1], sums[:, D + 1 : D + q - d]]), float(total[-1])
