"""Sweeps for a dense similarity on a CUDA device, which cost hardly more than reading W once.

Needs torch and Triton; import at call time.

*Multiply* reads rows of W at memory speed with float32 accuracy: w = w1 + w2 and v = v1 + v2 are
split into half-precision numbers, and the matrix units compute w1 v1 + w1 v2 + w2 v1. For many
columns, the two parts of W are made in advance if there is room, in bands of columns, so that each
program reads contiguous memory.

*Move* does all other work of a panel at once: gradient, pair steps, all sums, and (by the program
that finishes last) the matrices for the next panel. S = U'U is added up in integer units of 2^-40,
so its sum is exact in any order of the programs.

A *sweep* over the panels is recorded once as a CUDA graph and replayed. Most of a panel's product
(all columns except those of the two preceding panels) runs while these are still being updated.
Between two moves, only the small product with the columns just updated remains, so the device never
waits.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from scipy.sparse.linalg import LinearOperator
from triton.tools.tensor_descriptor import TensorDescriptor

from ...array.types import Array, Similarity
from ...array.validation import free_memory

WIDEST = 256  # largest number of columns (runs x clusters) that the kernel takes
CUT = 128  # the size of a panel is a multiple of this number of rows
BAND = 64  # columns of W per band
UNITS = 2.0**40  # integer units of S per 1.0
LARGE = 256.0  # half-precision numbers are scaled to this size
MOVED = 16  # rows updated by one program
AHEAD = 3  # panels whose products may be in progress
_BAND = tl.constexpr(BAND)
_UNITS = tl.constexpr(UNITS)
# Measured on an H200
TILES = {
    16: {"M": 128, "K": 64, "num_warps": 4, "num_stages": 3},
    32: {"M": 128, "K": 64, "num_warps": 4, "num_stages": 3},
    64: {"M": 128, "K": 32, "num_warps": 8, "num_stages": 4},
    128: {"M": 128, "K": 64, "num_warps": 8, "num_stages": 3},
    256: {"M": 128, "K": 32, "num_warps": 8, "num_stages": 3},
}


@triton.jit(do_not_specialize=["first", "panel", "left_out"])
def multiply(
    W1, W2, V1, V2, parts, arrays, first, n_rows, panel, left_out, begin, end, chunk, stride, unit, c,
    SPLIT: tl.constexpr, WHOLE: tl.constexpr, BEND: tl.constexpr,
    M: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """parts[j] = unit * W[rows, chunk j] @ (V1 + V2)[chunk j]; program (block of rows, j).

    ``left_out`` chunks before ``panel`` are skipped. With WHOLE, an entry of W is one
    half-precision number. With BEND, the result is column sums of the product of the first halves
    times the change of the rows.
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
            total += tl.dot(w1, v1, part)  # the matrix units truncate sums, so sums are kept short
    real = (row < n_rows)[:, None]
    if BEND:
        here = arrays[0] + (first + row)[:, None] * c + column[None, :]
        change = tl.load(here, mask=real & (column < c)[None, :], other=0.0)
        tl.store(parts + tl.program_id(0) * C + column, tl.sum(total * change, axis=0))
    else:
        tl.store(parts + (j * n_rows + row)[:, None] * C + column[None, :], total, mask=real)


@triton.jit(do_not_specialize=["first", "panel", "n_tails"])
def move(
    V1, V2, parts, arrays, first, n_rows, panel, n_tails, unit, c, k,
    EXCLUDE: tl.constexpr, CHUNKS: tl.constexpr, B: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """New memberships of a block of rows of one run, and their additions to S and the six sums."""
    (tails, V, change, change1, change2, diagonal, aS, H, S, S_panels, curvature, scale, counters,
     sums) = arrays  # fmt: skip
    block, run, runs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    row, cluster = block * B + tl.arange(0, B), tl.arange(0, K)
    used = (cluster < k)[None, :]
    real = (row < n_rows)[:, None] & used
    wide = row[:, None] * C + run * k + cluster[None, :]
    product = tl.zeros((B, K), dtype=tl.float32)
    mixed = tl.zeros((B, K), dtype=tl.float32)
    for j in tl.static_range(CHUNKS):
        there = real & ((j != panel - 1) | (n_tails == 0))
        part = tl.load(parts + j * n_rows * C + wide, mask=there, other=0.0)
        product += part
        mixed += part * tl.where(j > panel, 2.0, tl.where(j == panel, 1.0, 0.0))
    for j in range(n_tails):
        product += tl.load(tails + j * n_rows * C + wide, mask=real, other=0.0)
    product, mixed = product * unit, mixed * unit
    place = (first + row)[:, None] * c + run * k + cluster[None, :]
    old = tl.load(V + place, mask=real, other=0.0)
    square = run * k * k + cluster[:, None] * k + cluster[None, :]
    both = (cluster < k)[:, None] & used
    curved = tl.load(aS + square, mask=both, other=0.0)
    gradient = tl.dot(old, curved, input_precision="ieee") - product
    own = tl.zeros((B,), dtype=tl.float32)
    if EXCLUDE:
        own = tl.load(diagonal + first + row, mask=row < n_rows, other=0.0)
        level = tl.load(scale + run).to(tl.float32) * tl.sum(old * old, axis=1)
        gradient += (own - level)[:, None] * old
    gradient = tl.where(used, gradient, float("inf"))
    mass = _pair_steps(H + run * k * k, gradient, old, cluster, k, (k + 1) // 2)
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
    """The same as ``simplex.pair_steps``, for a block of rows with a common ``H``."""
    used = (cluster < k)[None, :]
    index = tl.broadcast_to(cluster[None, :], gradient.shape)
    for _ in range(n_steps):
        open = tl.where(mass > 0, gradient, -float("inf"))
        low, to, high, out, room = tl.reduce((gradient, index, open, index, mass), 1, _extremes)
        at_to, at_out = to * k, out * k
        bend = tl.load(H + at_to + to) + tl.load(H + at_out + out) - 2.0 * tl.load(H + at_to + out)
        there, here = H + at_to[:, None] + cluster[None, :], H + at_out[:, None] + cluster[None, :]
        slope = tl.load(there, mask=used, other=0.0, eviction_policy="evict_last")
        slope -= tl.load(here, mask=used, other=0.0, eviction_policy="evict_last")
        rise = tl.load(H + at_to + to) - tl.load(H + at_out + to)
        step = tl.minimum((high - low) / tl.maximum(bend, 1e-19), room)
        step = tl.where(room > 0, step, 0.0)
        is_to, is_out = index == to[:, None], index == out[:, None]
        level = (low + step * rise)[:, None]
        between = (is_to | is_out) & (step < room)[:, None]
        gradient = tl.where(between, level, gradient + step[:, None] * slope)
        mass += tl.where(is_to, step[:, None], 0.0) - tl.where(is_out, step[:, None], 0.0)
    return mass


@triton.jit
def _extremes(low, to, high, out, room, low2, to2, high2, out2, room2):
    less = (low2 < low) | ((low2 == low) & (to2 < to))
    more = (high2 > high) | ((high2 == high) & (out2 < out))
    low, to = tl.where(less, low2, low), tl.where(less, to2, to)
    high, out = tl.where(more, high2, high), tl.where(more, out2, out)
    return low, to, high, out, tl.where(more, room2, room)


@triton.jit
def _store_halves(first, second, place, values, mask):
    rough = (values * 256.0).to(tl.float16)
    tl.store(first + place, rough, mask=mask)
    tl.store(second + place, (values * 256.0 - rough.to(tl.float32)).to(tl.float16), mask=mask)


@triton.jit
def _store_squares(here, own, square):
    """Store the diagonal's contribution to t and q."""
    tl.store(here, tl.sum((own * square).to(tl.float64), axis=0))
    tl.store(here + 1, tl.sum((square * square).to(tl.float64), axis=0))


@triton.jit
def _follow(
    aS, H, S, S_panels, curvature, scale, panel, run, runs, k, K: tl.constexpr, SOME: tl.constexpr
):
    """Compute a S and the Hessian for the next ``panel``, without its own old memberships in S."""
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
        raised = a * (rest.to(tl.float64) / _UNITS)
        raised += tl.where(some[:, None] == cluster[None, :], bend, 0.0)
        tl.store(H + at, raised.to(tl.float32), mask=real)


def wide(c: int) -> int:
    """Number of columns with padding."""
    return max(16, triton.next_power_of_2(c))


def halves(V: Any, size: object) -> tuple[Any, Any]:
    """V * size as a sum of two half-precision arrays, with columns padded to a power of two."""
    V = torch.nn.functional.pad(V * size, (0, wide(V.shape[1]) - V.shape[1]))
    first = V.half()
    return first, (V - first).half()


class Sweep:
    """Buffers of a sweep over ``Panels`` for r runs of k clusters, with its recorded CUDA graph."""

    def __init__(self, W: Any, r: int, k: int, exclude: bool) -> None:
        self.r, self.k, self.exclude = r, k, exclude
        device = W.W.device
        single = {"device": device, "dtype": torch.float32}
        double = {"device": device, "dtype": torch.float64}
        n_panels, C = len(W.panels), wide(r * k)
        rows = n_panels * W.size
        self.V, self.change = (torch.zeros((rows, r * k), **single) for _ in range(2))
        self.halves, self.changed = halves(self.V, 0.0), halves(self.V, 0.0)
        self.parts = [torch.empty((n_panels, W.size, C), **single) for _ in range(AHEAD)]
        self.tails = torch.empty((triton.cdiv(W.size, W.piece), W.size, C), **single)
        self.bents = torch.zeros((n_panels, triton.cdiv(W.size, 64), C), **single)
        self.aS, self.H = torch.empty((r, k, k), **single), torch.empty((r, k, k), **single)
        self.S = torch.empty((2, r, k, k), device=device, dtype=torch.int64)  # before and now
        self.S_panels = torch.zeros((n_panels + 1, r, k, k), device=device, dtype=torch.int64)
        self.curvature = torch.zeros((n_panels + 1, r), **double)
        self.given = torch.ones((2, r), dtype=torch.float64, pin_memory=True)
        self.moments = torch.empty((4, r), dtype=torch.float64, pin_memory=True)
        self.numbers, self.scale = torch.ones((2, r), **double), torch.empty(r, **double)
        self.counters = torch.zeros((n_panels, r), device=device, dtype=torch.int32)
        self.sums = torch.zeros((triton.cdiv(W.size, MOVED), n_panels, r, 6), **double)
        self.built = False
        self.graph: Any = None

    def __call__(self, W: Any, U: Any, scale: Any, damping: Any) -> tuple[Any, np.ndarray]:
        """One sweep over all objects."""
        self.given.numpy()[:] = scale, damping
        self.V[: W.n].copy_(U.reshape(W.n, -1))
        if not self.built:
            self._run(W)  # not recorded, because kernels are compiled in the first run
            self.built = True
        else:
            if self.graph is None:
                self._record(W)
            self.graph.replay()
        moved = self.V[: W.n].view(W.n, self.r, self.k).clone()
        torch.cuda.current_stream().synchronize()
        return moved, self.moments.numpy().copy()

    def _record(self, W: Similarity) -> None:
        """Record a sweep as a graph; ``torch.cuda.graph`` would empty the memory pool."""
        aside, collects = torch.cuda.Stream(), gc.isenabled()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        gc.disable()  # no memory may be freed on the device while recording
        try:
            with torch.cuda.stream(aside):
                self.graph.capture_begin()
                self._run(W)
                self.graph.capture_end()
        finally:
            if collects:
                gc.enable()
        torch.cuda.current_stream().wait_stream(aside)

    def _run(self, W: Any) -> None:
        main = torch.cuda.current_stream()
        priorities = (-3, -2, -1, *(0 for _ in range(AHEAD)))
        visitor, near, bends, *bulks = streams = [
            torch.cuda.Stream(priority=priority) for priority in priorities
        ]
        self.numbers.copy_(self.given, non_blocking=True)
        self._cut()
        for stream in streams:
            stream.wait_stream(main)
        with torch.cuda.stream(visitor):
            self._begin(W)
            begun = visitor.record_event()
        moved: list[Any] = []
        for panel, rows in enumerate(W.panels):
            parts, bulk = self._parts(panel, rows), bulks[panel % AHEAD]
            with torch.cuda.stream(bulk):
                if panel:
                    bulk.wait_event(begun if panel < AHEAD else moved[panel - AHEAD])
                W.multiply(
                    self.halves, rows, slice(0, W.n), W.size, parts, panel, min(panel, AHEAD - 1)
                )
            with torch.cuda.stream(near):
                if panel > 1:
                    near.wait_event(moved[panel - 2])
                    W.multiply(self.halves, rows, W.panels[panel - 2], W.size, parts[panel - 2])
            with torch.cuda.stream(visitor):
                if panel:
                    W.multiply(self.halves, rows, W.panels[panel - 1], W.piece, self.tails)
                visitor.wait_stream(bulk)
                visitor.wait_stream(near)
                self._move(W, panel, rows, parts)
                moved.append(visitor.record_event())
            with torch.cuda.stream(bends):
                bends.wait_event(moved[panel])
                W.multiply(self.changed, rows, rows, W.size, self.bents[panel], change=self.change)
        for stream in streams:
            main.wait_stream(stream)
        self._finish(W)

    def _cut(self) -> None:
        """Split the memberships into two half-precision arrays."""
        first, second = (half[:, : self.r * self.k] for half in self.halves)
        scaled = self.V * LARGE
        first.copy_(scaled)
        torch.sub(scaled, first, out=second)

    def _begin(self, W: Any) -> None:
        """Compute S of every panel, and the input for the first panel's move."""
        r, k, n_panels = self.r, self.k, len(W.panels)
        blocks = self.V.view(n_panels * 16, W.size // 16, r, k).permute(0, 2, 1, 3)
        grams = (blocks.transpose(2, 3) @ blocks).view(n_panels, 16, r, k, k)
        grams = grams.sum(1, dtype=torch.float64)
        torch.clamp(self.numbers[0], min=1e-100, out=self.scale)
        self.S_panels[:-1] = grams * UNITS
        torch.sum(self.S_panels, 0, out=self.S[0])
        torch.sub(self.S[0], self.S_panels[0], out=self.S[1])
        torch.mul(grams.sum(3).amax(2), 3.0 * self.scale * self.numbers[1], out=self.curvature[:-1])
        a = self.scale[:, None, None] / UNITS
        self.aS.copy_(a * self.S[0])
        self.H.copy_(a * self.S[1] + torch.diag_embed(self.curvature[0, :, None].expand(r, k)))
        self.counters.zero_()

    def _parts(self, panel: int, rows: slice) -> Any:
        """Buffer for the products of a panel with all others."""
        n_panels, _, C = self.parts[0].shape
        n_rows = rows.stop - rows.start
        return self.parts[panel % AHEAD].view(-1)[: n_panels * n_rows * C].view(n_panels, n_rows, C)

    def _move(self, W: Any, panel: int, rows: slice, parts: Any) -> None:
        r, k = self.r, self.k
        n_rows, n_tails = rows.stop - rows.start, len(self.tails) if panel else 0
        arrays = (
            self.tails, self.V, self.change, *self.changed, W.diagonal,
            self.aS, self.H, self.S[1], self.S_panels, self.curvature, self.scale, self.counters, self.sums,
        )  # fmt: skip
        move[triton.cdiv(n_rows, MOVED), r](
            *self.halves, parts, arrays, rows.start, n_rows, panel, n_tails, 1.0 / (W.unit * LARGE), r * k, k,
            EXCLUDE=self.exclude, CHUNKS=len(W.panels), B=MOVED, K=wide(k), C=wide(r * k),
            num_warps=4 if k <= 32 else 8,
        )  # fmt: skip

    def _finish(self, W: Any) -> None:
        """Compute t and q before and after the sweep."""
        t, moved, diagonal, fourth, diagonal_new, fourth_new = self.sums.sum((0, 1)).T
        bent = self.bents.sum((0, 1), dtype=torch.float64)[: self.r * self.k]
        bent = bent.view(self.r, self.k).sum(1)
        t_new = t + moved + bent / (W.unit * LARGE)
        q, q_new = (self.S / UNITS).square().sum((2, 3))
        before, after = [t - diagonal, q - fourth], [t_new - diagonal_new, q_new - fourth_new]
        self.moments.copy_(torch.stack([*before, *after]), non_blocking=True)


class Panels(LinearOperator):
    """A dense similarity on a CUDA device in float32 or bfloat16, in the form of ``Explicit``.

    Products with bfloat16 entries are computed as with float32: only the entries lose precision, at
    most 1 part in 256.
    """

    def __init__(self, W: Any) -> None:
        super().__init__(np.dtype(np.float32), tuple(W.shape))
        self.W = W if W.stride(1) == 1 else W.contiguous()
        self.n = W.shape[0]
        self.size = -(-self.n // (min(max(16, self.n // 4096), -(-self.n // CUT)) * CUT)) * CUT
        self.piece = -(-self.size // (8 * BAND)) * BAND
        self.panels = [
            slice(start, min(start + self.size, self.n)) for start in range(0, self.n, self.size)
        ]
        self.whole = W.dtype == torch.bfloat16
        self.diagonal = torch.diagonal(W).float().contiguous()
        self.norm = sum(
            float((torch.linalg.vector_norm(W[rows].float(), dim=1).double() ** 2).sum())
            for rows in self.panels
        )
        largest = max(float(W[rows].amax()) for rows in self.panels)
        self.unit = float(LARGE / 2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        self._sweeps: dict[tuple[Any, ...], Sweep] = {}
        self._bands: Any = None
        self._crowded = False

    @staticmethod
    def fits(W: Similarity, k: int) -> bool:
        """Whether ``W`` has this form, and ``k`` clusters are not too many."""
        if not isinstance(W, torch.Tensor) or not W.is_cuda or W.ndim != 2:
            return False
        return W.dtype in (torch.float32, torch.bfloat16) and k <= WIDEST

    def part(self, rows: np.ndarray) -> Panels:
        """The similarities among the given objects."""
        chosen = torch.as_tensor(rows, device=self.W.device)
        return Panels(self.W[chosen[:, None], chosen].float())

    def __matmul__(self, V: Any) -> Any:
        if V.ndim != 2 or V.shape[1] > WIDEST:
            return torch.cat([self.W[rows].to(V.dtype) @ V for rows in self.panels])
        size = LARGE / V.abs().amax().clamp_min(1e-30)
        chunk = -(-self.n // (8 * CUT)) * CUT
        parts = self.multiply(halves(V, size), slice(0, self.n), slice(0, self.n), chunk)
        return parts.sum(0)[:, : V.shape[1]] / (size * self.unit)

    def _matmat(self, V: Array) -> Any:
        return self @ V

    def toarray(self) -> Any:
        """The explicit matrix (n, n)."""
        return self.W.float()

    def multiply(
        self,
        V: Any,
        rows: slice,
        columns: slice,
        chunk: int,
        out: Any = None,
        panel: int = 0,
        left_out: int = 0,
        change: Any = None,
    ) -> Any:
        """Products W[rows, columns] @ V[columns] for the halves of V, (chunks, rows, C), scaled.

        ``left_out`` chunks before chunk ``panel`` are skipped. With ``change``, the result is sums
        of change * (W V) over blocks of rows.
        """
        n_rows, C = rows.stop - rows.start, V[0].shape[1]
        n_chunks = -(-(columns.stop - columns.start) // chunk)
        if out is None:
            out = torch.empty((n_chunks, n_rows, C), dtype=torch.float32, device=self.W.device)
        split = C > 32 and not self.whole and self._has_bands()
        sizes = TILES[C] | ({"K": 64} if split and C == 64 else {})
        tiles, stride = [self.W, self.W, *V], self.W.stride(0)
        if split:
            of, shape = TensorDescriptor.from_tensor, [sizes["M"], sizes["K"]]
            tiles = [of(band.view(-1, BAND), shape) for band in self._bands]
            tiles += [of(half, [sizes["K"], C]) for half in V]
            stride = self.n
        multiply[triton.cdiv(n_rows, sizes["M"]), n_chunks - left_out](
            *tiles, out, () if change is None else (change,), rows.start, n_rows, panel, left_out,
            columns.start, columns.stop, chunk, stride, self.unit, 0 if change is None else change.shape[1],
            SPLIT=split, WHOLE=self.whole, BEND=change is not None, C=C, **sizes,
        )  # fmt: skip
        return out

    def _has_bands(self) -> bool:
        """Split W into two halves, (bands, n, BAND) each, if there is room; True on success."""
        if self._bands is None and not self._crowded:
            self._crowded = free_memory(self.W) < 1.2 * self.W.numel() * 4
            if not self._crowded:
                n_bands = -(-self.n // BAND)
                on = {"dtype": torch.float16, "device": self.W.device}
                self._bands = tuple(torch.empty((n_bands, self.n, BAND), **on) for _ in range(2))
                rest = n_bands * BAND - self.n
                for rows in self.panels:
                    scaled = torch.nn.functional.pad(self.W[rows] * self.unit, (0, rest))
                    scaled = scaled.view(-1, n_bands, BAND).transpose(0, 1)
                    self._bands[0][:, rows] = scaled
                    self._bands[1][:, rows] = scaled - self._bands[0][:, rows]
        return self._bands is not None

    def descend(
        self, U: np.ndarray, scale: np.ndarray, damping: np.ndarray, exclude: bool
    ) -> tuple[Any, np.ndarray]:
        """New memberships (n, r, k) after a sweep, and t and q (r,) before and after."""
        group = WIDEST // U.shape[2]
        if U.shape[1] > group:
            parts = [slice(start, start + group) for start in range(0, U.shape[1], group)]
            found = [self.descend(U[:, at], scale[at], damping[at], exclude) for at in parts]
            moved, moments = zip(*found, strict=True)
            return torch.cat(moved, dim=1), np.concatenate(moments, axis=1)
        key = (*U.shape[1:], exclude)
        if key not in self._sweeps:
            self._sweeps[key] = Sweep(self, *key)
        return self._sweeps[key](self, U, scale, damping)
