"""Products with a table of labels in torch, on any device.

Clusters are summed by one-hot products, objects by bags of columns.

Sums over clusters by atomic additions would depend on the order of the threads; a one-hot product
does not, and is faster as long as a partition has a few hundred clusters at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["gather", "on_device", "scatter"]

ELEMENTS = 2**28  # of a one-hot block
MOST_CLUSTERS = 512  # of a partition, for one-hot products


def on_device(table: Any, device: Any) -> Any:
    """The table with its labels on a device, where they are read in every pass."""
    codes = table.codes if table.codes.dtype == np.uint8 else table.codes.astype(np.int32)
    return table._replace(codes=torch.from_numpy(np.ascontiguousarray(codes)).to(device))


def _codes(table: Any, rows: slice, device: Any) -> Any:
    codes = table.codes[rows]
    return (
        codes
        if isinstance(codes, torch.Tensor)
        else torch.from_numpy(codes.astype(np.int32)).to(device)
    )


def scatter(table: Any, U: Any) -> Any:
    """H'U (columns, k) for ``U`` in torch."""
    sizes = np.diff(table.offsets)
    n, m, widest = table.codes.shape[0], len(sizes), int(sizes.max())
    if widest > MOST_CLUSTERS:
        return _add_up(table, U)
    total = torch.zeros((m, widest, U.shape[1]), dtype=U.dtype, device=U.device)
    size = max(1, ELEMENTS // (m * widest))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        codes = _codes(table, rows, U.device).T.contiguous()
        labels = torch.arange(widest, device=U.device, dtype=codes.dtype)
        total += (codes[:, None, :] == labels[:, None]).to(U.dtype) @ U[rows]
    used = torch.from_numpy(np.arange(widest) < sizes[:, None]).to(U.device)
    return total[used]


def _add_up(table: Any, U: Any) -> Any:
    total = torch.zeros((int(table.offsets[-1]), U.shape[1]), dtype=U.dtype, device=U.device)
    for b, offset in enumerate(table.offsets[:-1]):
        codes = table.codes[:, b]
        codes = (
            codes
            if isinstance(codes, torch.Tensor)
            else torch.from_numpy(codes.astype(np.int64)).to(U.device)
        )
        total.index_add_(0, codes.long() + int(offset), U)
    return total


def gather(table: Any, V: Any) -> Any:
    """H diag(w) V (n, k) for ``V`` in torch."""
    weighted = V * torch.from_numpy(table.column_weight).to(V.device, V.dtype)[:, None]
    offsets = torch.from_numpy(table.offsets[:-1].astype(np.int32)).to(V.device)
    n, m = table.codes.shape
    out = torch.empty((n, V.shape[1]), dtype=V.dtype, device=V.device)
    size = max(1, ELEMENTS // m)
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        out[rows] = torch.nn.functional.embedding_bag(
            _codes(table, rows, V.device).int() + offsets, weighted, mode="sum"
        )
    return out
