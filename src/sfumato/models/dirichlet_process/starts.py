"""Starts of the variational form: small groups of near objects, merged while that raises the
evidence.

Many groups of a few objects each, and coordinate ascent from there, would spend dozens of passes on
emptying them. Merging them first costs no pass at all: what a group knows of its objects is a sum
of features, and for hard groups the log joint probability of objects and partition,

    log p = sum_k [ E(S_k) + log Gamma(N_k) + log alpha ] + constant,

needs nothing else. The pair that raises it most is merged again and again, down to one group, as in
Bayesian hierarchical clustering (Heller and Ghahramani 2005), and the best partition on the way is
kept. Clusters that overlap need starts without merging; ``is_clear`` says when there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaln

from ...array.arrays import is_numpy, namespace, to_numpy
from ...array.rows import Rows, has_holes
from ...array.types import Array, Weights
from ...numerics import seeding
from ...numerics.clear_groups import best_move
from . import kernel
from .components import FullComponent
from .priors import embedding

__all__ = ["fuse", "is_clear", "most_probable", "starts", "unmerged"]

SAMPLE = 5_000  # objects among which the centers of a start are sought
# On normal clusters of 150 to 400 objects with 2 to 10 features (``datasets.make_gaussians``), four
# starts from 20 small groups reach the best bound known in all of 20 fits, from 40 groups in 19.
CELLS = 20  # small groups that a start begins with
# Finer partitions that are tried where values are missing. With 10 or 25 % missing in the sets
# above, 72 % of fits come within 0.1 of the best bound known, and 55 % without them.
FINER = 2


def starts(
    component: Any,
    rows: Rows,
    n_clusters: int,
    prior: kernel.Concentration,
    seeds: np.ndarray,
) -> list[kernel.State]:
    """Merged groups of objects around some that are far from each other, at most ``n_clusters``.

    One state for each seed whose partition is not that of an earlier one. Where values are missing,
    which the evidence of groups takes for the mean of the data, those of somewhat finer partitions
    too.
    """
    n_cells = min(max(n_clusters, CELLS), rows.shape[0])
    cells = [_cells(component, rows, n_cells, np.random.default_rng(seed)) for seed in seeds]
    finer = FINER if has_holes(rows) else 0
    states: list[kernel.State] = []
    for m in sorted({len(counts) for _, counts in cells}, reverse=True):
        sums, counts = (
            np.stack(parts) for parts in zip(*(c for c in cells if len(c[1]) == m), strict=True)
        )
        for own, groups in enumerate(fuse(component, sums, counts, prior.mean, n_clusters, finer)):
            for group in groups:
                fused = np.zeros((n_clusters, sums.shape[2])), np.zeros(n_clusters)
                np.add.at(fused[0], group, sums[own])
                np.add.at(fused[1], group, counts[own])
                state = kernel.update(component, *fused, prior, prior)
                if not any(_alike(state, other) for other in states):
                    states.append(state)
    return states


def _alike(one: kernel.State, other: kernel.State) -> bool:
    """Whether two states have the same clusters, in whatever order."""
    if not np.allclose(np.sort(one.counts), np.sort(other.counts), rtol=1e-9):
        return False
    a, b = (np.lexsort((state.sums[:, 1], state.counts)) for state in (one, other))
    scale = np.abs(one.sums).max(axis=0)
    return bool((np.abs(one.sums[a] - other.sums[b]) <= 1e-9 * scale).all())


def unmerged(
    component: Any,
    rows: Rows,
    n_clusters: int,
    prior: kernel.Concentration,
    seeds: np.ndarray,
) -> Iterator[kernel.State]:
    """As many small groups as clusters are allowed, for ascent to empty and merge by itself.

    It takes dozens of passes, but finds clusters that overlap, which no hard group shows.
    """
    for seed in seeds:
        sums, counts = _cells(component, rows, n_clusters, np.random.default_rng(seed))
        empty = n_clusters - len(counts)
        yield kernel.update(
            component, np.pad(sums, ((0, empty), (0, 0))), np.pad(counts, (0, empty)), prior, prior
        )


def is_clear(component: Any, rows: Rows, state: kernel.State) -> bool:
    """Whether the clusters of a state are so clear that no other start need be tried.

    Said only of normal clusters of any shape: no cluster looks like two, no two like one.
    """
    if not (isinstance(component, FullComponent) and is_numpy(rows.X)):
        return False

    def leading(block: Array, *_: Any) -> np.ndarray:
        return kernel.responsibilities(component, state, component.features(block))[0].argmax(
            axis=0
        )

    names, labels = np.unique(rows.map(leading), return_inverse=True)
    X = rows.map(lambda block, *_: embedding(component, block))
    given = rows.columns[0]
    weights = np.ones(len(X)) if given is None else to_numpy(given).astype(np.float64)
    white = seeding.whiten(X, weights)
    if len(names) < 2 or white.shape[1] < X.shape[1]:
        return False
    return best_move(white, weights / seeding.unit(weights), labels, len(names)).clear


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
    few = rows if rows.shape[0] <= SAMPLE else rows.sample(SAMPLE, rng)
    sums, counts = _cells(components[0], few, min(CELLS, few.shape[0]), rng)
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
    df, scale = (np.stack([getattr(each, name) for each in components]) for name in ("df", "scale"))
    values = components[0].log_evidences(sums, df, scale) + seats
    gained = np.cumsum(values[:, m:] - values[:, left] - values[:, right], axis=1)
    return values[:, :m].sum(axis=1) + gained.max(axis=1, initial=0.0)


def _cells(
    component: Any, rows: Rows, n_cells: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of features (m, q) and weights (m,) of groups: every object goes to the nearest of some
    objects far from each other.
    """
    X, weights, _ = seeding.sorted_sample(
        rows, SAMPLE, rng, features=lambda block: embedding(component, block)
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
    component: Any,
    sums: np.ndarray,
    counts: np.ndarray,
    alpha: float,
    most: int,
    finer: int = 0,
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
