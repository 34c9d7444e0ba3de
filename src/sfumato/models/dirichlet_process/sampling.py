"""Dirichlet process mixtures by collapsed Gibbs sampling (Neal 2000, algorithm 3) with split and
merge moves (Dahl 2005).

    p(z_i = k | rest) ~ N_k p(x_i | objects of k),      p(z_i = new | rest) ~ alpha p(x_i)

Parameters are integrated out: a cluster is represented by its posterior, and adding or removing an
object is a rank-one update. The basic operation is ``visit``: objects leave their clusters (if they
have one) and choose again, one after another. A sweep visits all objects. A split allocates the
objects of one cluster to two seeds in the same way; the probabilities of all choices give the
acceptance ratio. Caches of the clusters are recomputed for every pass, so rounding errors do not
accumulate.

With draws s = 1 ... m, clusters c of each, and U the consensus of the draws (rows on the simplex,
least squares over all pairs), a new object x is in the same cluster as object j with probability
mean_s p_s(z_j | x). Its membership u is the point on the simplex whose products u'u_j are closest
to these probabilities, a small quadratic program: H = U'U, b = mean_s sum_c p_s(c | x) sum_{j in c}
u_j.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from ...array.arrays import native, to_numpy
from ...array.rows import threads
from ...array.types import Array
from ...engine import loop
from ...numerics import label_table, simplex
from ...numerics.label_table import encode
from .kernel import Concentration


class Draw(NamedTuple):
    """A partition: labels (n,) from 0 to k - 1, and the concentration."""

    labels: np.ndarray
    concentration: float


def sums(Z: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Sums of features (k, q) of clusters 0 to k - 1; label -1 means no cluster."""
    return (labels[None] == np.arange(k)[:, None]).astype(np.float64) @ Z.T


def visit(
    table: Any,
    X: np.ndarray,
    labels: np.ndarray,
    choices: Any,
    uniforms: Any,
    log_alpha: float,
    first: int,
) -> tuple[int, float]:
    """Let objects from ``first`` on leave their clusters and choose again, until the ``table`` has
    no empty slot. Returns the next object to visit, and the log probability of the choices.
    ``labels`` and the table are overwritten. ``choices`` is -1 if an object chooses by its
    ``uniforms``, else the slot it must take. A ``log_alpha`` of -inf opens no cluster."""
    seats = getattr(native("seating"), table.kind)(table)
    return native("seating").visit(seats, X, labels, choices, uniforms, log_alpha, first)  # type: ignore[no-any-return]


class Chain(NamedTuple):
    """Constants of a chain: component, features (q, n) and points (n, p)."""

    component: Any
    Z: np.ndarray
    X: np.ndarray

    @classmethod
    def of(cls, component: Any, Z: np.ndarray) -> Chain:
        """Chain for objects with features ``Z`` (q, n)."""
        return cls(component, Z, component.points(Z))

    def walk(
        self, labels: np.ndarray, order: np.ndarray, choices: Any, rng: Any, log_alpha: float
    ) -> tuple[np.ndarray, float]:
        """New labels after visits in ``order``, and the log probability of the choices."""
        X, now = self.X[order], labels[order].copy()
        uniforms = rng.random(len(order))
        choices = np.full(len(order), -1, dtype=np.int64) if choices is None else choices
        position, log_chance = 0, 0.0
        spare = 8 if log_alpha > -np.inf else 0
        while position < len(order):
            occupied = labels.copy()
            occupied[order] = now
            slots = int(occupied.max()) + 1 + spare
            counts = np.bincount(occupied[occupied >= 0], minlength=slots).astype(np.int64)
            table = self.component.seats(sums(self.Z, occupied, slots), counts, len(labels))
            position, more = visit(table, X, now, choices, uniforms, log_alpha, position)
            log_chance, spare = log_chance + more, 2 * spare
        labels = labels.copy()
        labels[order] = now
        return labels, log_chance

    def start(self, concentration: float, rng: np.random.Generator) -> Draw:
        """A random first partition: objects arrive in random order and choose a cluster."""
        n = len(self.X)
        nobody = np.full(n, -1, dtype=np.int64)
        labels, _ = self.walk(nobody, rng.permutation(n), None, rng, np.log(concentration))
        return Draw(compact(labels), concentration)

    def sweep(
        self, draw: Draw, prior: Concentration, rng: np.random.Generator, *, n_splits: int = 3
    ) -> Draw:
        """Next state: a pass over all objects, split-merge proposals, and a new concentration."""
        n, alpha = len(draw.labels), draw.concentration
        labels = compact(self.walk(draw.labels, np.arange(n), None, rng, np.log(alpha))[0])
        for _ in range(n_splits if n > 1 else 0):
            labels = self.split_merge(labels, alpha, rng)
        return Draw(labels, sample_concentration(alpha, int(labels.max()) + 1, n, prior, rng))

    def split_merge(
        self, labels: np.ndarray, concentration: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Labels after a proposal to split the cluster of two random objects or merge their two."""
        i, j = rng.choice(len(labels), size=2, replace=False)
        merge = labels[i] != labels[j]
        both = np.flatnonzero((labels == labels[i]) | (labels == labels[j]))
        others = rng.permutation(both[(both != i) & (both != j)])
        now = np.full(len(labels), -1, dtype=np.int64)
        now[i], now[j] = 0, 1
        choices = np.where(labels[others] == labels[i], 0, 1) if merge else None
        split, log_chance = self.walk(now, others, choices, rng, -np.inf)
        S = sums(self.Z, split, 2)
        evidence = self.component.log_marginal_likelihood(np.vstack([S, S.sum(axis=0)]))
        sizes = np.bincount(split[both], minlength=2)
        gain = evidence[0] + evidence[1] - evidence[2] + np.log(concentration)
        gain += gammaln(sizes).sum() - gammaln(sizes.sum()) - log_chance
        if not np.log(rng.random()) < (-gain if merge else gain):
            return labels
        labels = labels.copy()
        labels[both] = np.where(merge | (split[both] == 0), labels[i], labels.max() + 1)
        return compact(labels)

    def log_joint(self, draw: Draw) -> float:
        """Log probability of the partition and the data, given the concentration."""
        k, n, alpha = int(draw.labels.max()) + 1, len(draw.labels), draw.concentration
        partition = k * np.log(alpha) + gammaln(np.bincount(draw.labels)).sum()
        partition += gammaln(alpha) - gammaln(alpha + n)
        return float(
            partition + self.component.log_marginal_likelihood(sums(self.Z, draw.labels, k)).sum()
        )


def compact(labels: np.ndarray) -> np.ndarray:
    """Labels 0 to k - 1, in the order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def sample_concentration(
    current: float, k: int, n: int, prior: Concentration, rng: np.random.Generator
) -> float:
    """New concentration given the number of clusters (Escobar and West 1995)."""
    if np.isinf(prior.rate):
        return current
    rate = prior.rate - np.log(rng.beta(current + 1, n))
    odds = (prior.shape + k - 1) / (n * rate)
    shape = prior.shape + k - (rng.random() >= odds / (1 + odds))
    return float(max(rng.gamma(shape) / rate, 1e-300))


class Trace(NamedTuple):
    """Labelings (n, draws), concentrations (draws,) and log joint (chains, kept sweeps)."""

    labelings: np.ndarray
    concentrations: np.ndarray
    log_joint: np.ndarray


class Walk(NamedTuple):
    """Progress of a chain: last draw, state of its random generator, and kept draws."""

    draw: Draw
    generator: Any
    sweeps: int = 0
    labels: tuple[np.ndarray, ...] = ()
    kept: tuple[tuple[float, float], ...] = ()  # concentration and log joint


def run_chains(
    component: Any, Z: np.ndarray, prior: Concentration, seeds: Any, burn_in: int, n_draws: int
) -> Trace:
    """Independent chains, one per seed; every sweep after the burn-in is kept."""
    chain = Chain.of(component, Z)

    def start(seed: int) -> Walk:
        rng = np.random.default_rng(seed)
        return Walk(chain.start(prior.mean, rng), rng.bit_generator.state)

    def sweep(walk: Walk) -> Walk:
        # The generator state belongs to the chain, so that a resumed chain draws the same numbers.
        rng = np.random.default_rng(0)
        rng.bit_generator.state = walk.generator
        draw = chain.sweep(walk.draw, prior, rng)
        labels, kept = walk.labels, walk.kept
        if walk.sweeps >= burn_in:
            labels = (*labels, draw.labels.astype(np.int32))
            kept = (*kept, (draw.concentration, chain.log_joint(draw)))
        return Walk(draw, rng.bit_generator.state, walk.sweeps + 1, labels, kept)

    with ThreadPoolExecutor(min(threads(None), len(seeds))) as pool:

        def step(walks: tuple[Walk, ...]) -> tuple[tuple[Walk, ...], float]:
            walks = tuple(pool.map(sweep, walks))
            return walks, chain.log_joint(walks[0].draw)

        first, n_sweeps = tuple(pool.map(start, seeds)), burn_in + n_draws
        # A negative tolerance never stops: chains do not converge to an optimum.
        walks = loop.iterate(step, first, max_iter=n_sweeps, tol=-1.0, relative_to=1.0).state
    labelings = np.stack([labels for walk in walks for labels in walk.labels], axis=1)
    kept = np.array([walk.kept for walk in walks])
    return Trace(labelings, kept[..., 0].ravel(), kept[..., 1])


def split_r_hat(values: np.ndarray) -> float:
    """Split R-hat of chains (chains, draws): near 1 if they agree, infinite if too short."""
    half = values.shape[1] // 2
    if half < 2:
        return np.inf
    # Halves of a drifting chain differ, which whole chains would hide.
    parts = np.concatenate([values[:, :half], values[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean()
    between = parts.mean(axis=1).var(ddof=1)
    if not within > 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


def consensus(labelings: np.ndarray, k: int) -> np.ndarray:
    """Memberships (n, k) whose products best match the co-occurrence of the draws. Clusters without
    any object's largest membership are dropped."""
    table = encode(labelings)
    # Fifty draws are enough to find one near the center of the posterior.
    typical = np.flatnonzero(labelings.max(axis=0) + 1 == k)[:50]
    draws = (np.eye(k)[labelings[:, draw]] for draw in typical)
    U = min(draws, key=lambda U: label_table.objective(table, U))
    while U.shape[1] > 1:
        U = loop.iterate(lambda U: label_table.sweep(table, U), U, max_iter=100, tol=1e-6).state
        leading = np.unique(U.argmax(axis=1))
        if len(leading) == U.shape[1]:
            break
        U = simplex.normalize(U[:, leading])
    return U


class Posterior(NamedTuple):
    """Posterior draws for new objects: clusters of all draws, with the ``first`` of each."""

    component: Any
    first: np.ndarray
    log_weight: np.ndarray  # (clusters,), within each draw
    log_new: np.ndarray  # (draws,), of a new cluster
    parameters: tuple[np.ndarray, ...]
    prior_parameters: tuple[np.ndarray, ...]
    gram: np.ndarray
    members: np.ndarray  # (clusters, k), sums of consensus memberships

    @classmethod
    def of(cls, component: Any, Z: np.ndarray, trace: Trace, U: np.ndarray) -> Posterior:
        """Posterior for new objects, from the sampled partitions."""
        sizes = trace.labelings.max(axis=0) + 1
        draws = list(zip(trace.labelings.T, sizes, strict=True))
        S = np.vstack([sums(Z, labels, k) for labels, k in draws])
        members = np.vstack([sums(U.T, labels, k) for labels, k in draws])
        counts = np.concatenate([np.bincount(labels, minlength=k) for labels, k in draws])
        total = np.log(len(U) + trace.concentrations)
        first, log_new = np.cumsum(sizes) - sizes, np.log(trace.concentrations) - total
        log_weight = np.log(counts) - np.repeat(total, sizes)
        known, prior = component.predictive(S), component.predictive(np.zeros((1, S.shape[1])))
        return cls(component, first, log_weight, log_new, known, prior, U.T @ U, members)

    def reordered(self, order: np.ndarray) -> Posterior:
        """The posterior with its clusters in another order."""
        return self._replace(gram=self.gram[order][:, order], members=self.members[:, order])

    def _within_draws(self, Z: Array) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (clusters, b) and log densities (draws, b) within each draw."""
        logits = self.component.log_predictive(self.parameters, Z) + self.log_weight[:, None]
        sizes = np.diff(np.append(self.first, len(self.log_weight)))
        draw = np.repeat(np.arange(len(self.first)), sizes)
        # Relative to the largest of each draw, so that no exponential overflows.
        top = np.maximum.reduceat(logits, self.first, axis=0)
        logits = np.exp(logits - top[draw])
        total = np.add.reduceat(logits, self.first, axis=0)
        return logits / total[draw], np.log(total) + top

    def _pieces(self, block: Array) -> list[Any]:
        block = block if sp.issparse(block) else to_numpy(block)
        size = max(16, 2**21 // len(self.log_weight))  # blocks of about 16 MB
        cuts = range(0, block.shape[0], size)
        return [self.component.features(block[start : start + size]) for start in cuts]

    def memberships(self, block: Array) -> np.ndarray:
        """Memberships (b, k) from the co-occurrence of each object with the fitted ones."""
        chances = (self._within_draws(Z)[0] for Z in self._pieces(block))
        target = np.vstack([part.T @ self.members / len(self.first) for part in chances])
        return simplex.quadratic_program(self.gram, target)

    def log_density(self, block: Array) -> np.ndarray:
        """Log posterior predictive density (b,), averaged over the draws."""
        parts = []
        for Z in self._pieces(block):
            known = self._within_draws(Z)[1]
            fresh = self.component.log_predictive(self.prior_parameters, Z) + self.log_new[:, None]
            density = np.logaddexp.reduce(np.logaddexp(known, fresh), axis=0)
            parts.append(density - np.log(len(self.first)) + self.component.log_base(Z))
        return np.concatenate(parts)
