"""Pairs that no partition saw together.

The cluster kernel of the co-association with such pairs filled in.

c_ij of an unseen pair is 0/0, not 0. Expectation and maximisation for missing similarities: the
published loss, from which such pairs drop out, gives first memberships; u_i'u_j takes the place of
c_ij; the cluster kernel of the filled matrix gives the next memberships, a few times over. The
explicit matrix is needed; above ``label_table.FEW_PAIRS`` objects the result is that of the
published loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...array.types import Weights
from ...engine import loop
from ...numerics import label_table as tables
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from .reading import Reader, fit_reader

__all__ = ["ByCompletion"]

N_ROUNDS = 5
SETTLED = 1e-3  # largest change of a membership at which the rounds stop
REGULARIZATION = 0.02  # of the mean degree, as for soft evidence


class Kernel(NamedTuple):
    """Cluster kernel of a filled matrix: what makes rows of its factor from rows of that matrix."""

    projection: np.ndarray
    constant: np.ndarray
    values: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows (b, k) of the factor Z from rows (b, n) of the filled matrix."""
        return unit_rows(rows @ self.projection + self.constant)


def _kernel(filled: np.ndarray, k: int, mass: Weights) -> Kernel:
    v = np.ones(len(filled)) if mass is None else mass
    total, degree = float(v.sum()), filled @ v
    extra = REGULARIZATION * float(v @ degree) / total**2
    scaling = np.sqrt(v / (degree + total * extra))
    found = leading_eigenvectors(scaling[:, None] * (filled + extra) * scaling, k)
    values = np.where(found.values > 1e-12, found.values, np.inf)
    projection = scaling[:, None] * found.vectors / values
    following = found.following if np.isfinite(found.following) else 0.0  # none is left
    return Kernel(projection, extra * projection.sum(axis=0), np.append(found.values, following))


class ByCompletion:
    """The pairwise model on the cluster kernel of a co-association whose unseen pairs are filled
    in.
    """

    def __init__(self, table: tables.Table, k: int, settings: Any, published: Any) -> None:
        self.table, self.published = table, published
        self.ratios = _ratios(table)
        self.reader: Any = None
        U = published.memberships
        seen = table.coverage > 0
        for _ in range(N_ROUNDS):
            filled = np.where(np.isnan(self.ratios), U @ U.T, self.ratios)[:, seen]
            mass = None if table.mass is None else table.mass[seen]
            kernel = _kernel(filled[seen], k, mass)
            Z = kernel(filled)
            reader: Reader = fit_reader(Z[seen], settings, U[seen], mass)
            # As they are read, without the doubt: it would build up from round to round.
            before, U = U, reader.plain(Z)
            if np.abs(U - before).max() <= SETTLED:
                break
        self.kernel, self.seen, self.reader, self.misfit = kernel, seen, reader, reader.misfit
        self.spectrum = kernel.values
        self.memberships: np.ndarray = U
        self.run: loop.Run = reader.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: unseen pairs filled in by the published loss first, then once
        by their own.
        """
        ratios = _ratios(new, self.table)
        U = self.published.place(new)
        for _ in range(2):
            filled = np.where(np.isnan(ratios), U @ self.memberships.T, ratios)[:, self.seen]
            U = self.reader.plain(self.kernel(filled))
        return U


def _ratios(table: tables.Table, other: tables.Table | None = None) -> np.ndarray:
    """Times together over times seen together, NaN where that is 0 / 0."""
    together, seen = tables.pair_counts(table, other)
    return np.divide(together, seen, out=np.full_like(together, np.nan), where=seen > 0)
