"""Compiled products of tables of labels with matrices: rows of one are added to rows of another.

Need Numba (``pip install 'sfumato[fast]'``). Import at call time.

All work is an addition of a row of k numbers for each label. Loops over so few numbers are not
worth the processor's vectors to the compiler, which does not know k: rows are padded to 4, 8, 12 or
16 numbers and added as vectors of four, whose instructions are written out below. Partitions are
taken a few at a time, so that their sums stay in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import literally, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["WIDEST", "gather", "padded", "scatter"]

WIDEST = 16  # numbers of a row that are added at once
TILE = 256  # objects whose padded rows are at hand
NEAR = 2**15  # bytes of sums that a few partitions may have


def padded(k: int) -> int:
    """Numbers of a padded row of k."""
    return -(-k // 4) * 4


def _each_label(
    context: Any, builder: Any, signature: Any, args: Any, body: Callable[[list[Any]], None]
) -> None:
    """``body(vectors)`` for the row of ``sums`` of every label ``codes[i, first:last]``."""
    codes, offsets = (
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[1:3], args[1:3], strict=True)
    )
    i, first, last = args[3:6]
    whole = context.get_value_type(types.intp)
    labels = builder.gep(codes.data, [builder.mul(i, builder.extract_value(codes.shape, 1))])
    with cgutils.for_range_slice(builder, first, last, ir.Constant(whole, 1)) as (b, _):
        label = builder.zext(builder.load(builder.gep(labels, [b])), whole)
        row = builder.add(label, builder.load(builder.gep(offsets.data, [b])))
        body(_vectors(context, builder, signature, 0, args[0], row))


def _vectors(context: Any, builder: Any, signature: Any, a: int, array: Any, row: Any) -> list[Any]:
    """Pointers to the vectors of four numbers that make up a row of argument a."""
    kind, width = signature.args[a], signature.args[-1].literal_value
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_data_type(kind.dtype), 4)
    start = builder.gep(data, [builder.mul(row, ir.Constant(row.type, width))])
    return [
        builder.bitcast(builder.gep(start, [ir.Constant(row.type, r)]), vector.as_pointer())
        for r in range(0, width, 4)
    ]


@intrinsic(prefer_literal=True)
def _to_sums(_context, sums, codes, offsets, i, first, last, rows, t, width):
    """Add row t of ``rows`` to the sums of the labels of object i in partitions first to last."""

    def generate(context, builder, signature, args):
        aligned = signature.args[0].dtype.bitwidth // 8
        own = _vectors(context, builder, signature, 6, args[6], args[7])
        row = [builder.load(place, align=aligned) for place in own]

        def add(places):
            for place, more in zip(places, row, strict=True):
                total = builder.fadd(builder.load(place, align=aligned), more)
                builder.store(total, place, align=aligned)

        _each_label(context, builder, signature, args, add)
        return context.get_dummy_value()

    return types.void(sums, codes, offsets, i, first, last, rows, t, width), generate


@intrinsic(prefer_literal=True)
def _to_row(_context, sums, codes, offsets, i, first, last, rows, t, width):
    """Add the sums of the labels of object i in partitions first to last to row t of ``rows``."""

    def generate(context, builder, signature, args):
        aligned = signature.args[0].dtype.bitwidth // 8
        own = _vectors(context, builder, signature, 6, args[6], args[7])
        totals = [
            cgutils.alloca_once_value(builder, builder.load(place, align=aligned)) for place in own
        ]

        def add(places):
            for place, total in zip(places, totals, strict=True):
                more = builder.load(place, align=aligned)
                builder.store(builder.fadd(builder.load(total), more), total)

        _each_label(context, builder, signature, args, add)
        for place, total in zip(own, totals, strict=True):
            builder.store(builder.load(total), place, align=aligned)
        return context.get_dummy_value()

    return types.void(sums, codes, offsets, i, first, last, rows, t, width), generate


@njit(cache=True, nogil=True)
def _few(offsets, first, row_bytes):
    """Partition after those from ``first`` on whose sums together stay near."""
    last = first + 1
    while last < len(offsets) - 1 and (offsets[last + 1] - offsets[first]) * row_bytes <= NEAR:
        last += 1
    return last


@njit(cache=True, nogil=True)
def _tile(sums, codes, offsets, start, stop, rows, width, outwards):
    """One tile of objects, all their labels; ``width`` is a literal number."""
    width = literally(width)
    first, row_bytes = 0, width * sums.itemsize
    while first < codes.shape[1]:
        last = _few(offsets, first, row_bytes)
        if outwards:
            for i in range(start, stop):
                t = i - start
                _to_row(sums, codes, offsets, i, first, last, rows, t, width)  # type: ignore[call-arg]
        else:
            for i in range(start, stop):
                t = i - start
                _to_sums(sums, codes, offsets, i, first, last, rows, t, width)  # type: ignore[call-arg]
        first = last


@njit(cache=True, nogil=True)
def _of_width(sums, codes, offsets, start, stop, rows, outwards):
    """The form of ``_tile`` for the width of the rows."""
    width = rows.shape[1]
    if width == 4:
        _tile(sums, codes, offsets, start, stop, rows, 4, outwards)
    elif width == 8:
        _tile(sums, codes, offsets, start, stop, rows, 8, outwards)
    elif width == 12:
        _tile(sums, codes, offsets, start, stop, rows, 12, outwards)
    else:
        _tile(sums, codes, offsets, start, stop, rows, 16, outwards)


@njit(cache=True, nogil=True)
def scatter(codes, offsets, U, scale, sums):
    """Add the rows of ``U`` (n, k), times ``scale`` (n,), to the padded ``sums`` (columns, width)
    of their labels.
    """
    (n, k), rows = U.shape, np.zeros((TILE, sums.shape[1]), dtype=sums.dtype)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        for i in range(start, stop):
            for r in range(k):
                rows[i - start, r] = U[i, r] * scale[i]
        _of_width(sums, codes, offsets, start, stop, rows, False)


@njit(cache=True, nogil=True)
def gather(codes, offsets, sums, scale, out):
    """Write to the rows of ``out`` (n, k) the ``sums`` of their labels, times ``scale`` (n,)."""
    (n, k), rows = out.shape, np.empty((TILE, sums.shape[1]), dtype=sums.dtype)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        rows[: stop - start] = 0.0
        _of_width(sums, codes, offsets, start, stop, rows, True)
        for i in range(start, stop):
            for r in range(k):
                out[i, r] = rows[i - start, r] * scale[i]
