"""Variational fit of a Dirichlet process mixture: starts, coordinate ascent, merges, and
memberships of new objects.

Many groups of a few objects each, and coordinate ascent from there, would spend dozens of passes on
emptying them. Merging them first costs no pass at all: what a group knows of its objects is a sum
of features, and for hard groups the log joint probability of objects and partition,

    log p = sum_k [ E(S_k) + log Gamma(N_k) + log alpha ] + constant,

needs nothing else. The pair that raises it most is merged again and again, down to one group, as in
Bayesian hierarchical clustering (Heller and Ghahramani 2005), and the best partition on the way is
kept. Clusters that overlap need starts without merging; ``is_clear`` says when there are none.

Links act on the log responsibilities of the rows that they join (``engine.linked``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...array.arrays import is_numpy, namespace, to_numpy
from ...array.rows import Rows, has_holes
from ...array.types import Array, Weights
from ...engine import loop
from ...engine.base import weight_of
from ...engine.linked import LinkedRows, free_weights
from ...numerics import seeding
from . import kernel
from .components import FullComponent
from .kernel import TUNING
from .priors import embedding

__all__ = ["Approximation", "Ascent", "approximate", "fuse", "most_probable"]


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
        """The same with its clusters in another order."""
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
    """What a state says about objects, and the chances of 0, 1, ... clusters in use."""
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
    """Coordinate ascent on the bound: what a mixture is made of, the objects, and when to stop."""

    component: Any
    rows: Rows
    prior: kernel.Concentration
    max_iter: int
    tol: float
    links: LinkedRows | None = None

    def best(self, n_clusters: int, seeds: np.ndarray) -> loop.Run:
        """The best of several starts, which are compared after a few steps.

        Merged groups find clear clusters as well as other starts do, but may miss clusters that
        overlap: without clear clusters, starts that merge nothing are tried as well. With many
        objects the starts are compared on a sample, and the best goes on with all objects.
        """
        rows = self.rows
        large = rows.shape[0] > 2 * TUNING.screen and self.links is None
        few = self
        if large:
            few = self._replace(rows=rows.sample(TUNING.screen, np.random.default_rng(seeds[0])))
        run = few._race(few.starts(n_clusters, seeds))
        if not (has_holes(few.rows) or few.is_clear(run.state)):
            more = [few.ascend(state) for state in few.unmerged(n_clusters, seeds)]
            run = loop.best([run, *more], larger=True)
        if not large:
            return run
        # Statistics of the sample, scaled to the weight of all objects, start the full fit.
        grown, state = weight_of(rows) / weight_of(few.rows), run.state
        return self.ascend(
            self._update(grown * state.sums, grown * state.counts, state.concentration)
        )

    def _update(
        self, sums: np.ndarray, counts: np.ndarray, current: kernel.Concentration
    ) -> kernel.State:
        return kernel.update(self.component, sums, counts, current, self.prior)

    def log_base(self) -> float:
        """What the log density of all objects holds beside the parameters."""

        def block(X: Any, weights: Any) -> tuple[float]:
            values = self.component.log_base(self.component.features(X))
            return (float(values.sum() if weights is None else (values * weights).sum()),)

        return self.rows.sum(block)[0]

    def _race(self, states: list[kernel.State]) -> loop.Run:
        """The run from the state that leads after three steps."""
        if len(states) == 1:
            return self.ascend(states[0])
        few = min(3, self.max_iter)
        first = loop.best([self._steps(state, few) for state in states], larger=True)
        if few == self.max_iter:
            return first
        run = self._replace(max_iter=self.max_iter - few).ascend(first.state)
        return run._replace(
            history=np.concatenate([first.history, run.history]), n_iter=first.n_iter + run.n_iter
        )

    def ascend(self, state: kernel.State) -> loop.Run:
        """Coordinate ascent from a state; every few steps, clusters whose union raises the bound
        are merged.
        """
        history: list[np.ndarray] = []
        n_iter = 0
        while True:
            run = self._steps(state, min(TUNING.phase, self.max_iter - n_iter))
            history.append(run.history)
            n_iter += run.n_iter
            state = run.state
            # Coordinate ascent alone cannot join two clusters that share one group.
            pairs = kernel.merges(self.component, state, partial(self._losses, state))
            if n_iter >= self.max_iter or (run.converged and not pairs):
                return run._replace(
                    history=np.concatenate(history),
                    n_iter=n_iter,
                    converged=run.converged and not pairs,
                )
            if pairs:
                state = self._update(*kernel.merged(state, pairs), state.concentration)

    def _steps(self, state: kernel.State, max_iter: int) -> loop.Run:
        """Coordinate ascent without merges."""
        links = self.links
        rows = self.rows if links is None else links.apart(self.rows)

        def step(state: kernel.State) -> tuple[kernel.State, float]:
            def block(X: Any, weights: Any, *free: Any) -> kernel.Summary:
                weights = free_weights(X.shape[0], weights, *free) if free else weights
                return kernel.summarize(self.component, state, X, weights)

            stats = rows.sum(block)
            if links is not None:
                both = zip(stats, self._linked(links, state), strict=True)
                stats = kernel.Summary(*(free + linked for free, linked in both))
            following = self._update(stats.sums, stats.counts, state.concentration)
            return following, stats.objective - state.penalty

        return loop.iterate(
            step, state, max_iter=max_iter, tol=self.tol, relative_to=weight_of(self.rows)
        )

    def _coupled(self, links: LinkedRows, state: kernel.State) -> tuple[np.ndarray, float]:
        """Responsibilities (m, k) of the linked rows, and the logarithm of their sum."""

        def logits(X: Any) -> np.ndarray:
            Z = self.component.features(X)
            return (self.component.expected_logits(state.coefficients, Z).T + state.offset).copy()

        return links.couple(logits)

    def _linked(self, links: LinkedRows, state: kernel.State) -> kernel.Summary:
        """Statistics of the linked rows, whose labels are coupled."""
        U, value = self._coupled(links, state)

        def sums(X: Any, weights: Any, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            R, Z = (U * weights[:, None]).T, self.component.features(X)
            return self.component.expected_sums(R, state.coefficients, Z), R.sum(axis=1)

        total, counts = links.sum(U, sums)
        return kernel.Summary(total, counts, value)

    def _losses(self, state: kernel.State, pairs: list[tuple[int, int]]) -> np.ndarray:
        """Entropy that unions of two clusters give up; infinite where links keep them apart."""

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
        U, _ = self._coupled(self.links, state)
        label = np.empty(links.labels.size, dtype=np.intp)
        label[links.unit] = U.argmax(axis=1)
        found = set()
        for units, pull in links.pieces:
            group, a, b = np.nonzero(pull < 0)
            found |= set(zip(label[units[group, a]], label[units[group, b]], strict=True))
        return {(int(a), int(b)) for a, b in found}

    def starts(self, n_clusters: int, seeds: np.ndarray) -> list[kernel.State]:
        """Merged groups of objects around some that are far from each other, at most
        ``n_clusters``.

        One state for each seed whose partition is not that of an earlier one. Where values are
        missing, which the evidence of groups takes for the mean of the data, those of somewhat
        finer partitions too.
        """
        component, prior = self.component, self.prior
        n_cells = min(max(n_clusters, TUNING.cells), self.rows.shape[0])
        cells = [
            _cells(component, self.rows, n_cells, np.random.default_rng(seed)) for seed in seeds
        ]
        finer = TUNING.finer if has_holes(self.rows) else 0
        states: list[kernel.State] = []
        for m in sorted({len(counts) for _, counts in cells}, reverse=True):
            sums, counts = (
                np.stack(parts) for parts in zip(*(c for c in cells if len(c[1]) == m), strict=True)
            )
            groups = fuse(component, sums, counts, prior.mean, n_clusters, finer)
            for own, group in ((own, group) for own, some in enumerate(groups) for group in some):
                fused = np.zeros((n_clusters, sums.shape[2])), np.zeros(n_clusters)
                np.add.at(fused[0], group, sums[own])
                np.add.at(fused[1], group, counts[own])
                state = self._update(*fused, prior)
                if not any(_alike(state, other) for other in states):
                    states.append(state)
        return states

    def unmerged(self, n_clusters: int, seeds: np.ndarray) -> Iterator[kernel.State]:
        """As many small groups as clusters are allowed, for ascent to empty and merge by itself.

        It takes dozens of passes, but finds clusters that overlap, which no hard group shows.
        """
        for seed in seeds:
            rng = np.random.default_rng(seed)
            sums, counts = _cells(self.component, self.rows, n_clusters, rng)
            empty = n_clusters - len(counts)
            yield self._update(
                np.pad(sums, ((0, empty), (0, 0))), np.pad(counts, (0, empty)), self.prior
            )

    def is_clear(self, state: kernel.State) -> bool:
        """Whether the clusters of a state are so clear that no other start need be tried.

        Said only of normal clusters of any shape: no cluster looks like two, no two like one.
        """
        component, rows = self.component, self.rows
        if not (isinstance(component, FullComponent) and is_numpy(rows.X)):
            return False

        def leading(block: Array, *_: Any) -> np.ndarray:
            Z = component.features(block)
            return kernel.responsibilities(component, state, Z)[0].argmax(axis=0)

        names, labels = np.unique(rows.map(leading), return_inverse=True)
        X = rows.map(lambda block, *_: embedding(component, block))
        given = rows.columns[0]
        weights = np.ones(len(X)) if given is None else to_numpy(given).astype(np.float64)
        white = seeding.whiten(X, weights)
        if len(names) < 2 or white.shape[1] < X.shape[1]:
            return False
        return seeding.best_move(white, weights / seeding.unit(weights), labels, len(names))[2]


def _alike(one: kernel.State, other: kernel.State) -> bool:
    """Whether two states have the same clusters, in whatever order."""
    if not np.allclose(np.sort(one.counts), np.sort(other.counts), rtol=1e-9):
        return False
    a, b = (np.lexsort((state.sums[:, 1], state.counts)) for state in (one, other))
    scale = np.abs(one.sums).max(axis=0)
    return bool((np.abs(one.sums[a] - other.sums[b]) <= 1e-9 * scale).all())


def most_probable(components: list[Any], rows: Rows, alpha: float) -> Any:
    """The one of several components, which differ in the covariances that they expect, that makes
    objects and partition most probable: empirical Bayes over the partitions that merging pairs
    passes through.

    The pairs are merged under the first component, which is also the answer where values are
    missing, and again under what was chosen. The seed of a fit has no part in it.
    """
    if len(components) == 1 or has_holes(rows):
        return components[0]
    rng = np.random.default_rng(0)
    few = rows if rows.shape[0] <= TUNING.sample else rows.sample(TUNING.sample, rng)
    sums, counts = _cells(components[0], few, min(TUNING.cells, few.shape[0]), rng)
    best = np.full(len(components), -np.inf)
    chosen, merged = 0, -1
    while chosen != merged:
        merged = chosen
        path = _merged(components[merged], sums[None].copy(), counts[None].copy(), np.log(alpha))[1]
        best = np.maximum(best, _along(path[:, 0], components, sums, counts, alpha))
        chosen = int(np.argmax(best))
    return components[chosen]


def _along(
    path: np.ndarray, components: list[Any], sums: np.ndarray, counts: np.ndarray, alpha: float
) -> np.ndarray:
    """For each component, the log joint probability of the most probable partition of a path
    (m, m).
    """
    m = len(counts)
    groups, left, right, own = [np.eye(m)], [], [], list(range(m))
    for step in range(1, m):
        moved = np.flatnonzero(path[step] != path[step - 1])[0]
        a, b = path[step, moved], path[step - 1, moved]
        groups.append((path[step] == a)[None])
        left.append(own[a])
        right.append(own[b])
        own[a] = m + step - 1
    members = np.vstack(groups)
    sums, seats = members @ sums, gammaln(members @ counts) + np.log(alpha)
    values = np.stack([component.log_evidence(sums) for component in components]) + seats
    gained = np.cumsum(values[:, m:] - values[:, left] - values[:, right], axis=1)
    return values[:, :m].sum(axis=1) + gained.max(axis=1, initial=0.0)


def _cells(
    component: Any, rows: Rows, n_cells: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of features (m, q) and weights (m,) of groups: every object goes to the nearest of some
    objects far from each other.
    """
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
            Z = np.nan_to_num(Z)  # missing values begin at the mean of the data
        R = namespace(Z).asarray(R, dtype=Z.dtype, device=getattr(Z, "device", None))
        return to_numpy(R @ Z.T), to_numpy(R.sum(axis=1))

    sums, counts = rows.sum(block)
    return sums[counts > 0], counts[counts > 0]


def fuse(
    component: Any, sums: np.ndarray, counts: np.ndarray, alpha: float, most: int, finer: int = 0
) -> list[list[np.ndarray]]:
    """Clusters (m,), from 0 on, of the m groups of each of s starts with these sums (s, m, q) and
    positive weights (s, m).

    Of the partitions into at most ``most`` clusters that merging pairs passes through: the most
    probable, and before it those with up to ``finer`` clusters more.
    """
    gained, path = _merged(component, sums.copy(), counts.copy(), np.log(alpha))
    first = max(0, counts.shape[1] - most)
    best = first + np.argmax(gained[first:], axis=0)
    return [
        [
            np.unique(path[step, own], return_inverse=True)[1]
            for step in range(max(first, last - finer), last + 1)
        ]
        for own, last in enumerate(best)
    ]


def _merged(
    component: Any, sums: np.ndarray, counts: np.ndarray, log_alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """What m - 1 merges of pairs gain together, (m, s), and the groups (m, s, m) after each.

    Written over ``sums`` and ``counts``. All starts merge at once: a call of the evidence costs as
    much for four starts as for one.
    """
    s, m, q = sums.shape
    each = np.arange(s)[:, None]

    def value(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return component.log_evidence(sums.reshape(-1, q)).reshape(counts.shape) + gammaln(counts)

    own, alive = value(sums, counts), np.ones((s, m), dtype=bool)
    left, right = np.triu_indices(m, 1)
    gains = np.full((s, m, m), -np.inf)  # of the union of a < b
    union = value(sums[:, left] + sums[:, right], counts[:, left] + counts[:, right])
    gains[:, left, right] = union - own[:, left] - own[:, right] - log_alpha
    gained, path = np.zeros((m, s)), np.empty((m, s, m), dtype=np.int64)
    path[0] = np.arange(m)
    for step in range(1, m):
        a, b = np.divmod(gains.reshape(s, -1).argmax(axis=1), m)
        a, b = a[:, None], b[:, None]
        gain = gains[each, a, b]
        gained[step] = gained[step - 1] + gain[:, 0]
        path[step] = np.where(path[step - 1] == b, a, path[step - 1])
        own[each, a] += own[each, b] + gain + log_alpha
        sums[each, a] += sums[each, b]
        counts[each, a] += counts[each, b]
        alive[each, b] = False
        gains[each, b] = gains[each, :, b] = -np.inf
        others = np.flatnonzero(alive)  # those of one start after another, and as many of each
        others = others.reshape(s, m - step) % m
        others = others[others != a].reshape(s, m - step - 1)
        union = value(sums[each, others] + sums[each, a], counts[each, others] + counts[each, a])
        lower, upper = np.minimum(others, a), np.maximum(others, a)
        gains[each, lower, upper] = union - own[each, others] - own[each, a] - log_alpha
    return gained, path
