"""Similarities on a cluster: rows of W stay on the workers, and memberships travel."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from distributed import Future, wait
from scipy.sparse.linalg import LinearOperator

from ..array.validation import refuse_overflow, refuse_underflow
from ..data.matrices import check_rows
from ..models.pairwise.kernel import panels
from ._features import check_array, client, floating, pinned, same, submit


def _facts(block: np.ndarray, start: int, probe: np.ndarray) -> tuple[Any, ...]:
    """Squared norm, diagonal, extremes of a block, and its products with a vector."""
    diagonal = block[np.arange(len(block)), np.arange(start, start + len(block))]
    norm = float(np.einsum("ij,ij->i", block, block).astype(np.float64).sum())
    left = probe[start : start + len(block)] @ block
    return norm, diagonal, float(block.min()), float(block.max()), block @ probe, left


def _panel_part(block: np.ndarray, V: np.ndarray, start: int, rows: slice) -> tuple[Any, ...]:
    """Contributions to (W V)[panel] of the objects of a block before, within and after a panel."""
    low, high = (min(max(edge - start, 0), len(block)) for edge in (rows.start, rows.stop))
    strip = block[:, rows].T
    return tuple(
        strip[:, part] @ V[part] if part.stop > part.start else None
        for part in (slice(0, low), slice(low, high), slice(high, len(V)))
    )


def _moved(V: np.ndarray, rows: slice, change: np.ndarray) -> np.ndarray:
    return np.concatenate([V[: rows.start], V[rows] + change, V[rows.stop :]])


class Similarity(LinearOperator):
    """A symmetric similarity (n, n) in blocks of rows on the workers of a cluster, for the pairwise
    model.

    Parameters
    ----------
    W : dask array of shape (n, n)
        Symmetric, nonnegative, finite.
    """

    def __init__(self, W: da.Array) -> None:
        W = check_array(W, "W")
        self.blocks = pinned(W)
        self.bounds = np.concatenate([[0], np.cumsum(W.chunks[0])])
        super().__init__(floating(W.dtype), W.shape)
        self.n = W.shape[0]
        # For a random v, W v differs from W'v with probability one unless W is symmetric.
        probe = np.random.default_rng(0).standard_normal(self.n).astype(self.dtype)
        starts = zip(self.blocks, self.bounds[:-1].tolist(), strict=True)
        facts = client().gather([submit(_facts, block, low, probe) for block, low in starts])
        norms, diagonals, least, largest, right, left = zip(*facts, strict=True)
        extremes = np.resize(np.array([np.min(least), np.max(largest)], self.dtype), (1, self.n))
        if not np.isfinite(extremes).all():
            raise ValueError(
                "W contains NaN or infinity: replace missing similarities (0 means never "
                "together) or drop those objects"
            )
        check_rows(extremes, self.n)
        refuse_overflow(extremes, "W")
        refuse_underflow(extremes, "W")
        self._check_symmetry(sum(norms), np.concatenate(right), np.sum(left, axis=0))
        self.norm, self.diagonal = float(sum(norms)), np.concatenate(diagonals)
        self.panels = panels(self.n)

    def _check_symmetry(self, norm: float, right: np.ndarray, left: np.ndarray) -> None:
        tolerance = 1e-4 if self.dtype == np.float32 else 1e-9
        if np.abs(right - left).max() > tolerance * max(norm, 1e-300) ** 0.5:
            raise ValueError("W is not symmetric: pass (W + W.T) / 2")

    def __matmul__(self, V: Any) -> Any:
        V = np.asarray(V, dtype=self.dtype)
        return self._attempt(lambda: np.concatenate(self._products(V)))

    def _products(self, V: np.ndarray) -> list[np.ndarray]:
        shared = client().scatter(V, broadcast=True, hash=False)
        return client().gather([submit(np.matmul, block, shared) for block in self.blocks])

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """The result of ``work``, tried again if workers are lost."""
        for _ in range(4):
            try:
                return work()
            except Exception:  # a lost worker shows up as many kinds of errors
                wait(self.blocks)
        return work()

    def sweep(self, V: np.ndarray, visit: Any) -> tuple[Any, Any]:
        """Visit panels of ``V`` in order, as ``pairwise.Explicit.sweep``; t before and after."""
        t_old, t_change = np.zeros(V.shape[1]), np.zeros(V.shape[1])
        parts, changes = self._spread(V), []
        for rows in self.panels:
            old = V[rows].copy()
            before, inside, forward = self._attempt(partial(self._panel, parts, V, rows))
            t_old += 2 * _columns(old, forward) + _columns(old, inside)
            product = forward + inside + before
            change = visit(rows, product)
            V[rows] += change
            t_change += 2 * _columns(change, product)
            changes.append(change)
            for block, local, within in self._pieces(rows):
                parts[block] = submit(_moved, parts[block], local, change[within])
        for curved in self._attempt(partial(self._curved, changes)):
            t_change += curved
        return t_old, t_old + t_change

    def _pieces(self, rows: slice) -> Iterator[tuple[int, slice, slice]]:
        """Blocks that hold rows of a panel, with the row ranges within the block and the panel."""
        for block, start in enumerate(self.bounds[:-1].tolist()):
            low, high = max(rows.start, start), min(rows.stop, int(self.bounds[block + 1]))
            if low < high:
                panel = slice(low - rows.start, high - rows.start)
                yield block, slice(low - start, high - start), panel

    def _spread(self, V: np.ndarray) -> list[Future]:
        """The rows of V, on the workers that hold the same rows of W."""
        places = client().who_has(self.blocks)
        spread = []
        for b, block in enumerate(self.blocks):
            own, home = V[self.bounds[b] : self.bounds[b + 1]].copy(), places.get(block.key)
            spread.append(submit(same, own, workers=home or None, allow_other_workers=True))
        return spread

    def _panel(self, parts: list[Future], V: np.ndarray, rows: slice) -> list[np.ndarray]:
        """Contributions to (W V)[rows] of objects before, within and after them, in block order."""
        # Parts of V may be lost with a worker; the client still has all of it.
        if any(part.status in ("error", "lost", "cancelled") for part in parts):
            parts[:] = self._spread(V)
        triples = zip(self.blocks, parts, self.bounds[:-1], strict=True)
        tasks = [submit(_panel_part, block, part, int(low), rows) for block, part, low in triples]
        total = [np.zeros((rows.stop - rows.start, V.shape[1]), dtype=V.dtype) for _ in range(3)]
        for found in client().gather(tasks):
            for place, piece in zip(total, found, strict=True):
                if piece is not None:
                    place += piece
        return total

    def _curved(self, changes: list[np.ndarray]) -> list[np.ndarray]:
        """<change, W change> within every panel, one column each."""
        todo: list[list[Any]] = [[] for _ in self.blocks]
        for rows, change in zip(self.panels, changes, strict=True):
            for block, local, within in self._pieces(rows):
                todo[block].append((local, rows, within, change))
        # one task per block: with several, idle workers would fetch some of them and copy the block
        tasks = zip(self.blocks, todo, strict=True)
        return client().gather([submit(_curvature, block, pieces) for block, pieces in tasks])


def _curvature(block: np.ndarray, pieces: list[Any]) -> Any:
    each = (_columns(new[within], block[own, rows] @ new) for own, rows, within, new in pieces)
    return sum(each)


def _columns(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)
