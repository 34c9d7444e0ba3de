"""The kernels of ``cuda``: rows of W times memberships, and the move of rows whose products are
known. Need Triton.

*Multiply* reads rows of W at the speed of memory, with the error of float32: w = w1 + w2 and v = v1
+ v2 are half-precision numbers, and w1 v1 + w1 v2 + w2 v1 are left to the matrix units. *Move* does
all that a panel still needs in one go: gradient, pair steps, every sum, and, by the program that
finishes last, the matrices for the panel that follows. S = U'U is counted in whole units of 2^-40,
which makes its sum exact, whatever the order in which the programs add to it.
"""

from __future__ import annotations

import triton
import triton.language as tl

BAND = 64  # columns of W that its halves keep side by side
UNITS = 2.0**40  # of S in one
_BAND = tl.constexpr(BAND)
_UNITS = tl.constexpr(UNITS)


@triton.jit(do_not_specialize=["first", "panel", "left_out"])
def multiply(
    W1, W2, V1, V2, parts, arrays, first, n_rows, panel, left_out, begin, end, chunk, stride, unit, c,
    SPLIT: tl.constexpr, WHOLE: tl.constexpr, BEND: tl.constexpr,
    M: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """parts[j] = unit * W[rows, chunk j] @ (V1 + V2)[chunk j], but for ``left_out`` chunks before
    ``panel``; program (block of rows, j).

    With WHOLE, the entries of W are so short that one half-precision number holds them.

    With BEND, the first halves alone, and column sums of the product times the change of the rows:
    it is of second order.
    """
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, C)
    j = tl.program_id(1)
    j += tl.where(j >= panel - left_out, left_out, 0)
    begin += j * chunk
    end = tl.minimum(begin + chunk, end)
    block = first + tl.program_id(0) * M
    at = (first + tl.minimum(row, n_rows - 1)).to(tl.int64)[:, None] * stride
    total = tl.zeros((M, C), dtype=tl.float32)
    for depth in range(begin, end, K):
        if SPLIT:
            band = depth // _BAND * stride + block
            w1, v1 = W1.load([band, depth % _BAND]), V1.load([depth, 0])
            if not BEND:
                w2, v2 = W2.load([band, depth % _BAND]), V2.load([depth, 0])
        else:
            inner = depth + tl.arange(0, K)
            inside = inner < end
            w = tl.load(W1 + at + inner[None, :], mask=inside[None, :], other=0.0)
            w = w.to(tl.float32) * unit
            if WHOLE:
                w1 = w.to(tl.float16)
            else:
                rough = (w.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
                w1, w2 = rough.to(tl.float16), (w - rough).to(tl.float16)
            v1 = tl.load(V1 + inner[:, None] * C + column[None, :], mask=inside[:, None], other=0.0)
            v2 = tl.load(V2 + inner[:, None] * C + column[None, :], mask=inside[:, None], other=0.0)
        if BEND:
            total += tl.dot(w1, v1)
        else:
            part = tl.dot(w1, v2)
            if not WHOLE:
                part = tl.dot(w2, v1, part)
            total += tl.dot(w1, v1, part)  # the matrix units add up by cutting off: short sums only
    real = (row < n_rows)[:, None]
    if BEND:
        change = tl.load(
            arrays[0] + (first + row)[:, None] * c + column[None, :],
            mask=real & (column < c)[None, :],
            other=0.0,
        )
        tl.store(parts + tl.program_id(0) * C + column, tl.sum(total * change, axis=0))
    else:
        tl.store(parts + (j * n_rows + row)[:, None] * C + column[None, :], total, mask=real)


@triton.jit(do_not_specialize=["first", "panel", "n_tails"])
def move(
    V1, V2, parts, arrays, first, n_rows, panel, n_tails, unit, c, k,
    EXCLUDE: tl.constexpr, CHUNKS: tl.constexpr, B: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """New memberships of a block of rows of one run, and what they add to S and to the six sums.

    Program (block, run).
    """
    (
        tails,
        V,
        change,
        change1,
        change2,
        diagonal,
        aS,
        H,
        S,
        S_panels,
        curvature,
        scale,
        counters,
        sums,
    ) = arrays
    block, run, runs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    row, cluster = block * B + tl.arange(0, B), tl.arange(0, K)
    used = (cluster < k)[None, :]
    real = (row < n_rows)[:, None] & used
    wide = row[:, None] * C + run * k + cluster[None, :]
    product = tl.zeros((B, K), dtype=tl.float32)
    mixed = tl.zeros((B, K), dtype=tl.float32)
    for j in tl.static_range(CHUNKS):
        part = tl.load(
            parts + j * n_rows * C + wide,
            mask=real & ((j != panel - 1) | (n_tails == 0)),
            other=0.0,
        )
        product += part
        mixed += part * tl.where(j > panel, 2.0, tl.where(j == panel, 1.0, 0.0))
    for j in range(n_tails):
        product += tl.load(tails + j * n_rows * C + wide, mask=real, other=0.0)
    product, mixed = product * unit, mixed * unit
    place = (first + row)[:, None] * c + run * k + cluster[None, :]
    old = tl.load(V + place, mask=real, other=0.0)
    square = run * k * k + cluster[:, None] * k + cluster[None, :]
    both = (cluster < k)[:, None] & used
    gradient = (
        tl.dot(old, tl.load(aS + square, mask=both, other=0.0), input_precision="ieee") - product
    )
    own = tl.zeros((B,), dtype=tl.float32)
    if EXCLUDE:
        own = tl.load(diagonal + first + row, mask=row < n_rows, other=0.0)
        gradient += (own - tl.load(scale + run).to(tl.float32) * tl.sum(old * old, axis=1))[
            :, None
        ] * old
    mass = _pair_steps(
        H + run * k * k, tl.where(used, gradient, float("inf")), old, cluster, k, (k + 1) // 2
    )
    mass = tl.where(mass > 1e-15, mass, 0.0)
    total = tl.sum(mass, axis=1)
    mass /= tl.where(total > 0, total, 1.0)[:, None]
    moved = mass - old
    tl.store(V + place, mass, mask=real)
    tl.store(change + place, moved, mask=real)
    halves = (first + row)[:, None] * C + run * k + cluster[None, :]
    _store_halves(V1, V2, halves, mass, real)
    _store_halves(change1, change2, halves, moved, real)
    gram = tl.dot(tl.trans(mass), mass, input_precision="ieee")
    tl.atomic_add(S + square, (gram.to(tl.float64) * _UNITS).to(tl.int64), mask=both, sem="relaxed")
    here = sums + ((block * CHUNKS + panel) * runs + run) * 6
    tl.store(here, tl.sum(tl.sum((old * mixed).to(tl.float64), axis=1), axis=0))
    tl.store(here + 1, tl.sum(tl.sum((2.0 * moved * product).to(tl.float64), axis=1), axis=0))
    if EXCLUDE:
        _store_squares(here + 2, own, tl.sum(old * old, axis=1))
        _store_squares(here + 4, own, tl.sum(mass * mass, axis=1))
    tl.debug_barrier()
    if tl.atomic_add(counters + panel * runs + run, 1) == tl.num_programs(0) - 1:
        _follow(
            aS, H, S, S_panels, curvature, scale, panel + 1, run, runs, k, K, 32 if K > 32 else K
        )


@triton.jit
def _pair_steps(H, gradient, mass, cluster, k, n_steps):
    """As ``simplex.pair_steps``, for a block of rows that share ``H``."""
    used = (cluster < k)[None, :]
    index = tl.broadcast_to(cluster[None, :], gradient.shape)
    for _ in range(n_steps):
        open = tl.where(mass > 0, gradient, -float("inf"))
        low, to, high, out, room = tl.reduce((gradient, index, open, index, mass), 1, _extremes)
        at_to, at_out = to * k, out * k
        bend = tl.load(H + at_to + to) + tl.load(H + at_out + out) - 2.0 * tl.load(H + at_to + out)
        slope = tl.load(
            H + at_to[:, None] + cluster[None, :],
            mask=used,
            other=0.0,
            eviction_policy="evict_last",
        )
        slope -= tl.load(
            H + at_out[:, None] + cluster[None, :],
            mask=used,
            other=0.0,
            eviction_policy="evict_last",
        )
        rise = tl.load(H + at_to + to) - tl.load(H + at_out + to)
        step = tl.minimum((high - low) / tl.maximum(bend, 1e-19), room)
        step = tl.where(room > 0, step, 0.0)
        is_to, is_out = index == to[:, None], index == out[:, None]
        level = (low + step * rise)[:, None]
        gradient = tl.where(
            (is_to | is_out) & (step < room)[:, None], level, gradient + step[:, None] * slope
        )
        mass += tl.where(is_to, step[:, None], 0.0) - tl.where(is_out, step[:, None], 0.0)
    return mass


@triton.jit
def _extremes(low, to, high, out, room, low2, to2, high2, out2, room2):
    less = (low2 < low) | ((low2 == low) & (to2 < to))
    more = (high2 > high) | ((high2 == high) & (out2 < out))
    low, to = tl.where(less, low2, low), tl.where(less, to2, to)
    return (
        low,
        to,
        tl.where(more, high2, high),
        tl.where(more, out2, out),
        tl.where(more, room2, room),
    )


@triton.jit
def _store_halves(first, second, place, values, mask):
    rough = (values * 256.0).to(tl.float16)
    tl.store(first + place, rough, mask=mask)
    tl.store(second + place, (values * 256.0 - rough.to(tl.float32)).to(tl.float16), mask=mask)


@triton.jit
def _store_squares(here, own, square):
    """What the diagonal takes off t and q."""
    tl.store(here, tl.sum((own * square).to(tl.float64), axis=0))
    tl.store(here + 1, tl.sum((square * square).to(tl.float64), axis=0))


@triton.jit
def _follow(
    aS, H, S, S_panels, curvature, scale, panel, run, runs, k, K: tl.constexpr, SOME: tl.constexpr
):
    """a S and the Hessian for ``panel``, whose own old memberships leave S."""
    a, bend = tl.load(scale + run), tl.load(curvature + panel * runs + run)
    cluster = tl.arange(0, K)
    for start in range(0, K, SOME):
        some = start + tl.arange(0, SOME)
        at = run * k * k + some[:, None] * k + cluster[None, :]
        real = (some < k)[:, None] & (cluster < k)[None, :]
        now = tl.load(S + at, mask=real, other=0, cache_modifier=".cg")
        rest = now - tl.load(S_panels + panel * runs * k * k + at, mask=real, other=0)
        tl.store(S + at, rest, mask=real)
        tl.store(aS + at, (a * (now.to(tl.float64) / _UNITS)).to(tl.float32), mask=real)
        raised = a * (rest.to(tl.float64) / _UNITS) + tl.where(
            some[:, None] == cluster[None, :], bend, 0.0
        )
        tl.store(H + at, raised.to(tl.float32), mask=real)
