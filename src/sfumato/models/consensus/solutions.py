"""One soft clustering from a table of labels: the pairwise model and the published models.

``ByKernel`` uses the cluster kernel of the implicit co-association. ``ByCompletion`` is for tables
in which no partition saw some pairs together, so that c_ij is 0/0 instead of 0. It is an EM for
missing similarities: the published loss, from which such pairs drop out, gives first memberships;
u_i'u_j replaces the missing c_ij; the cluster kernel of the filled matrix gives the next
memberships; and so on for a few rounds. This needs the explicit matrix.

With links or labels, links become edges of the co-association of the chosen evidence, its cluster
kernel is computed again, and the pairwise model on that kernel takes must-links, cannot-links and
labels (``fit_linked``). All pairs of objects are formed.

The published models are a loss between what the partitions say and u_i'u_j, by descent:

    f(U) = sum_{i != j} N_ij loss(c_ij, p_ij),   p_ij = u_i'u_j,   rows u_i on the simplex

    squared            (c - p)^2
    likelihood         -(c log p + (1 - c) log(1 - p)) / 2: f is minus the log-likelihood of the
                       Bernoulli observations
    kullback-leibler   c log(c / p) - c + p: counts N c are Poisson with mean N p
    itakura-saito      p / c - log(p / c) - 1, of p from c, which is convex in p; a share c of no
                       pair at all counts as half a pair

N_ij partitions saw both objects, a share c_ij of them together; pairs that no partition saw drop
out. Sweeps update one row after another; each is a convex problem, whose steps never raise f. The
squared loss needs only the table of labels, the other Bregman divergences (Banerjee et al. 2005)
the co-association matrix, for a few thousand objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...array.arrays import native
from ...array.types import Estimator
from ...array.warn import EvidenceWarning
from ...data.constraints import Known
from ...engine import loop
from ...engine.objects import object_weights
from ...numerics import label_table as tables
from ...numerics import simplex
from ...numerics.distances import unit_rows
from ...similarity import ClusterKernel, Factored, cluster_kernel
from ...similarity.coassociation import Rows
from ..pairwise.estimator import PairwiseProbabilisticClustering, Settings
from .soft import common_similarity, fit_reader

SCREEN = 20_000  # objects on which the starts are compared
FILLINGS = 5  # rounds of filling in unseen pairs
SETTLED = 1e-3  # largest change of a membership at which the rounds stop
PLACED = 4096  # new objects placed at a time
MOST_OBJECTS = 5000  # largest number of objects whose pairs are formed for links
NEAR = 1e-12  # probabilities keep this distance from 0 and 1
N_ROUNDS = 30  # rounds over the row of a new object


def pairwise(k: int, settings: Settings, **parameters: Any) -> PairwiseProbabilisticClustering:
    """The pairwise model for a given similarity."""
    own = settings._asdict()
    return PairwiseProbabilisticClustering(k, similarity="precomputed", **own, **parameters)


def run_of(model: Estimator) -> loop.Run:
    """The run of a fitted estimator, as far as it has the attributes."""
    objective = float(getattr(model, "objective_", np.nan))
    history = np.asarray(getattr(model, "history_", [objective]))
    n_iter = int(getattr(model, "n_iter_", 1) or 1)
    return loop.Run(None, objective, history, n_iter, bool(getattr(model, "converged_", True)))


def run_at_once(objective: float) -> loop.Run:
    """The run of a solution found in one step."""
    return loop.Run(None, objective, np.array([objective]), 1, True)


class ByKernel:
    """Solution: the pairwise model on the rank-k cluster kernel of the implicit co-association."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        plain, _ = tables.spectrum(table, k)
        self.table, self.eigenvalues, self.following = table, plain.values, plain.following
        self.regularization = tables.regularization(table, plain)
        spectrum, scaling = tables.spectrum(table, k, self.regularization, plain.vectors)
        values = np.where(spectrum.values > 1e-12, spectrum.values, np.inf)
        self.projection = (scaling * table.root)[:, None] * (spectrum.vectors / values)
        Z, mass = self._factor(table), table.mass
        self.kernel = ClusterKernel(Z, self.projection, spectrum.values, spectrum.following)
        model = pairwise(k, settings)
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
        """Rows of the kernel's factor, for fitted and other objects alike."""
        constant = self.regularization / self.table.total
        return unit_rows(Rows(objects, self.table, constant=constant) @ self.projection)


class ByCompletion:
    """Solution: the pairwise model on a co-association whose unseen pairs are filled in."""

    def __init__(self, table: tables.Table, k: int, settings: Settings, published: Any) -> None:
        self.table, self.published, self.seen = table, published, table.coverage > 0
        ratios, seen = tables.pair_shares(table)[0], self.seen
        mass = None if table.mass is None else table.mass[seen]
        U = published.memberships
        for _ in range(FILLINGS):
            filled = np.where(np.isnan(ratios), U @ U.T, ratios)[:, seen]
            self.extra = common_similarity(filled[seen], mass)[1]
            self.kernel = cluster_kernel(filled[seen] + self.extra, k, sample_weight=mass)
            Z = self.kernel.extend(filled + self.extra)
            self.reader = fit_reader(Z[seen], settings, U[seen], mass)
            # Without the softening by the misfit, which would accumulate over rounds.
            before, U = U, self.reader.plain(Z)
            if np.abs(U - before).max() <= SETTLED:
                break
        following = self.kernel.following
        self.spectrum = np.append(
            self.kernel.eigenvalues, following if np.isfinite(following) else 0.0
        )
        self.memberships, self.misfit, self.run = U, self.reader.misfit, self.reader.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects; unseen pairs are filled in by the published loss, then by
        these."""
        ratios = tables.pair_shares(new, self.table)[0]
        U = self.published.place(new)
        for _ in range(2):
            filled = np.where(np.isnan(ratios), U @ self.memberships.T, ratios)[:, self.seen]
            U = self.reader.plain(self.kernel.extend(filled + self.extra))
        return U


class ByObservations:
    """Minimiser of the squared loss over the observations, by sweeps over the table."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        sweep = partial(tables.sweep, table, offset=tables.constant(table))
        self.memberships, self.run = _descend(sweep, _starts(table, k, settings, start), settings)
        self.sums = tables.moments(table, self.memberships)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: one small quadratic problem each."""
        blocks = range(0, len(new.codes), PLACED)
        return np.concatenate(
            [tables.place(new.objects(slice(start, start + PLACED)), self.sums) for start in blocks]
        )


class ByDivergence:
    """A Bregman divergence of the shares and the products of rows, with the explicit matrix."""

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.kind = table, list(DIVERGENCES).index(name)
        C, N = self._shares(table)
        np.fill_diagonal(N, 0.0)
        # Positive, so that the first loss has no logarithm of 0.
        begin = [simplex.normalize(U + 0.01) for U in _starts(table, k, settings, start)]
        self.memberships, self.run = _descend(partial(sweep, C, N, name=name), begin, settings)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each placed separately among the fitted ones."""
        row, k = native("labels").bregman_row, self.memberships.shape[1]
        placed = np.full((len(new.codes), k), 1.0 / k)
        for i, (c, weight) in enumerate(zip(*self._shares(new, self.table), strict=True)):
            for _ in range(N_ROUNDS):
                before = placed[i].copy()
                placed[i] = row(c, weight, self.memberships, before, self.kind)
                if np.abs(placed[i] - before).max() < 1e-9:
                    break
        return simplex.normalize(placed)

    def _shares(
        self, new: tables.Table, other: tables.Table | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shares of pairs, any number where none was seen, and how many partitions saw each."""
        shares, seen = tables.pair_shares(new, other)
        least = 0.5 / np.maximum(seen, 1.0) if self.kind == 2 else 0.0
        return np.where(np.isfinite(shares), np.maximum(shares, least), 0.5), seen


def _descend(
    sweep: Any, begin: list[np.ndarray], settings: Settings
) -> tuple[np.ndarray, loop.Run]:
    """Memberships and run of the best start, from sweeps with extrapolation."""
    step = loop.Extrapolation.accelerate(
        sweep,
        lambda now, then, momentum: simplex.normalize(np.maximum(now + momentum * (now - then), 0)),
        lambda mask, one, other: one if mask else other,
    )
    runs = [
        loop.iterate(step, loop.Extrapolation(U), max_iter=settings.max_iter, tol=settings.tol)
        for U in begin
    ]
    run = loop.best(runs, larger=False)
    return run.state.settled, run._replace(state=None, objective=float(run.objective))


def _starts(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None
) -> list[np.ndarray]:
    """The given start, or the solution for the cluster kernel and random draws."""
    if start is not None:
        return [start]
    rng = np.random.default_rng(settings.random_state)
    n = len(table.codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        rough = settings._replace(tol=1e-4, n_init=1)
        first = ByKernel(table, k, rough).memberships if k < n else simplex.draw(rng, (n, k))
    return [first, *(simplex.draw(rng, (n, k)) for _ in range(settings.n_init - 1))]


# Losses, in the order of ``native.labels``; each takes probabilities within (0, 1).
DIVERGENCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "coassociation-likelihood": lambda c, p: -(c * np.log(p) + (1 - c) * np.log1p(-p)) / 2,
    "coassociation-kullback-leibler": lambda c, p: xlogy(c, c / p) - c + p,
    "coassociation-itakura-saito": lambda c, p: p / c - np.log(p / c) - 1.0,
}


def objective(C: np.ndarray, N: np.ndarray, U: np.ndarray, name: str) -> float:
    """f(U) by a divergence, by blocks of rows."""
    size, total = max(1, 2**22 // len(U)), 0.0
    for own in (slice(start, start + size) for start in range(0, len(U), size)):
        p = np.clip(U[own] @ U.T, NEAR, 1 - NEAR)
        total += float(np.sum(N[own] * DIVERGENCES[name](C[own], p)))
    return total


def sweep(C: np.ndarray, N: np.ndarray, U: np.ndarray, name: str) -> tuple[np.ndarray, float]:
    """Every row once, newest values first, and f afterwards. ``U`` stays as it is."""
    U, kind = U.copy(), list(DIVERGENCES).index(name)
    for i in range(len(U)):
        U[i] = native("labels").bregman_row(C[i], N[i], U, U[i], kind)
    U = simplex.normalize(np.where(U < simplex.TINY, 0.0, U))
    return U, objective(C, N, U, name)


def filled(shares: np.ndarray) -> np.ndarray:
    """Shares of pairs; those never seen together get the mean of the others."""
    known = np.isfinite(shares)
    if known.all():
        return shares
    return np.where(known, shares, shares[known].mean() if known.any() else 0.0)


class LinkedConsensus(NamedTuple):
    """The pairwise model on a cluster kernel Z Z' with links, and the data that new objects are
    compared with: the table of labels, or the factor of soft evidence and its columns."""

    model: Estimator
    kernel: ClusterKernel
    Z: np.ndarray
    table: Any
    factor: Any
    own: np.ndarray | None
    extra: float

    def __call__(self, new: Any) -> np.ndarray:
        """Memberships (n, k) of new objects, given as features or as a table of labels."""
        n = new.shape[0] if self.table is None else len(new.codes)
        parts = []
        for start in range(0, n, PLACED):
            part = slice(start, min(start + PLACED, n))
            if self.own is None:
                W = filled(tables.pair_shares(new.objects(part), self.table)[0])
            else:
                W = self.factor.columns(new[part]) @ self.own.T / len(self.own)
            rows = Factored(self.kernel.extend(W + self.extra), self.Z)
            parts.append(self.model.predict_proba(rows))
        return np.concatenate(parts)


def fit_linked(
    estimator: Any, X: Any, links: dict[str, Any], settings: Settings, sample_weight: Any
) -> LinkedConsensus | None:
    """The consensus of a fitted ``estimator`` with links and labels; None if there are none."""
    n, k = estimator.memberships_.shape
    fixed = isinstance(estimator.n_clusters, Integral)
    known = Known.of(**links, X=estimator.memberships_, n_clusters=k if fixed else n)
    k = max(k, known.fewest_clusters)
    if known.links is None:
        return None
    named = isinstance(estimator.consensus, str) and estimator.consensus == "cluster-kernel"
    if n > MOST_OBJECTS or not named:
        raise ValueError(
            "must_link, cannot_link and labels need consensus='cluster-kernel' and at most "
            f"{MOST_OBJECTS} objects, got {n} and {estimator.consensus!r}: fit a sample, then "
            "predict_proba of the others"
        )
    table = factor = own = None
    if estimator._soft is None:
        table = estimator.coassociation_.table
        W = filled(tables.pair_shares(table, table)[0])
        np.fill_diagonal(W, 0.0)
    else:
        factor = estimator._soft.chosen.factor
        own = estimator._new_rows(X).map(factor.columns)
        W = own @ own.T / n
    mass = object_weights(sample_weight, W)
    degree, extra = common_similarity(W, mass)
    edges = known.edges(None, n, degree)
    graph = W + extra if edges is None else W + extra + edges.toarray()
    kernel = cluster_kernel(graph, k, sample_weight=mass)
    Z = np.array(kernel.factor)
    if mass is not None and (mass == 0).any():
        Z[mass == 0] = kernel.extend(W[mass == 0] + extra)
    model = pairwise(k, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Factored(Z), sample_weight=mass, **links)
    return LinkedConsensus(model, kernel, Z, table, factor, own, extra)
