"""Ways to draw one soft clustering from a table of labels.

Each solution keeps memberships, its run, and places new objects.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...core import acceleration, loop
from ...core.memory import memory_budget
from ...core.types import Estimator
from ...core.warn import EvidenceWarning
from ...memberships import one_hot
from ...numerics import label_sweep as sweeps
from ...numerics import label_table as tables
from ...numerics import simplex, trees
from ...numerics.eigen import unit_rows
from ...selection.criteria import longest_lifetime
from ...similarity.cluster_kernel import ClusterKernel
from ...similarity.coassociation import Coassociation, Rows, Shares
from ...similarity.operators import Factored
from ..pairwise.estimator import COPIES, PairwiseProbabilisticClustering
from . import explicit
from .completion import EXPLICIT, ByCompletion, has_unseen_pairs
from .hypergraphs import HYPERGRAPHS, Settings, by_hypergraph

__all__ = ["COPIES", "LINKAGES", "NAMES", "Settings", "explicit_matrices", "solve"]

LINKAGES = ("single", "average", "complete")
NAMES = (
    "cluster-kernel",
    "coassociation",
    "coassociation-unweighted",
    "coassociation-likelihood",
    *LINKAGES,
    *HYPERGRAPHS,
)
# Consensus functions that know no weights; those by single and complete linkage need none
BY_COPIES = ("coassociation-unweighted", "coassociation-likelihood", "average", *HYPERGRAPHS)
DENSE = 1000  # objects up to which a plain matrix is quicker than the operator
PLACED = 4096  # new objects placed at a time
SCREEN = 20_000  # objects among which the starts are compared


def explicit_matrices(consensus: Any) -> int:
    """Matrices (n, n) that a consensus keeps at one time: none of those that only multiply."""
    if not isinstance(consensus, str):
        return 0 if "similarity" in consensus.get_params() else 2
    named = {"coassociation-unweighted": 3, "coassociation-likelihood": 5}
    return 2 if consensus in LINKAGES else named.get(consensus, 0)


def solve(
    consensus: Any, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
) -> Any:
    """The solution of a consensus, by name or by estimator, for k clusters.

    ``start`` are memberships to begin with.
    """
    if table.mass is not None and (not isinstance(consensus, str) or consensus in BY_COPIES):
        return ByCopies(consensus, table, k, settings, start)
    if not isinstance(consensus, str):
        return ByEstimator(consensus, table, k, settings)
    if consensus == "cluster-kernel":
        return _by_kernel(table, k, settings, start)
    if consensus == "coassociation":
        return ByObservations(table, k, settings, start)
    if consensus in HYPERGRAPHS:
        return by_hypergraph(consensus, table, k, settings)
    if consensus in LINKAGES:
        return ByLinkage(consensus, table, k)
    return ByMatrix(consensus, table, k, settings, start)


def _by_kernel(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
) -> Any:
    """By the cluster kernel of all pairs, where each was seen; else with unseen pairs filled in."""
    if not has_unseen_pairs(table):
        return ByKernel(table, k, settings, start)
    published = ByObservations(table, k, settings, start)
    if len(table.codes) > EXPLICIT:
        return published
    return ByCompletion(table, k, settings, published)


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
        self.kernel = ClusterKernel(
            self._factor(table), self.projection, spectrum.values, spectrum.following
        )
        self.model = self._model(k, settings, start)
        self.memberships = self.model.memberships_
        self.run = loop.Run(
            None,
            self.model.objective_,
            self.model.history_,
            self.model.n_iter_,
            self.model.converged_,
        )

    def _model(
        self, k: int, settings: Settings, start: np.ndarray | None
    ) -> PairwiseProbabilisticClustering:
        model = PairwiseProbabilisticClustering(k, similarity="precomputed", **settings._asdict())
        Z, mass = self.kernel.factor, self.table.mass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Groups that no partition joins are named by the consensus itself.
            warnings.filterwarnings("ignore", message=".*similar to no other")
            if start is None and len(Z) > SCREEN:
                chosen = np.random.default_rng(settings.random_state).permutation(len(Z))[:SCREEN]
                own = None if mass is None else mass[chosen]
                first = clone(model).fit(Factored(Z[chosen]), sample_weight=own)
                start = first.predict_proba(Factored(Z, Z[chosen]))
            return model.set_params(init=start).fit(self.kernel, sample_weight=mass)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: their rows of the cluster kernel, then one quadratic problem
        each.
        """
        return self.model.predict_proba(Factored(self._factor(new), self.kernel.factor))

    def _factor(self, objects: tables.Table) -> np.ndarray:
        """Rows of the kernel's factor from the rows of the co-association.

        For the objects of the fit and for others in the same way.
        """
        return unit_rows(
            Rows(objects, self.table, constant=self.regularization / self.table.total)
            @ self.projection
        )


class ByObservations:
    """The published model, squared loss over the raw observations, by sweeps over the table."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        self.run = _descend(
            partial(sweeps.sweep, table, offset=sweeps.constant(table)),
            _starts(table, k, settings, start),
            settings,
        )
        self.memberships = self.run.state
        self.sums = sweeps.moments(table, self.memberships)
        self.run = self.run._replace(state=None)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects.

        One quadratic problem each, against the sums over clusters.
        """
        blocks = range(0, len(new.codes), PLACED)
        return np.concatenate(
            [sweeps.place(new.objects(slice(start, start + PLACED)), self.sums) for start in blocks]
        )


class ByMatrix:
    """The published model with the explicit matrix.

    Every pair counts once, or Bernoulli likelihood of all observations.
    """

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.likelihood = table, name == "coassociation-likelihood"
        ratios, weights = self._ratios(
            Coassociation(table).toarray(),
            tables.pair_counts(table)[1] if self.likelihood else None,
        )
        np.fill_diagonal(weights, 0.0)
        pairs = explicit.Pairs(ratios, weights, self.likelihood)
        starts = (
            [simplex.normalize(U + 0.01) for U in _starts(table, k, settings, start)]
            if self.likelihood
            else _starts(table, k, settings, start)
        )
        self.run = _descend(partial(explicit.sweep, pairs), starts, settings)
        self.memberships = self.run.state
        self.run = self.run._replace(state=None)

    def _ratios(self, ratios: np.ndarray, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Shares with 0 for pairs never seen together, and the weights of the pairs."""
        known = np.isfinite(ratios)
        return np.where(known, ratios, 0.0), known.astype(np.float64) if seen is None else seen

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each by itself beside the fitted ones."""
        together, seen = tables.pair_counts(new, self.table)
        ratios, weights = self._ratios(_ratio(together, seen), seen if self.likelihood else None)
        return explicit.place(ratios, weights, self.memberships, self.likelihood)


class ByLinkage:
    """A linkage tree on 1 - co-association, cut into k clusters (Fred and Jain)."""

    def __init__(self, method: str, table: tables.Table, k: int | None) -> None:
        self.method, self.seen = method, np.flatnonzero(table.coverage > 0)
        self.table = table.objects(self.seen)
        distances = 1.0 - _filled(Coassociation(self.table).toarray())
        np.fill_diagonal(distances, 0.0)
        self.tree = (
            trees.tree(squareform(distances, checks=False), method)
            if len(distances) > 1
            else np.empty((0, 4))
        )
        k = longest_lifetime(self.tree[:, 2]) if k is None else k
        self.groups = one_hot(trees.cut(self.tree, k), k)
        self.memberships = np.full((len(table.codes), k), 1.0 / k)
        self.memberships[self.seen] = self.groups
        height = float(self.tree[len(self.tree) - k, 2]) if k > 1 else 1.0
        self.run = loop.Run(None, height, np.array([height]), 1, True)

    def place(self, new: tables.Table) -> np.ndarray:
        """Each new object to the cluster it is most similar to, in the sense of the linkage.

        An object labelled like a fitted one goes with it: a tree merges early what a finished
        cluster need not take back.
        """
        S = _filled(_ratio(*tables.pair_counts(new, self.table)))
        members = [np.flatnonzero(column) for column in self.groups.T]
        reduce: Any = {"single": np.max, "average": np.mean, "complete": np.min}[self.method]
        nearest = np.argmax(
            np.stack([reduce(S[:, chosen], axis=1) for chosen in members], axis=1), axis=1
        )
        fitted = dict(zip(_row_keys(self.table), self.groups.argmax(axis=1), strict=True))
        for row, key in enumerate(_row_keys(new)):
            nearest[row] = fitted.get(key, nearest[row])
        return one_hot(nearest, len(members))


def _row_keys(table: tables.Table) -> list[bytes]:
    """The labels of every object as a key."""
    return [row.tobytes() for row in table.codes.astype(np.int32)]


class ByCopies:
    """A consensus that knows no weights, on as many copies of every object as it weighs."""

    def __init__(
        self,
        consensus: Any,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        mass = np.asarray(table.mass)
        if not (mass == np.rint(mass)).all():
            raise ValueError(
                f"consensus={consensus!r} counts copies: sample_weight must hold whole numbers, "
                "or use consensus='cluster-kernel' or 'coassociation'"
            )
        rows = np.repeat(np.arange(len(mass)), mass.astype(np.int64))
        copies = table._replace(mass=None).objects(rows)
        self.solution = solve(
            consensus, copies, k, settings, None if start is None else start[rows]
        )
        first = np.cumsum(mass.astype(np.int64)) - mass.astype(np.int64)
        self.memberships: np.ndarray = self.solution.memberships[first]
        self.run: loop.Run = self.solution.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects."""
        return self.solution.place(new)


class ByEstimator:
    """Any estimator that takes a similarity.

    Sfumato's multiply with the operator, others get the matrix, or 1 - matrix as distances.
    """

    def __init__(
        self, estimator: Estimator, table: tables.Table, k: int, settings: Settings
    ) -> None:
        self.table, self.model = table, clone(estimator)
        self.gaps = tables.has_gaps(table)
        known = self.model.get_params()
        wanted = {
            "n_clusters": k,
            "similarity": "precomputed",
            "affinity": "precomputed",
            "metric": "precomputed",
        }
        if known.get("random_state", 0) is None:
            wanted["random_state"] = settings.random_state
        self.model.set_params(**{name: value for name, value in wanted.items() if name in known})
        self.model.fit(self._evidence(Coassociation(table)))
        self.memberships: Any = getattr(self.model, "memberships_", None)
        if self.memberships is None:
            labels = np.asarray(self.model.labels_)
            self.memberships = one_hot(labels, max(1, int(labels.max()) + 1))
        objective = float(getattr(self.model, "objective_", np.nan))
        history = np.asarray(getattr(self.model, "history_", [objective]))
        self.run = loop.Run(
            None,
            objective,
            history,
            int(getattr(self.model, "n_iter_", 1) or 1),
            bool(getattr(self.model, "converged_", True)),
        )

    def _evidence(self, C: Coassociation) -> Any:
        known = self.model.get_params()
        if "similarity" in known:
            n = C.shape[0]
            if self.gaps:
                # The operator multiplies by less than the shares, by .9 at subsamples of .9.
                shares = Shares(self.table, self.table)
                return shares.toarray() if 24 * n * n <= memory_budget() // 2 else shares
            return C if n > DENSE else C @ np.eye(n)
        matrix = _filled(C.toarray())
        return 1.0 - matrix if "metric" in known and "affinity" not in known else matrix

    def place(self, new: tables.Table) -> np.ndarray:
        """By the estimator itself where it can, else by mean similarity to the clusters."""
        rows: Any = Rows(new, self.table)
        if self.gaps:
            rows = Shares(new, self.table)
        if "similarity" in self.model.get_params() and hasattr(self.model, "predict_proba"):
            few = self.gaps and len(self.table.codes) <= DENSE
            return self.model.predict_proba(rows.toarray() if few else rows)
        share = self.memberships / np.maximum(self.memberships.sum(axis=0), np.finfo(float).tiny)
        return one_hot(np.argmax(rows @ share, axis=1), share.shape[1])


def _descend(sweep: Any, starts: list[np.ndarray], settings: Settings) -> loop.Run:
    """Sweeps with extrapolation from every start; the best run."""
    step = acceleration.Extrapolation.accelerate(
        sweep, _extrapolate, lambda mask, one, other: one if mask else other
    )
    runs = [
        loop.iterate(
            step, acceleration.Extrapolation(U), max_iter=settings.max_iter, tol=settings.tol
        )
        for U in starts
    ]
    run = loop.best(runs, larger=False)
    return run._replace(state=run.state.settled, objective=float(run.objective))


def _extrapolate(
    current: np.ndarray, previous: np.ndarray, momentum: float | np.ndarray
) -> np.ndarray:
    return simplex.normalize(np.clip(current + momentum * (current - previous), 0.0, None))


def _starts(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None
) -> list[np.ndarray]:
    """The given start, or the cluster kernel's solution and random draws."""
    if start is not None:
        return [start]
    rng = np.random.default_rng(settings.random_state)
    n = table.codes.shape[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        first = (
            ByKernel(table, k, settings._replace(tol=1e-4, n_init=1)).memberships
            if k < n
            else simplex.draw(rng, (n, k))
        )
    return [first, *(simplex.draw(rng, (n, k)) for _ in range(settings.n_init - 1))]


def _ratio(together: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.divide(together, seen, out=np.full_like(together, np.nan), where=seen > 0)


def _filled(ratios: np.ndarray) -> np.ndarray:
    """Shares with the mean of all known ones where a pair was never seen together."""
    known = np.isfinite(ratios)
    return (
        ratios
        if known.all()
        else np.where(known, ratios, ratios[known].mean() if known.any() else 0.0)
    )
