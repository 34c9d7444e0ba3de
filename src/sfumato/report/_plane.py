"""Objects in the plane: where the map draws them, and what its axes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ..array.text import plain
from ._columns import units

__all__ = ["OBJECTS", "Plane", "plane", "projection"]

OBJECTS = 3000  # objects that the map shows at most


def projection(
    X: Any, *, limit: int = OBJECTS, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Two coordinates for a sample of the objects.

    Their features if there are two, else the first two principal components.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    limit : int
        Number of objects to keep at most.
    random_state : int

    Returns
    -------
    shown : array of shape (m,)
        Indices of the objects.
    coordinates : array of shape (m, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.report import projection
    >>> shown, coordinates = projection(np.arange(12.0).reshape(4, 3))
    >>> coordinates.shape
    (4, 2)
    """
    found = plane(X, limit=limit, random_state=random_state)
    return found.shown, found.coordinates


class Plane(NamedTuple):
    """Objects in the plane, and what its two axes are."""

    shown: np.ndarray
    coordinates: np.ndarray
    names: list[str]


def plane(
    X: Any, *, columns: Sequence[Any] | None = None, limit: int = OBJECTS, random_state: int = 0
) -> Plane:
    """Two coordinates for a sample of the objects, with the names of the axes."""
    n = X.shape[0]
    shown = np.arange(n)
    if n > limit:
        shown = np.sort(np.random.default_rng(random_state).choice(n, size=limit, replace=False))
    rows = X[shown]
    if sp.issparse(rows):
        rows = rows.astype(np.float64)
        found = _signed(_components(rows))
        return Plane(shown, found, _axis_names(found, float(rows.multiply(rows).sum())))
    rows = np.asarray(rows, dtype=np.float64)
    means = np.nan_to_num(np.nanmean(np.where(np.isnan(rows).all(axis=0), 0.0, rows), axis=0))
    rows = np.where(np.isnan(rows), means, rows)
    if rows.shape[1] <= 2:
        names = [plain(name, 40) for name in columns or ["column 0", "column 1"]] + [""]
        points = np.column_stack([rows, np.zeros((len(rows), 2 - rows.shape[1]))])
        return Plane(shown, points, names[:2])
    rows = rows / units(rows)
    rows = rows - rows.mean(axis=0)
    spread = rows.std(axis=0)
    rows = rows / np.where(spread > 0, spread, 1.0)
    found = _signed(_components(rows))
    return Plane(shown, found, _axis_names(found, float((rows**2).sum())))


def _axis_names(coordinates: np.ndarray, total: float) -> list[str]:
    """What the axes are: principal axes of the standardised columns, and what they hold of them."""
    shares = (coordinates**2).sum(axis=0) / max(total, 1e-300)
    names = ("first", "second")
    return [
        f"{name} principal axis ({share:.0%} of the variance)"
        for name, share in zip(names, shares, strict=True)
    ]


def _components(rows: Any) -> np.ndarray:
    """The first two principal components, one of them zero where there is only one."""
    if min(rows.shape) > 50:
        left, sizes, _ = svds(rows, k=2, v0=np.ones(min(rows.shape)))
        return (left * sizes)[:, ::-1]
    rows = rows.toarray() if sp.issparse(rows) else rows
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    found = (left * sizes)[:, :2]
    return np.column_stack([found, np.zeros((len(found), 2 - found.shape[1]))])


def _signed(coordinates: np.ndarray) -> np.ndarray:
    """Signs that do not depend on the solver: the largest entry of a component is positive."""
    return coordinates * np.where(
        coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0
    )
