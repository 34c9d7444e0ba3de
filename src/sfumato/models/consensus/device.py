"""Objects of a soft consensus placed where their features are: on a GPU, by array operations.

The consensus itself is fitted on the host, to a sample; placing the objects is all that depends on
their number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ...core.arrays import device, namespace, to_numpy
from ...numerics import distances, simplex
from ...numerics.axes import Axes
from ...numerics.eigen import unit_rows
from .components import Average
from .em import Mixtures
from .evidence import Factor, MixtureColumns
from .reading import Reader

__all__ = ["place"]

ROWS = 2**17  # objects at one time: their columns, a thousand or so, are the largest array


def place(factor: Factor, reader: Reader | Average, host: Callable[[Any], Any], X: Any) -> Any:
    """Memberships (n, k) of features ``X`` (n, p) of any array library, where they are.

    Evidence that only the host can make (cells) is made there, by ``host``.
    """
    xp = namespace(X)
    kind = factor.kinds[0]
    here = len(factor.kinds) == 1 and isinstance(kind, MixtureColumns)

    def on(array: Any) -> Any:
        return xp.asarray(np.asarray(array), dtype=xp.float64, device=device(X))

    def block(rows: Any) -> Any:
        if not here:
            return on(host(to_numpy(rows)))
        Y = _coordinates(kind.ensemble.axes_, xp.astype(rows, xp.float64), on)
        H = _posteriors(kind.ensemble.members_, Y, on)
        return _memberships(factor, reader, H, on)

    n = X.shape[0]
    cuts = [*range(0, n, ROWS), n]
    parts = [xp.astype(block(X[low:high, :]), X.dtype) for low, high in pairwise(cuts)]
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def _coordinates(axes: Axes, X: Any, on: Any) -> Any:
    """As ``Axes.__call__``."""
    X = X if axes.shift is None else X - on(axes.shift)
    return X @ on(axes.projection) - on(axes.offset)


def _posteriors(members: Mixtures, Y: Any, on: Any) -> Any:
    """As ``Mixtures.posteriors``, objects as rows: (b, K)."""
    xp = namespace(Y)
    logits = on(members.rows) @ distances.features(Y.T, "full")
    parts = []
    for low, high in pairwise(members.offsets.tolist()):
        part = logits[low:high, :]
        part = xp.exp(part - xp.max(part, axis=0, keepdims=True))
        parts.append(part / xp.sum(part, axis=0, keepdims=True))
    return xp.concat(parts).T


def _memberships(factor: Factor, reader: Reader | Average, H: Any, on: Any) -> Any:
    """Memberships from the columns of mixtures."""
    if isinstance(reader, Average):
        return H @ on(reader.bridge)
    xp = namespace(H)
    H = H * on(factor.scales[0])
    degree = xp.clip(
        factor.regularization + H @ on(factor.means[0]), min=float(np.finfo(float).tiny)
    )
    total = H @ on(factor.projections[0]) + on(factor.constant)
    Z = unit_rows(total / xp.sqrt(degree)[:, None])
    U = simplex.quadratic_program(on(reader.curvature), Z @ on(reader.cross))
    doubt = min(reader.misfit, 1.0)
    return simplex.normalize((1.0 - doubt) * U + doubt / U.shape[1])
