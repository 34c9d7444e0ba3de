"""Variational fit of a Dirichlet process mixture: starts, coordinate ascent, merges, and
memberships of new objects.

Starts are small groups of objects that are merged before the first pass. For hard groups, the log
joint probability of objects and partition depends only on sums of features,

    log p = sum_k [ E(S_k) + log Gamma(N_k) + log alpha ] + constant.

The pair that raises it most is merged repeatedly, as in Bayesian hierarchical clustering (Heller
and Ghahramani 2005). The best partition found and two finer ones start the ascent, since clusters
may overlap.

Links act on the log responsibilities of linked rows (``engine.linked``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...array.arrays import asarray_like, to_numpy
from ...array.rows import Rows, has_missing
from ...array.types import Array, Weights
from ...engine import loop
from ...engine.base import weight_of
from ...engine.component import Likelihood
from ...engine.linked import LinkedRows
from ...numerics import seeding
from . import kernel
from .kernel import TUNING
from .priors import embedding


class Approximation(NamedTuple):
    """A fitted variational posterior that assigns objects to the clusters in use."""

    component: Any
    state: kernel.State
    used: np.ndarray
    log_weight: np.ndarray
    parameters: tuple[np.ndarray, ...]

    def memberships(self, block: Array) -> Any:
        """Posterior predictive memberships (b, used) of a block of objects."""
        chosen = tuple(part[self.used] for part in self.parameters)
        return kernel.assign(self.component, self.log_weight[self.used], chosen, block)[0]

    def reordered(self, order: np.ndarray) -> Approximation:
        """The approximation with its clusters in another order."""
        return self._replace(used=self.used[order])

    def log_density(self, block: Array) -> Any:
        """Log posterior predictive density (b,) of a block of objects."""
        return kernel.assign(self.component, self.log_weight, self.parameters, block)[1]

    def linked(self, links: LinkedRows) -> np.ndarray:
        """Memberships (m, used) of linked rows, coupled by their links."""

        def logits(block: Array) -> np.ndarray:
            return np.log(np.maximum(self.memberships(block), np.finfo(float).tiny))

        return links.couple(logits)[0]


def approximate(
    component: Any, rows: Rows, state: kernel.State, links: LinkedRows | None = None
) -> tuple[Approximation, np.ndarray]:
    """The posterior for new objects, and probabilities of 0, 1, ... clusters in use."""
    log_weight, parameters = kernel.log_weights(state), component.predictive(state.sums)

    def look(block: Array, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        R = to_numpy(kernel.assign(component, log_weight, parameters, block)[0])
        w = np.ones(len(R)) if weights is None else to_numpy(weights)
        first = np.bincount(R.argmax(axis=1), weights=w, minlength=R.shape[1])
        return first, w @ np.log(np.maximum(1.0 - R, 1e-300))

    leading, log_vacancy = rows.sum(look)
    every = Approximation(component, state, np.arange(len(leading)), log_weight, parameters)
    if links is not None:
        leading[every.linked(links).argmax(axis=1)] = 1.0
    return every.reordered(np.flatnonzero(leading > 0)), kernel.occupied(log_vacancy)


class Ascent(NamedTuple):
    """Coordinate ascent on the bound: the model, the objects, and when to stop."""

    component: Any
    rows: Rows
    prior: kernel.Concentration
    max_iter: int
    tol: float
    links: LinkedRows | None = None

    def best(self, n_clusters: int, seeds: np.ndarray) -> loop.Run:
        """Best of several starts, compared on a sample if there are many objects."""
        rows = self.rows
        if rows.shape[0] <= 2 * TUNING.screen or self.links is not None:
            return self._race(self.starts(n_clusters, seeds))
        few = self._replace(rows=rows.sample(TUNING.screen, np.random.default_rng(seeds[0])))
        run = few._race(few.starts(n_clusters, seeds))
        # The full fit starts from the statistics of the sample, scaled to the weight of all
        # objects.
        grown, state = weight_of(rows) / weight_of(few.rows), run.state
        start = self._update(grown * state.sums, grown * state.counts, state.concentration)
        return self.ascend(start)

    def _update(
        self, sums: np.ndarray, counts: np.ndarray, current: kernel.Concentration
    ) -> kernel.State:
        return kernel.update(self.component, sums, counts, current, self.prior)

    def _steps(self, state: kernel.State, max_iter: int) -> loop.Run:
        """Coordinate ascent without merges."""
        process: Any = kernel.Process(self.component, self.prior, self.links is not None)
        rows, total = self.rows, weight_of(self.rows)
        if self.links is not None:
            rows = rows.with_columns(*rows.columns, self.links.free(rows.shape[0]))
        return Likelihood(process, rows, total, total, self.links).run(state, max_iter, self.tol)

    def log_base(self) -> float:
        """Parameter-free part of the log density of all objects."""

        def block(X: Any, weights: Any) -> tuple[float]:
            values = self.component.log_base(self.component.features(X))
            return (float(values.sum() if weights is None else (values * weights).sum()),)

        return self.rows.sum(block)[0]

    def _race(self, states: list[kernel.State]) -> loop.Run:
        """Run from the state that leads after three steps."""
        if len(states) == 1:
            return self.ascend(states[0])
        few = min(3, self.max_iter)
        first = loop.best([self._steps(state, few) for state in states], larger=True)
        if few == self.max_iter:
            return first
        run = self._replace(max_iter=self.max_iter - few).ascend(first.state)
        history = np.concatenate([first.history, run.history])
        return run._replace(history=history, n_iter=len(history))

    def ascend(self, state: kernel.State) -> loop.Run:
        """Coordinate ascent that regularly merges clusters whose union raises the bound."""
        history: list[np.ndarray] = []
        n_iter = 0
        while True:
            run = self._steps(state, min(TUNING.phase, self.max_iter - n_iter))
            history.append(run.history)
            n_iter += run.n_iter
            state = run.state
            # Coordinate ascent alone cannot join two clusters that share one group.
            pair = kernel.best_merge(self.component, state, partial(self._losses, state))
            done = run.converged and pair is None
            if done or n_iter >= self.max_iter:
                whole = np.concatenate(history)
                return run._replace(history=whole, n_iter=n_iter, converged=done)
            if pair is not None:
                state = self._update(*kernel.merged(state, pair), state.concentration)

    def _losses(self, state: kernel.State, pairs: list[tuple[int, int]]) -> np.ndarray:
        """Entropy lost by merging pairs of clusters; infinite if links keep them apart."""

        def block(X: Array, weights: Weights, *_: Any) -> tuple[np.ndarray]:
            R = kernel.responsibilities(self.component, state, self.component.features(X))[0]
            return (kernel.pair_losses(R, weights, pairs),)

        apart = self._apart(state)
        return np.where([pair in apart for pair in pairs], np.inf, self.rows.sum(block)[0])

    def _apart(self, state: kernel.State) -> set[tuple[int, int]]:
        """Pairs of clusters that links keep apart."""
        if self.links is None:
            return set()
        links = self.links.links

        def logits(X: Array) -> np.ndarray:
            return kernel.logits(self.component, state, self.component.features(X)).T

        U, _ = self.links.couple(logits)
        label = np.empty(links.labels.size, dtype=np.intp)
        label[links.unit] = U.argmax(axis=1)
        ends = (label[of].tolist() for of in (links.pull < 0).nonzero())
        return set(zip(*ends, strict=True))

    def starts(self, n_clusters: int, seeds: np.ndarray) -> list[kernel.State]:
        """Different starts from merged groups around objects that are far from each other."""
        component, prior = self.component, self.prior
        n_cells = min(max(n_clusters, TUNING.cells), self.rows.shape[0])
        states: list[kernel.State] = []
        for seed in seeds:
            sums, counts = _cells(component, self.rows, n_cells, np.random.default_rng(seed))
            for group in fuse(component, sums, counts, prior.mean, n_clusters):
                fused = np.zeros((n_clusters, sums.shape[1])), np.zeros(n_clusters)
                np.add.at(fused[0], group, sums)
                np.add.at(fused[1], group, counts)
                states.append(self._update(*fused, prior))
        return states


def most_probable(components: list[Any], rows: Rows, alpha: float) -> Any:
    """The component under which objects and partition are most probable, by empirical Bayes.

    With missing values it is the first one. The seed of a fit does not matter.
    """
    if len(components) == 1 or has_missing(rows):
        return components[0]
    rng = np.random.default_rng(0)
    few = rows if rows.shape[0] <= TUNING.sample else rows.sample(TUNING.sample, rng)
    sums, counts = _cells(components[0], few, min(TUNING.cells, few.shape[0]), rng)
    best = np.full(len(components), -np.inf)
    chosen, merged = 0, -1
    while chosen != merged:
        merged = chosen
        tree = Tree.of(components[merged], sums, counts, np.log(alpha))
        values = np.array([tree.log_joint(component).max() for component in components])
        best = np.maximum(best, values)
        chosen = int(np.argmax(best))
    return components[chosen]


def _cells(
    component: Any, rows: Rows, n_cells: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of features (m, q) and weights (m,) of groups around objects far from each other."""
    X, weights, _ = seeding.sorted_sample(
        rows, TUNING.sample, rng, features=lambda block: embedding(component, block)
    )
    centers = seeding.kmeans_plus_plus(X, weights, n_cells, rng)

    def block(X: Array, weights: Weights) -> tuple[Any, Any]:
        labels = seeding.nearest(embedding(component, X), centers)
        R = (labels == np.arange(n_cells)[:, None]) * (
            1.0 if weights is None else to_numpy(weights)
        )
        Z = component.features(X)
        if isinstance(Z, np.ndarray) and np.isnan(Z).any():
            Z = np.nan_to_num(Z)  # missing values start at the mean of the data
        R = asarray_like(R, Z)
        return to_numpy(R @ Z.T), to_numpy(R.sum(axis=1))

    sums, counts = rows.sum(block)
    return sums[counts > 0], counts[counts > 0]


def fuse(
    component: Any, sums: np.ndarray, counts: np.ndarray, alpha: float, most: int
) -> list[np.ndarray]:
    """Clusters (m,), numbered from 0, of groups with these sums (m, q) and positive weights (m,).

    Among the partitions into at most ``most`` clusters found by merging pairs, the last is the most
    probable; before it come finer ones.
    """
    tree = Tree.of(component, sums, counts, np.log(alpha))
    first = max(0, len(counts) - most)
    best = first + int(np.argmax(tree.log_joint(component)[first:]))
    return [tree.groups(n_merges) for n_merges in range(max(first, best - TUNING.finer), best + 1)]


class Tree(NamedTuple):
    """Groups (m,) merged in pairs: ``pairs`` (m - 1, 2), with sums (2 m - 1, q) and weights (2 m -
    1,) of all groups and unions in the order of merging.
    """

    pairs: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    log_alpha: float

    @classmethod
    def of(cls, component: Any, sums: np.ndarray, counts: np.ndarray, log_alpha: float) -> Tree:
        """Tree in which each merge raises the log joint probability most."""
        m, n_nodes = len(counts), 2 * len(counts) - 1
        sums, counts = np.pad(sums, ((0, m - 1), (0, 0))), np.pad(counts, (0, m - 1))
        pairs, own, gains = [], np.zeros(n_nodes), np.full((n_nodes, n_nodes), -np.inf)
        alive = list(range(m))

        def value(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
            return component.log_marginal_likelihood(sums) + gammaln(counts) + log_alpha

        own[:m] = value(sums[:m], counts[:m])
        left, right = np.triu_indices(m, 1)
        union = value(sums[left] + sums[right], counts[left] + counts[right])
        gains[left, right] = union - own[left] - own[right]
        for node in range(m, n_nodes):
            a, b = divmod(int(gains.argmax()), n_nodes)
            pairs.append((a, b))
            sums[node], counts[node] = sums[a] + sums[b], counts[a] + counts[b]
            own[node] = own[a] + own[b] + gains[a, b]
            gains[[a, b]] = gains[:, [a, b]] = -np.inf
            alive = [other for other in alive if other not in (a, b)]
            union = value(sums[alive] + sums[node], counts[alive] + counts[node])
            gains[alive, node] = union - own[alive] - own[node]
            alive.append(node)
        return cls(np.array(pairs, dtype=np.intp).reshape(-1, 2), sums, counts, log_alpha)

    def log_joint(self, component: Any) -> np.ndarray:
        """Log joint probability (m,) of objects and partition after 0, 1, ... merges."""
        m, (left, right) = len(self.pairs) + 1, self.pairs.T
        values = (
            component.log_marginal_likelihood(self.sums) + gammaln(self.counts) + self.log_alpha
        )
        gained = np.cumsum(values[m:] - values[left] - values[right])
        return values[:m].sum() + np.append(0.0, gained)

    def groups(self, n_merges: int) -> np.ndarray:
        """Group number (m,) of every initial group after some merges, from 0."""
        m = len(self.pairs) + 1
        names = np.arange(m)
        for step in range(n_merges):
            names[np.isin(names, self.pairs[step])] = m + step
        return np.unique(names, return_inverse=True)[1]
