"""Memberships from the factor Z of a cluster kernel, and the kernels of tables of labels.

The pairwise model on Z Z' finds the clusters. Rows of Z have length one, so that their products are
the cosines of memberships, and every object, fitted or new, is read along k orthogonal directions:

    u = max(z R, 0) / sum max(z R, 0) ,     R = P Q'  from the singular vectors of  Z'U = P s Q'

``ByKernel`` has the cluster kernel of the implicit co-association, ``ByCompletion`` that of one in
which some pairs were seen together by no partition: c_ij is 0/0 there, not 0. Expectation and
maximisation for missing similarities: the published loss, from which such pairs drop out, gives
first memberships; u_i'u_j takes the place of c_ij; the cluster kernel of the filled matrix gives
the next memberships, a few times over. The explicit matrix is needed; above
``label_table.FEW_PAIRS`` objects the result is that of the published loss.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...array.arrays import asarray_like, namespace
from ...array.types import Estimator, Weights
from ...engine import loop
from ...numerics import label_table as tables
from ...numerics import simplex
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from ...selection.criteria import misfit
from ...similarity.cluster_kernel import ClusterKernel
from ...similarity.coassociation import Rows
from ...similarity.operators import Factored
from ..pairwise.estimator import PairwiseProbabilisticClustering

SCREEN = 20_000  # objects among which the starts are compared
N_ROUNDS = 5  # in which unseen pairs are filled in
SETTLED = 1e-3  # largest change of a membership at which the rounds stop
REGULARIZATION = 0.02  # of the mean degree, as for soft evidence


class Settings(NamedTuple):
    """Starts, sweeps at most, the relative decrease at which to stop, and the random seed."""

    n_init: int
    max_iter: int
    tol: float
    random_state: int

    def model(self, k: int, **parameters: Any) -> PairwiseProbabilisticClustering:
        """The pairwise model of a given similarity."""
        own = self._asdict()
        return PairwiseProbabilisticClustering(k, similarity="precomputed", **own, **parameters)


def run_of(model: Estimator) -> loop.Run:
    """The run of a fitted estimator, whether or not it tells of one."""
    objective = float(getattr(model, "objective_", np.nan))
    history = np.asarray(getattr(model, "history_", [objective]))
    n_iter = int(getattr(model, "n_iter_", 1) or 1)
    return loop.Run(None, objective, history, n_iter, bool(getattr(model, "converged_", True)))


def run_at_once(objective: float) -> loop.Run:
    """The run of what is found in one step."""
    return loop.Run(None, objective, np.array([objective]), 1, True)


class Reader(NamedTuple):
    """How memberships are read off rows of the factor: the directions (k, k) of the clusters."""

    directions: np.ndarray
    misfit: float
    run: loop.Run

    def plain(self, Z: Any) -> Any:
        """Memberships (n, k): shares of the lengths along the directions."""
        U = Z @ asarray_like(self.directions, Z)
        return simplex.normalize(namespace(U).clip(U, min=0.0))

    def __call__(self, Z: Any) -> Any:
        """Memberships (n, k) of rows of the factor.

        The misfit e, the share of the squared kernel that memberships do not express, is spread
        over all clusters: (1 - e) u + e / k. Without it, strongly overlapping clusters are told
        with too much confidence; labels stay as they are.
        """
        U = self.plain(Z)
        doubt = min(self.misfit, 1.0)
        return simplex.normalize((1.0 - doubt) * U + doubt / U.shape[1])


def fit_reader(
    Z: np.ndarray, settings: Settings, start: np.ndarray | None = None, mass: Weights = None
) -> Reader:
    """The pairwise model on Z Z', from memberships ``start`` (n, k), with weights ``mass`` (n,)."""
    n, k = Z.shape
    # Objects that are alone in their clusters fix the scale by their own entries only.
    model = settings.model(k, diagonal="include" if n <= k else "exclude", init=start)
    run = model._run_of_factor(Z, mass)
    U = simplex.normalize(run.state.U[:, 0])
    P, _, Q = np.linalg.svd(Z.T @ (U if mass is None else mass[:, None] * U))
    reader = Reader(P @ Q, 0.0, run._replace(state=None))
    root = 1.0 if mass is None else np.sqrt(mass)[:, None]
    return reader._replace(misfit=misfit(root * Z, root * reader.plain(Z)))


class ByKernel:
    """The pairwise model on the rank-k cluster kernel of the implicit co-association."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        bare, _ = tables.spectrum(table, k)
        self.table, self.eigenvalues, self.following = table, bare.values, bare.following
        self.regularization = tables.regularization(table, bare)
        spectrum, scaling = tables.spectrum(table, k, self.regularization, bare.vectors)
        values = np.where(spectrum.values > 1e-12, spectrum.values, np.inf)
        self.projection = (scaling * table.root)[:, None] * (spectrum.vectors / values)
        Z, mass = self._factor(table), table.mass
        self.kernel = ClusterKernel(Z, self.projection, spectrum.values, spectrum.following)
        model = settings.model(k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # The consensus itself warns about groups that no partition connects.
            warnings.filterwarnings("ignore", message=".*similar to no other")
            if start is None and len(Z) > SCREEN:
                chosen = np.random.default_rng(settings.random_state).permutation(len(Z))[:SCREEN]
                own = None if mass is None else mass[chosen]
                first = clone(model).fit(Factored(Z[chosen]), sample_weight=own)
                start = first.predict_proba(Factored(Z, Z[chosen]))
            self.model = model.set_params(init=start).fit(self.kernel, sample_weight=mass)
        self.memberships, self.run = self.model.memberships_, run_of(self.model)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: one quadratic problem each, from their rows of the kernel."""
        return self.model.predict_proba(Factored(self._factor(new), self.kernel.factor))

    def _factor(self, objects: tables.Table) -> np.ndarray:
        """Rows of the kernel's factor, for the objects of the fit and for others alike."""
        constant = self.regularization / self.table.total
        return unit_rows(Rows(objects, self.table, constant=constant) @ self.projection)


class FilledKernel(NamedTuple):
    """Cluster kernel of a filled matrix: what makes rows of its factor from rows of that matrix."""

    projection: np.ndarray
    constant: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, filled: np.ndarray, k: int, mass: Weights) -> FilledKernel:
        """The kernel of rank ``k``, of objects with weights ``mass``."""
        v = np.ones(len(filled)) if mass is None else mass
        total, degree = float(v.sum()), filled @ v
        extra = REGULARIZATION * float(v @ degree) / total**2
        scaling = np.sqrt(v / (degree + total * extra))
        found = leading_eigenvectors(scaling[:, None] * (filled + extra) * scaling, k)
        values = np.where(found.values > 1e-12, found.values, np.inf)
        projection = scaling[:, None] * found.vectors / values
        following = found.following if np.isfinite(found.following) else 0.0  # none is left
        return cls(projection, extra * projection.sum(axis=0), np.append(found.values, following))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows (b, k) of the factor Z from rows (b, n) of the filled matrix."""
        return unit_rows(rows @ self.projection + self.constant)


class ByCompletion:
    """The pairwise model on the cluster kernel of a co-association with unseen pairs filled in."""

    def __init__(self, table: tables.Table, k: int, settings: Settings, published: Any) -> None:
        self.table, self.published, self.seen = table, published, table.coverage > 0
        ratios, seen = tables.pair_shares(table)[0], self.seen
        mass = None if table.mass is None else table.mass[seen]
        U = published.memberships
        for _ in range(N_ROUNDS):
            filled = np.where(np.isnan(ratios), U @ U.T, ratios)[:, seen]
            self.kernel = FilledKernel.of(filled[seen], k, mass)
            Z = self.kernel(filled)
            self.reader = fit_reader(Z[seen], settings, U[seen], mass)
            # As they are read, without the doubt: it would build up from round to round.
            before, U = U, self.reader.plain(Z)
            if np.abs(U - before).max() <= SETTLED:
                break
        self.memberships, self.spectrum = U, self.kernel.values
        self.misfit, self.run = self.reader.misfit, self.reader.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: unseen pairs filled in by the published loss first, then once
        by their own.
        """
        ratios = tables.pair_shares(new, self.table)[0]
        U = self.published.place(new)
        for _ in range(2):
            filled = np.where(np.isnan(ratios), U @ self.memberships.T, ratios)[:, self.seen]
            U = self.reader.plain(self.kernel(filled))
        return U
