"""One sweep of the pairwise model over the panels of a dense similarity on a CUDA device, recorded
once as a graph and replayed.

The bulk of a panel's product (all columns but those of the two panels before it) runs while those
are still being moved. From one move to the next there are only the product with the columns just
moved, in small pieces, and the move itself; the device never waits for them.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import torch
import triton

from ...array.types import Similarity
from .cuda_visit import UNITS, move

MOVED = 16  # rows that one program moves
AHEAD = 3  # panels whose products may be under way
LARGE = 256.0  # half-precision numbers are scaled to this size


def wide(c: int) -> int:
    """Columns with their padding."""
    return max(16, triton.next_power_of_2(c))


def halves(V: Any, size: object) -> tuple[Any, Any]:
    """V * size as the sum of two half-precision arrays, columns padded with zeros to a power of
    two.
    """
    V = torch.nn.functional.pad(V * size, (0, wide(V.shape[1]) - V.shape[1]))
    first = V.half()
    return first, (V - first).half()


class Sweep:
    """Buffers of a sweep over the panels of ``W`` (``cuda.Panels``) for r runs of k clusters, and
    the recorded graph.
    """

    def __init__(self, W: Any, r: int, k: int, exclude: bool) -> None:
        self.r, self.k, self.exclude = r, k, exclude
        device = W.W.device
        single, double = (
            {"device": device, "dtype": torch.float32},
            {"device": device, "dtype": torch.float64},
        )
        n_panels, C = len(W.panels), wide(r * k)
        rows = n_panels * W.size
        self.V, self.change = (
            torch.zeros((rows, r * k), **single),
            torch.zeros((rows, r * k), **single),
        )
        self.halves, self.changed = halves(self.V, 0.0), halves(self.V, 0.0)
        self.parts = [torch.empty((n_panels, W.size, C), **single) for _ in range(AHEAD)]
        self.tails = torch.empty((triton.cdiv(W.size, W.piece), W.size, C), **single)
        self.bents = torch.zeros((n_panels, triton.cdiv(W.size, 64), C), **single)
        self.aS, self.H = torch.empty((r, k, k), **single), torch.empty((r, k, k), **single)
        self.S = torch.empty((2, r, k, k), device=device, dtype=torch.int64)  # before, and now
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
            self._run(W)  # as it is: building kernels cannot be recorded
            self.built = True
        else:
            if self.graph is None:
                self._record(W)
            self.graph.replay()
        moved = self.V[: W.n].view(W.n, self.r, self.k).clone()
        torch.cuda.current_stream().synchronize()
        return moved, self.moments.numpy().copy()

    def _record(self, W: Similarity) -> None:
        """Record a sweep.

        Not within ``torch.cuda.graph``, which empties the pool of memory first.
        """
        aside, collects = torch.cuda.Stream(), gc.isenabled()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        gc.disable()  # nothing may be freed on the device while it records
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
        """The memberships as two half-precision arrays."""
        first, second = (half[:, : self.r * self.k] for half in self.halves)
        scaled = self.V * LARGE
        first.copy_(scaled)
        torch.sub(scaled, first, out=second)

    def _begin(self, W: Any) -> None:
        """S of every panel, and what the move of the first panel needs."""
        r, k, n_panels = self.r, self.k, len(W.panels)
        blocks = self.V.view(n_panels * 16, W.size // 16, r, k).permute(0, 2, 1, 3)
        grams = (
            (blocks.transpose(2, 3) @ blocks)
            .view(n_panels, 16, r, k, k)
            .sum(1, dtype=torch.float64)
        )
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
        """Room for the products of a panel with every other."""
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
        """t and q before, t and q after."""
        t, moved, diagonal, fourth, diagonal_new, fourth_new = self.sums.sum((0, 1)).T
        bent = (
            self.bents.sum((0, 1), dtype=torch.float64)[: self.r * self.k]
            .view(self.r, self.k)
            .sum(1)
        )
        t_new = t + moved + bent / (W.unit * LARGE)
        q, q_new = (self.S / UNITS).square().sum((2, 3))
        self.moments.copy_(
            torch.stack([t - diagonal, q - fourth, t_new - diagonal_new, q_new - fourth_new]),
            non_blocking=True,
        )
