"""Sampling fit of a Dirichlet process mixture.

Chains, their agreement, and memberships from posterior co-occurrence.

With draws s = 1 ... m, clusters c of each, and U the consensus of the draws (rows on the simplex,
least squares over all pairs), an
object x falls together with object j with probability  mean_s p_s(z_j | x);  its membership is the
u on the simplex with u'u_j nearest to that over all j, a small quadratic program whose terms are
sums over clusters:  H = U'U,  b = mean_s sum_c p_s(c | x) sum_{j in c} u_j.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.arrays import to_numpy
from ...array.rows import threads
from ...array.types import Array
from ...engine import loop
from ...numerics import label_sweep, simplex
from ...numerics.label_table import encode
from . import gibbs, seating

__all__ = ["Posterior", "Trace", "consensus", "run_chains", "split_r_hat"]


class Trace(NamedTuple):
    """What chains leave: labelings (n, draws), concentrations (draws,), and the log joint (chains,
    sweeps kept).
    """

    labelings: np.ndarray
    concentrations: np.ndarray
    log_joint: np.ndarray


def run_chains(
    component: Any,
    Z: np.ndarray,
    prior: Any,
    seeds: Any,
    burn_in: int,
    n_draws: int,
    thinning: int,
    n_jobs: Any,
) -> Trace:
    """Independent chains, one per seed, each thinned after its burn-in."""
    chain = gibbs.Chain(
        component,
        Z,
        seating.points(component, Z),
    )

    def start(seed: int) -> Walk:
        rng = np.random.default_rng(seed)
        return Walk(gibbs.start(chain, prior.mean, rng), rng.bit_generator.state)

    def sweep(walk: Walk) -> Walk:
        # The state of the generator is part of the walk, so that a resumed chain draws the same
        # numbers.
        rng = np.random.default_rng(0)
        rng.bit_generator.state = walk.generator
        draw = gibbs.sweep(chain, walk.draw, prior, rng)
        done = walk.sweeps + 1
        if done <= burn_in or (done - burn_in) % thinning:
            return Walk(draw, rng.bit_generator.state, done, walk.labels, walk.kept)
        here = (*walk.kept, (draw.concentration, gibbs.log_joint(chain, draw)))
        return Walk(
            draw, rng.bit_generator.state, done, (*walk.labels, draw.labels.astype(np.int32)), here
        )

    with ThreadPoolExecutor(min(threads(n_jobs), len(seeds))) as pool:

        def step(walks: tuple[Walk, ...]) -> tuple[tuple[Walk, ...], float]:
            walks = tuple(pool.map(sweep, walks))
            return walks, gibbs.log_joint(chain, walks[0].draw)

        walks = tuple(pool.map(start, seeds))
        # A negative tolerance never stops: a chain has no optimum to reach.
        walks = loop.iterate(
            step, walks, max_iter=burn_in + n_draws * thinning, tol=-1.0, relative_to=1.0
        ).state
    labelings = np.stack([labels for walk in walks for labels in walk.labels], axis=1)
    kept = np.array([walk.kept for walk in walks])
    return Trace(labelings, kept[..., 0].ravel(), kept[..., 1])


class Walk(NamedTuple):
    """How far a chain has come: its last draw, where its generator stands, and the draws kept."""

    draw: gibbs.Draw
    generator: Any
    sweeps: int = 0
    labels: tuple[np.ndarray, ...] = ()
    kept: tuple[tuple[float, float], ...] = ()  # concentration and log joint


def split_r_hat(values: np.ndarray) -> float:
    """Potential scale reduction of the halves of chains (chains, draws).

    Near 1 when the chains agree.

    Infinite with fewer than four draws per chain.
    """
    half = values.shape[1] // 2
    if half < 2:
        return np.inf
    # Halves of one chain differ if it still drifts, which whole chains would hide.
    parts = np.concatenate([values[:, :half], values[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean()
    between = parts.mean(axis=1).var(ddof=1)
    return (
        float(np.sqrt((half - 1) / half + between / within))
        if within > 0
        else (1.0 if between == 0 else np.inf)
    )


def consensus(labelings: np.ndarray, k: int) -> np.ndarray:
    """Memberships (n, k) whose products come nearest to the co-occurrence of the draws, from the
    most typical draw of k clusters.

    A cluster that has no object's largest membership is dropped, so there may be fewer than ``k``.
    """
    table = encode(labelings)
    # Fifty draws are enough to find one near the middle of the posterior.
    typical = np.flatnonzero(labelings.max(axis=0) + 1 == k)[:50]
    U = min(
        (np.eye(k)[labelings[:, draw]] for draw in typical),
        key=lambda U: label_sweep.objective(table, U),
    )
    while U.shape[1] > 1:
        U = loop.iterate(lambda U: label_sweep.sweep(table, U), U, max_iter=100, tol=1e-6).state
        leading = np.unique(U.argmax(axis=1))
        if len(leading) == U.shape[1]:
            break
        U = simplex.normalize(U[:, leading])
    return U


class Posterior(NamedTuple):
    """Draws that assign objects.

    Clusters of all draws one under the other, ``first`` (draws,) where each draw begins.
    """

    component: Any
    first: np.ndarray
    log_weight: np.ndarray  # (clusters,) of each cluster within its draw
    log_new: np.ndarray  # (draws,) of a cluster not seen yet
    parameters: tuple[np.ndarray, ...]
    prior_parameters: tuple[np.ndarray, ...]
    gram: np.ndarray
    members: np.ndarray  # (clusters, k) sums of consensus memberships

    @classmethod
    def of(cls, component: Any, Z: np.ndarray, trace: Trace, U: np.ndarray) -> Posterior:
        """What new objects are compared with, out of the sampled partitions."""
        n = len(U)
        sizes = trace.labelings.max(axis=0) + 1
        S = np.vstack(
            [seating.sums(Z, labels, k) for labels, k in zip(trace.labelings.T, sizes, strict=True)]
        )
        members = np.vstack(
            [
                (labels == np.arange(k)[:, None]).astype(float) @ U
                for labels, k in zip(trace.labelings.T, sizes, strict=True)
            ]
        )
        counts = np.concatenate(
            [
                np.bincount(labels, minlength=k)
                for labels, k in zip(trace.labelings.T, sizes, strict=True)
            ]
        )
        total = np.log(n + trace.concentrations)
        empty = component.predictive(np.zeros((1, S.shape[1])))
        log_weight, log_new = (
            np.log(counts) - np.repeat(total, sizes),
            np.log(trace.concentrations) - total,
        )
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return cls(
            component, first, log_weight, log_new, component.predictive(S), empty, U.T @ U, members
        )

    def _within_draws(self, Z: Array) -> tuple[np.ndarray, np.ndarray]:
        """Chances (clusters, b) within each draw, and log densities (draws, b) of its clusters."""
        logits = self.component.log_predictive(self.parameters, Z) + self.log_weight[:, None]
        draw = np.repeat(
            np.arange(len(self.first)), np.diff(np.append(self.first, len(self.log_weight)))
        )
        # Relative to the largest of each draw, so that no exponential overflows.
        top = np.maximum.reduceat(logits, self.first, axis=0)
        logits = np.exp(logits - top[draw])
        total = np.add.reduceat(logits, self.first, axis=0)
        return logits / total[draw], np.log(total) + top

    def _pieces(self, block: Array) -> Any:
        block = block if sp.issparse(block) else to_numpy(block)
        # Blocks of about 16 MB.
        size = max(16, 2**21 // len(self.log_weight))
        return [
            self.component.features(block[start : start + size])
            for start in range(0, block.shape[0], size)
        ]

    def memberships(self, block: Array) -> np.ndarray:
        """Memberships (b, k) from the co-occurrence of each object with the fitted ones."""
        target = [
            self._within_draws(Z)[0].T @ self.members / len(self.first) for Z in self._pieces(block)
        ]
        return simplex.quadratic_program(
            self.gram, np.vstack(target), simplex.normalize(np.vstack(target))
        )

    def log_density(self, block: Array) -> np.ndarray:
        """Log posterior predictive density (b,), averaged over the draws."""
        parts = []
        for Z in self._pieces(block):
            known = self._within_draws(Z)[1]
            fresh = self.component.log_predictive(self.prior_parameters, Z) + self.log_new[:, None]
            parts.append(
                np.logaddexp.reduce(np.logaddexp(known, fresh), axis=0)
                - np.log(len(self.first))
                + self.component.log_base(Z)
            )
        return np.concatenate(parts)
