"""A dense similarity on a CUDA device, where a sweep must cost no more than reading W once.

Needs torch and Triton; import at call time.

W is multiplied by the kernel in ``cuda_visit``. For many columns its two half-precision parts are
made in advance, where there is room for them, and kept in bands of columns, one after the other, so
that what a program reads lies together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
from scipy.sparse.linalg import LinearOperator
from triton.tools.tensor_descriptor import TensorDescriptor

from ...array.arrays import free_memory
from ...array.types import Array, Similarity
from .cuda_sweep import LARGE, Sweep, halves
from .cuda_visit import BAND, multiply

WIDEST = 256  # columns (runs x clusters) that the kernel takes
CUT = 128  # panels are multiples of this number of rows
PIECES = 8  # chunks of the columns that are multiplied last
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


class Panels(LinearOperator):
    """A dense similarity on a CUDA device, in float32 or bfloat16, as evidence of the pairwise
    model (see ``evidence.Explicit``).

    Products with bfloat16 entries are made and summed as those with float32: what is lost is in the
    entries alone, 1 part in 256 of each at most.
    """

    def __init__(self, W: Any) -> None:
        super().__init__(np.dtype(np.float32), tuple(W.shape))
        self.W = W if W.stride(1) == 1 else W.contiguous()
        self.n = W.shape[0]
        self.size = -(-self.n // (min(max(16, self.n // 4096), -(-self.n // CUT)) * CUT)) * CUT
        self.piece = -(-self.size // (PIECES * BAND)) * BAND
        self.panels = [
            slice(start, min(start + self.size, self.n)) for start in range(0, self.n, self.size)
        ]
        self.whole = W.dtype == torch.bfloat16
        self.diagonal = torch.diagonal(W).float().contiguous()
        self.norm = sum(
            float((torch.linalg.vector_norm(W[rows].float(), dim=1).double() ** 2).sum())
            for rows in self.panels
        )
        self.diagonal_norm = float(self.diagonal.double() @ self.diagonal.double())
        largest = max(float(W[rows].amax()) for rows in self.panels)
        self.unit = float(LARGE / 2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        self._sweeps: dict[tuple[Any, ...], Sweep] = {}
        self._bands: Any = None
        self._crowded = False

    @staticmethod
    def fits(W: Similarity, k: int) -> bool:
        """Whether ``W`` is a dense matrix of these types on a CUDA device, and ``k`` clusters are not too
        many.
        """
        return (
            isinstance(W, torch.Tensor)
            and W.is_cuda
            and W.dtype in (torch.float32, torch.bfloat16)
            and W.ndim == 2
            and k <= WIDEST
        )

    def part(self, rows: np.ndarray) -> Panels:
        """The similarities among some of the objects."""
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
        """The matrix itself, (n, n)."""
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
        """W[rows, columns] @ V[columns] in chunks of columns, (chunks, rows, C) times the scales,
        for the halves of V.

        ``left_out`` chunks before chunk ``panel`` stay as they are. With ``change``, sums of change
        * (W V) over blocks of rows instead.
        """
        n_rows, C = rows.stop - rows.start, V[0].shape[1]
        n_chunks = -(-(columns.stop - columns.start) // chunk)
        if out is None:
            out = torch.empty((n_chunks, n_rows, C), dtype=torch.float32, device=self.W.device)
        split = C > 32 and not self.whole and self._has_bands()
        sizes = (TILES_OF_HALVES if split else TILES)[C]
        tiles, stride = [self.W, self.W, *V], self.W.stride(0)
        if split:
            tiles = [
                TensorDescriptor.from_tensor(band.view(-1, BAND), [sizes["M"], sizes["K"]])
                for band in self._bands
            ]
            tiles += [TensorDescriptor.from_tensor(half, [sizes["K"], C]) for half in V]
            stride = self.n
        multiply[triton.cdiv(n_rows, sizes["M"]), n_chunks - left_out](
            *tiles, out, () if change is None else (change,), rows.start, n_rows, panel, left_out,
            columns.start, columns.stop, chunk, stride, self.unit, 0 if change is None else change.shape[1],
            SPLIT=split, WHOLE=self.whole, BEND=change is not None, C=C, **sizes,
        )  # fmt: skip
        return out

    def _has_bands(self) -> bool:
        """Cut W into two halves, (bands, n, BAND) each, if there is room for them."""
        if self._bands is None and not self._crowded:
            self._crowded = free_memory(self.W) < 1.2 * self.W.numel() * 4
            if not self._crowded:
                n_bands = -(-self.n // BAND)
                on = {"dtype": torch.float16, "device": self.W.device}
                self._bands = tuple(torch.empty((n_bands, self.n, BAND), **on) for _ in range(2))
                for rows in self.panels:
                    scaled = torch.nn.functional.pad(
                        self.W[rows] * self.unit, (0, n_bands * BAND - self.n)
                    )
                    scaled = scaled.view(-1, n_bands, BAND).transpose(0, 1)
                    self._bands[0][:, rows] = scaled
                    self._bands[1][:, rows] = scaled - self._bands[0][:, rows]
        return self._bands is not None

    def descend(
        self, U: np.ndarray, scale: np.ndarray, damping: np.ndarray, exclude: bool
    ) -> tuple[Any, np.ndarray]:
        """One sweep from ``U`` (n, r, k): new memberships, and t before, q before, t after, q
        after, (r,) each.
        """
        group = WIDEST // U.shape[2]
        if U.shape[1] > group:
            parts = [slice(start, start + group) for start in range(0, U.shape[1], group)]
            moved, moments = zip(
                *(self.descend(U[:, part], scale[part], damping[part], exclude) for part in parts),
                strict=True,
            )
            return torch.cat(moved, dim=1), np.concatenate(moments, axis=1)
        key = (*U.shape[1:], exclude)
        if key not in self._sweeps:
            self._sweeps[key] = Sweep(self, *key)
        return self._sweeps[key](self, U, scale, damping)
