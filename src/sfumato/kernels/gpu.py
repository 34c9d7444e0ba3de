"""A dense similarity on a CUDA device, where a sweep must cost no more than reading W once. Needs torch and Triton; import at call time.

Two kernels do what a library's products cannot. ``_product`` multiplies a panel of rows of W by the memberships at the speed of memory and
with the error of float32: both are cut into two half-precision numbers, w = w1 + w2 and v = v1 + v2, and w1 v1 + w1 v2 + w2 v1 are left to
the matrix units. ``_update`` moves the rows of a panel: gradient, pair steps and all sums in one go.

A sweep is recorded once as a graph and replayed. The bulk of a panel's product (all columns but those of the panel before it) runs while
that panel is still being moved; sums that nobody waits for are added up beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from scipy.sparse.linalg import LinearOperator
from triton.tools.tensor_descriptor import TensorDescriptor

from .._arrays import free_memory
from . import simplex

__all__ = ["Panels"]

WIDEST = 256  # columns of V (runs x clusters) that the product kernel takes
CUT = 128  # panels are multiples of so many rows
MOVED = 16  # rows that one program moves
PIECES = 8  # chunks of the columns that are multiplied last
LARGE = 256.0  # half-precision numbers are scaled to this size


@triton.jit
def _product(
    W, W1, W2, V1, V2, out, stride, unit, first_row, n_rows, first_column, n, chunk, skip,
    SPLIT: tl.constexpr, M: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """out[j] = unit * W[rows, chunk j] @ (V1 + V2)[chunk j], chunk ``skip`` left out; program (block of rows, j)."""
    row, column = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, C)
    j = tl.program_id(1)
    j += (j >= skip).to(tl.int32)
    begin = first_column + j * chunk
    end = tl.minimum(begin + chunk, n)
    at = (first_row + tl.minimum(row, n_rows - 1)).to(tl.int64)[:, None] * stride
    total = tl.zeros((M, C), dtype=tl.float32)
    for k in range(begin, end, K):
        depth = k + tl.arange(0, K)
        if SPLIT:
            w1, w2 = W1.load([first_row + tl.program_id(0) * M, k]), W2.load([first_row + tl.program_id(0) * M, k])
            v1, v2 = V1.load([k, 0]), V2.load([k, 0])
        else:
            inside = depth < end
            w = tl.load(W + at + depth[None, :], mask=inside[None, :], other=0.0) * unit
            rough = (w.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
            w1, w2 = rough.to(tl.float16), (w - rough).to(tl.float16)
            v1 = tl.load(V1 + depth[:, None] * C + column[None, :], mask=inside[:, None], other=0.0)
            v2 = tl.load(V2 + depth[:, None] * C + column[None, :], mask=inside[:, None], other=0.0)
        part = tl.dot(w1, v2)
        part = tl.dot(w2, v1, part)
        total += tl.dot(w1, v1, part)  # the matrix units add up by cutting off: short sums only
    place = out + (j * n_rows + row)[:, None] * C + column[None, :]
    tl.store(place, total, mask=(row < n_rows)[:, None])


@triton.jit
def _update(
    parts, tails, n_tails, V, change, V1, V2, change1, change2, diagonal, aS, H, scale, grams, sums, unit, panel, first, n_rows, c, k,
    STEPS: tl.constexpr, CHUNKS: tl.constexpr, EXCLUDE: tl.constexpr, B: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """New memberships of a block of rows of one run, their change and Gram matrix, and what they add to t; program (block, run)."""
    block, run = tl.program_id(0), tl.program_id(1)
    row, cluster = block * B + tl.arange(0, B), tl.arange(0, K)
    used = (cluster < k)[None, :]
    real = (row < n_rows)[:, None] & used
    wide = row[:, None] * C + run * k + cluster[None, :]
    product = tl.zeros((B, K), dtype=tl.float32)
    mixed = tl.zeros((B, K), dtype=tl.float32)
    for j in tl.static_range(CHUNKS):
        part = tl.load(parts + j * n_rows * C + wide, mask=real & ((j != panel - 1) | (n_tails == 0)), other=0.0)
        product += part
        mixed += part * tl.where(j > panel, 2.0, tl.where(j == panel, 1.0, 0.0))
    for j in range(n_tails):
        product += tl.load(tails + j * n_rows * C + wide, mask=real, other=0.0)
    product, mixed = product * unit, mixed * unit
    place = (first + row)[:, None] * c + run * k + cluster[None, :]
    old = tl.load(V + place, mask=real, other=0.0)
    square = run * k * k + cluster[:, None] * k + cluster[None, :]
    both = (cluster < k)[:, None] & used
    gradient = tl.dot(old, tl.load(aS + square, mask=both, other=0.0), input_precision="ieee") - product
    if EXCLUDE:
        own = tl.load(diagonal + first + row, mask=row < n_rows, other=0.0)
        own -= tl.load(scale + run).to(tl.float32) * tl.sum(old * old, axis=1)
        gradient += own[:, None] * old
    gradient = tl.where(used, gradient, float("inf"))
    mass = old
    for _ in range(STEPS):
        low, to = tl.min(gradient, axis=1, return_indices=True)
        high, out = tl.max(tl.where(mass > 0, gradient, -float("inf")), axis=1, return_indices=True)
        is_to, is_out = cluster[None, :] == to[:, None], cluster[None, :] == out[:, None]
        room = tl.sum(tl.where(is_out, mass, 0.0), axis=1)
        at_to, at_out = run * k * k + to * k, run * k * k + out * k
        bend = tl.load(H + at_to + to) + tl.load(H + at_out + out) - 2.0 * tl.load(H + at_to + out)
        slope = tl.load(H + at_to[:, None] + cluster[None, :], mask=used, other=0.0)
        slope -= tl.load(H + at_out[:, None] + cluster[None, :], mask=used, other=0.0)
        step = tl.minimum((high - low) / tl.maximum(bend, 1e-19), room)
        step = tl.where(row < n_rows, step, 0.0)[:, None]
        gradient += step * slope
        mass += tl.where(is_to, step, 0.0) - tl.where(is_out, step, 0.0)
    moved = mass - old
    tl.store(V + place, mass, mask=real)
    tl.store(change + place, moved, mask=real)
    halves = (first + row)[:, None] * C + run * k + cluster[None, :]
    half = (mass * 256.0).to(tl.float16)
    tl.store(V1 + halves, half, mask=real)
    tl.store(V2 + halves, (mass * 256.0 - half.to(tl.float32)).to(tl.float16), mask=real)
    half = (moved * 256.0).to(tl.float16)
    tl.store(change1 + halves, half, mask=real)
    tl.store(change2 + halves, (moved * 256.0 - half.to(tl.float32)).to(tl.float16), mask=real)
    gram = tl.dot(tl.trans(mass), mass, input_precision="ieee")
    tl.store(grams + block * tl.num_programs(1) * k * k + square, gram, mask=both)
    here = sums + (block * tl.num_programs(1) + run) * 2
    tl.store(here, tl.sum(tl.sum((old * mixed).to(tl.float64), axis=1), axis=0))
    tl.store(here + 1, tl.sum(tl.sum((2.0 * moved * product).to(tl.float64), axis=1), axis=0))


def _wide(c: int) -> int:
    return max(16, triton.next_power_of_2(c))


def _halves(V: Any, size: Any) -> tuple[Any, Any]:
    """V * size as the sum of two half-precision arrays, columns padded with zeros to a power of two."""
    V = torch.nn.functional.pad(V * size, (0, _wide(V.shape[1]) - V.shape[1]))
    first = V.half()
    return first, (V - first).half()


class Panels(LinearOperator):
    """A dense float32 similarity on a CUDA device, as evidence of the pairwise model (see ``pairwise.Explicit``)."""

    def __init__(self, W: Any) -> None:
        super().__init__(np.dtype(np.float32), tuple(W.shape))
        self.W = W if W.stride(1) == 1 else W.contiguous()
        self.n = W.shape[0]
        self.size = -(-self.n // (min(max(16, self.n // 4096), -(-self.n // CUT)) * CUT)) * CUT
        self.piece = -(-self.size // (PIECES * 64)) * 64
        self.panels = [slice(start, min(start + self.size, self.n)) for start in range(0, self.n, self.size)]
        self.diagonal = torch.diagonal(W).contiguous()
        self.norm = sum(float((torch.linalg.vector_norm(W[rows], dim=1).double() ** 2).sum()) for rows in self.panels)
        self.diagonal_norm = float(self.diagonal.double() @ self.diagonal.double())
        largest = max(float(W[rows].amax()) for rows in self.panels)
        self.unit = float(LARGE / 2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        self._sweeps: dict[tuple[Any, ...], _Sweep] = {}
        self._W_halves: Any = None
        self._crowded = False

    @staticmethod
    def fits(W: Any) -> bool:
        """Whether ``W`` is a dense float32 matrix on a CUDA device."""
        return isinstance(W, torch.Tensor) and W.is_cuda and W.dtype == torch.float32 and W.ndim == 2

    def __matmul__(self, V: Any) -> Any:
        if V.ndim != 2 or V.shape[1] > WIDEST:
            return self.W @ V
        size = LARGE / V.abs().amax().clamp_min(1e-30)
        chunk = -(-self.n // (8 * CUT)) * CUT
        parts = self.multiply(_halves(V, size), slice(0, self.n), slice(0, self.n), chunk)
        return parts.sum(0)[:, : V.shape[1]] / (size * self.unit)

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def multiply(self, halves: Any, rows: slice, columns: slice, chunk: int, out: Any = None, skip: int = -1) -> Any:
        """W[rows, columns] @ V[columns] in chunks of columns, (chunks, rows, C) times the scales; chunk ``skip`` is left as it is."""
        n_rows, C = rows.stop - rows.start, halves[0].shape[1]
        n_chunks = -(-(columns.stop - columns.start) // chunk)
        if out is None:
            out = torch.empty((n_chunks, n_rows, C), dtype=torch.float32, device=self.W.device)
        split = C > 32 and self._has_halves()
        sizes = (TILES_OF_HALVES if split else TILES)[C]
        grid = (triton.cdiv(n_rows, sizes["M"]), n_chunks - (skip >= 0))
        skip = skip if skip >= 0 else n_chunks
        tiles = [self.W, self.W, *halves]
        if split:
            tiles = [TensorDescriptor.from_tensor(half, [sizes["M"], sizes["K"]]) for half in self._W_halves]
            tiles += [TensorDescriptor.from_tensor(half, [sizes["K"], C]) for half in halves]
        _product[grid](
            self.W, *tiles, out, self.W.stride(0), self.unit, rows.start, n_rows, columns.start, columns.stop, chunk, skip,
            SPLIT=split, C=C, **sizes,
        )  # fmt: skip
        return out

    def _has_halves(self) -> bool:
        """Whether W has been cut in advance: for many columns that pays, where the memory is there."""
        if self._W_halves is None and not self._crowded:
            self._crowded = free_memory(self.W) < 1.2 * self.W.numel() * 4
            if not self._crowded:
                padded = (self.n, -(-self.n // 8) * 8)  # rows begin at multiples of 16 bytes
                self._W_halves = tuple(torch.empty(padded, dtype=torch.float16, device=self.W.device)[:, : self.n] for _ in range(2))
                for rows in self.panels:
                    scaled = self.W[rows] * self.unit
                    self._W_halves[0][rows] = scaled
                    self._W_halves[1][rows] = scaled - self._W_halves[0][rows]
        return self._W_halves is not None

    def descend(self, U: Any, scale: Any, damping: Any, exclude: bool) -> tuple[Any, np.ndarray]:
        """One sweep from ``U`` (n, r, k): new memberships, and t before, q before, t after, q after, (r,) each."""
        key = (*U.shape[1:], exclude)
        if key not in self._sweeps:
            self._sweeps[key] = _Sweep(self, *key)
        return self._sweeps[key](self, U, scale, damping)


TILES_OF_HALVES = {  # measured on an H200, as the next
    64: {"M": 128, "K": 64, "num_warps": 8, "num_stages": 4},
    128: {"M": 128, "K": 64, "num_warps": 8, "num_stages": 3},
    256: {"M": 128, "K": 32, "num_warps": 8, "num_stages": 3},
}
TILES = {
    16: {"M": 128, "K": 64, "num_warps": 4, "num_stages": 3},
    32: {"M": 128, "K": 64, "num_warps": 4, "num_stages": 3},
    64: {"M": 128, "K": 32, "num_warps": 8, "num_stages": 4},
    128: {"M": 128, "K": 64, "num_warps": 8, "num_stages": 3},
    256: {"M": 128, "K": 32, "num_warps": 8, "num_stages": 3},
}


class _Sweep:
    """Buffers of one sweep over the panels of W for r runs of k clusters, and the recorded graph."""

    def __init__(self, W: Panels, r: int, k: int, exclude: bool) -> None:
        self.r, self.k, self.exclude = r, k, exclude
        on = {"device": W.W.device, "dtype": torch.float32}
        n_panels, C = len(W.panels), _wide(r * k)
        rows = n_panels * W.size
        self.V, self.change = torch.zeros((rows, r * k), **on), torch.zeros((rows, r * k), **on)
        self.changed = _halves(self.change, 0.0)
        self.parts = [torch.empty((n_panels, W.size, C), **on) for _ in range(2)]
        self.tails = torch.empty((PIECES, W.size, C), **on)
        self.inner = torch.empty((PIECES, W.size, C), **on)
        blocks = triton.cdiv(W.size, MOVED)
        self.grams = torch.zeros((blocks, r, k, k), **on)
        self.sums = torch.zeros((n_panels, blocks, r, 2), device=on["device"], dtype=torch.float64)
        self.numbers = torch.ones((2, r), device=on["device"], dtype=torch.float64)
        self.H, self.aS = torch.empty((r, k, k), **on), torch.empty((r, k, k), **on)
        self.graph: Any = None

    def __call__(self, W: Panels, U: Any, scale: Any, damping: Any) -> tuple[Any, np.ndarray]:
        self.V[: W.n].copy_(U.reshape(W.n, -1))
        self.numbers.copy_(torch.from_numpy(np.stack([scale, damping])))
        if self.graph is None:
            self._record(W)
        self.graph.replay()
        return self.U.clone(), self.moments.cpu().numpy()

    def _record(self, W: Panels) -> None:
        """Run the sweep once to build its kernels, put the memberships back, and record it."""
        keep = self.V.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._run(W)
            self.V.copy_(keep)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._run(W)

    def _run(self, W: Panels) -> None:
        k = self.k
        a, damping = self.numbers[0, :, None, None].clamp_min(1e-100), self.numbers[1, :, None, None]
        self.halves = _halves(self.V, LARGE)
        bent = torch.zeros_like(self.V[: W.size])
        main = torch.cuda.current_stream()
        streams = [torch.cuda.Stream(priority=priority) for priority in (-1, -1, 0, 0, 0)]
        visit, fold, rest, *bulks = streams
        for stream in streams:
            stream.wait_stream(main)
        with torch.cuda.stream(fold):
            S_panels = self._grams_of_panels(W)
            aS = a * S_panels.sum(0)
            curvature = S_panels.sum(3).amax(2)[..., None, None] * 3.0 * a * damping
            raised = curvature * torch.eye(k, dtype=torch.float64, device=aS.device)
            S_panels *= a
            before = self._squares(W, self.V, aS / a)
        moved: list[Any] = []
        for panel, rows in enumerate(W.panels):
            with torch.cuda.stream(fold):
                if panel:
                    fold.wait_event(moved[panel - 1])
                    aS.addcmul_(a, self.grams.sum(0))
                self.aS.copy_(aS)
                aS -= S_panels[panel]
                torch.add(aS, raised[panel], out=self.H)
            bulk = bulks[panel % 2]
            with torch.cuda.stream(bulk):
                if panel > 1:
                    bulk.wait_event(moved[panel - 2])
                W.multiply(self.halves, rows, slice(0, W.n), W.size, self.parts[panel % 2], panel - 1)
            with torch.cuda.stream(visit):
                if panel:
                    W.multiply(self.halves, rows, W.panels[panel - 1], W.piece, self.tails)
                visit.wait_stream(bulk)
                visit.wait_stream(fold)
                self._visit(W, panel, rows)
                moved.append(visit.record_event())
            with torch.cuda.stream(rest):
                rest.wait_event(moved[panel])
                self._bend(W, bent, rows)
        for stream in streams:
            main.wait_stream(stream)
        self._finish(W, aS / a + self.grams.sum(0), bent, before)

    def _visit(self, W: Panels, panel: int, rows: slice) -> None:
        r, k = self.r, self.k
        n_rows, n_tails = rows.stop - rows.start, triton.cdiv(W.size, W.piece) if panel else 0
        if n_rows < W.size:
            self.grams.zero_()
        _update[(triton.cdiv(n_rows, MOVED), r)](
            self.parts[panel % 2], self.tails, n_tails, self.V, self.change, *self.halves, *self.changed, W.diagonal,
            self.aS, self.H, self.numbers, self.grams, self.sums[panel], 1.0 / (W.unit * LARGE), panel, rows.start, n_rows, r * k, k,
            STEPS=(k + 1) // 2, CHUNKS=len(W.panels), EXCLUDE=self.exclude, B=MOVED, K=_wide(k), C=_wide(r * k), num_warps=4,
        )  # fmt: skip

    def _bend(self, W: Panels, total: Any, rows: slice) -> None:
        """Add  change * (W change)  within the panel."""
        n_rows, c = rows.stop - rows.start, self.r * self.k
        pieces = triton.cdiv(n_rows, W.piece)
        W.multiply(self.changed, rows, rows, W.piece, self.inner)
        product = self.inner.view(-1)[: pieces * n_rows * self.inner.shape[2]].view(pieces, n_rows, -1).sum(0)[:, :c]
        total[:n_rows].addcmul_(self.change[rows], product, value=1.0 / (W.unit * LARGE))

    def _grams_of_panels(self, W: Panels) -> Any:
        """U'U of every panel and run, (panels, r, k, k) in float64."""
        r, k = self.r, self.k
        blocks = self.V.view(len(W.panels) * 16, W.size // 16, r, k).permute(0, 2, 1, 3)
        return (blocks.transpose(2, 3) @ blocks).view(len(W.panels), 16, r, k, k).sum(1).double()

    def _squares(self, W: Panels, V: Any, S: Any) -> tuple[Any, Any]:
        """What the diagonal adds to t, and q, for every run."""
        q = (S * S).sum((1, 2))
        if not self.exclude:
            return torch.zeros_like(q), q
        square = (V[: W.n] ** 2).view(W.n, self.r, self.k).sum(2)
        return (W.diagonal[:, None] * square).sum(0, dtype=torch.float64), q - (square * square).sum(0, dtype=torch.float64)

    def _finish(self, W: Panels, S: Any, bent: Any, before: tuple[Any, Any]) -> None:
        """Memberships back on the simplex, and t and q before and after."""
        n, r, k = W.n, self.r, self.k
        U = self.V[:n]
        self.U = simplex.normalize(torch.where(U > simplex.TINY, U, 0.0).view(n, r, k))
        after = self._squares(W, self.U.view(n, -1), S)
        sums = self.sums.sum((0, 1))
        t_new = sums[:, 0] + sums[:, 1] + bent.sum(0).double().view(r, k).sum(1)
        self.moments = torch.stack([sums[:, 0] - before[0], before[1], t_new - after[0], after[1]])
