"""Dirichlet process mixtures by collapsed Gibbs sampling (Neal 2000, algorithm 3) with split and
merge moves (Dahl 2005).

    p(z_i = k | rest) ~ N_k p(x_i | objects of k),      p(z_i = new | rest) ~ alpha p(x_i)

Parameters are integrated out: a cluster is the posterior of its conjugate prior, and an object
enters or leaves it by a rank-one update. ``visit`` is the one primitive: objects leave their
clusters (if they have one) and choose again, one after another. A sweep visits all objects; a split
allocates the objects of one cluster to two seeds the same way, with the chance of each choice kept
for the acceptance ratio. The caches of the clusters (``seating``) are made afresh for every pass,
so rounding errors do not grow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...array.arrays import native
from ...array.types import Array
from .seating import seats, sums

__all__ = [
    "Chain",
    "Draw",
    "log_joint",
    "sample_concentration",
    "split_merge",
    "start",
    "sweep",
    "visit",
]


class Draw(NamedTuple):
    """A partition: labels (n,) 0 to k - 1, and the concentration."""

    labels: np.ndarray
    concentration: float


def visit(
    table: Any,
    X: np.ndarray,
    labels: np.ndarray,
    choices: np.ndarray,
    uniforms: np.ndarray,
    log_alpha: float,
    first: int,
) -> tuple[int, float]:
    """Objects from ``first`` on leave and choose again.

    Stops early when a new cluster may be needed and no slot is empty.

    ``labels`` and the caches are overwritten. ``choices`` is -1 where an object may choose by its
    ``uniforms``, else the slot it must take. With ``log_alpha`` of minus infinity no new cluster is
    opened. Returns the object to go on with and the log chance of all choices made.
    """
    seats = getattr(native("seating"), type(table).__name__)(table)
    return native("seating").visit(seats, X, labels, choices, uniforms, log_alpha, first)  # type: ignore[no-any-return]


class Chain(NamedTuple):
    """What stays the same along a chain: the component, the features (q, n) and points (n, p) of
    the objects, and how to visit them.
    """

    component: Any
    Z: np.ndarray
    X: np.ndarray
    visit: Any = visit

    def walk(
        self,
        labels: np.ndarray,
        order: np.ndarray,
        choices: Any,
        rng: np.random.Generator,
        log_alpha: float,
    ) -> tuple[np.ndarray, float]:
        """Visit the objects in ``order``: new labels of all objects and the log chance of the
        choices.
        """
        k = int(labels.max(initial=-1)) + 1
        X, now = self.X[order], labels[order].copy()
        uniforms = rng.random(len(order))
        choices = np.full(len(order), -1, dtype=np.int64) if choices is None else choices
        position, log_chance = 0, 0.0
        room = 8 if log_alpha > -np.inf else 0
        while position < len(order):
            occupied = labels.copy()
            occupied[order] = now
            slots = max(k, int(occupied.max()) + 1) + room
            table = seats(
                self.component,
                sums(self.Z, occupied, slots),
                np.bincount(occupied[occupied >= 0], minlength=slots),
                len(labels),
            )
            position, more = self.visit(table, X, now, choices, uniforms, log_alpha, position)
            log_chance, room = log_chance + more, 2 * room
        labels = labels.copy()
        labels[order] = now
        return labels, log_chance


def compact(labels: np.ndarray) -> np.ndarray:
    """Labels 0 to k - 1 in order of their first object."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def start(chain: Chain, concentration: float, rng: np.random.Generator) -> Draw:
    """A first partition: objects come in random order and choose among the clusters so far."""
    n = len(chain.X)
    concentration = max(concentration, 1e-300)  # its logarithm must not forbid the first cluster
    labels, _ = chain.walk(
        np.full(n, -1, dtype=np.int64), rng.permutation(n), None, rng, np.log(concentration)
    )
    return Draw(compact(labels), concentration)


def sweep(
    chain: Chain, draw: Draw, prior: Array, rng: np.random.Generator, *, n_splits: int = 3
) -> Draw:
    """One pass over all objects, some split and merge proposals, and a new concentration."""
    labels, _ = chain.walk(
        draw.labels, np.arange(len(draw.labels)), None, rng, np.log(draw.concentration)
    )
    labels = compact(labels)
    for _ in range(n_splits if len(labels) > 1 else 0):
        labels = split_merge(chain, labels, draw.concentration, rng)
    return Draw(
        labels,
        sample_concentration(draw.concentration, int(labels.max()) + 1, len(labels), prior, rng),
    )


def split_merge(
    chain: Chain, labels: np.ndarray, concentration: float, rng: np.random.Generator
) -> np.ndarray:
    """Propose to split the cluster of two random objects, or to merge their two clusters
    (sequential allocation, Dahl 2005).
    """
    i, j = rng.choice(len(labels), size=2, replace=False)
    merge = labels[i] != labels[j]
    both = np.flatnonzero((labels == labels[i]) | (labels == labels[j]))
    others = rng.permutation(both[(both != i) & (both != j)])
    now = np.full(len(labels), -1, dtype=np.int64)
    now[i], now[j] = 0, 1
    choices = np.where(labels[others] == labels[i], 0, 1) if merge else None
    split, log_chance = chain.walk(now, others, choices, rng, -np.inf)
    S = sums(chain.Z, split, 2)
    evidence = chain.component.log_evidence(np.vstack([S, S.sum(axis=0)]))
    sizes = np.bincount(split[both], minlength=2)
    gain = (
        evidence[0]
        + evidence[1]
        - evidence[2]
        + np.log(concentration)
        + gammaln(sizes).sum()
        - gammaln(sizes.sum())
        - log_chance
    )
    if not np.log(rng.random()) < (-gain if merge else gain):
        return labels
    labels = labels.copy()
    labels[both] = np.where(merge | (split[both] == 0), labels[i], labels.max() + 1)
    return compact(labels)


def sample_concentration(
    current: float, k: int, n: int, prior: Any, rng: np.random.Generator
) -> float:
    """New concentration given the number of clusters (Escobar and West 1995)."""
    if np.isinf(prior.rate):
        return current
    rate = prior.rate - np.log(rng.beta(current + 1, n))
    odds = (prior.shape + k - 1) / (n * rate)
    shape = prior.shape + k - (rng.random() >= odds / (1 + odds))
    return float(max(rng.gamma(shape) / rate, 1e-300))


def log_joint(chain: Chain, draw: Draw) -> float:
    """Log probability of the partition and the data given the concentration."""
    k, n, alpha = int(draw.labels.max()) + 1, len(draw.labels), draw.concentration
    partition = (
        k * np.log(alpha)
        + gammaln(np.bincount(draw.labels)).sum()
        + gammaln(alpha)
        - gammaln(alpha + n)
    )
    return float(partition + chain.component.log_evidence(sums(chain.Z, draw.labels, k)).sum())
