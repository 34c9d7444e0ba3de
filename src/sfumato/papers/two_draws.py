"""The published online rule of discriminative clustering (Sinkkonen and Kaski 2002): one object and
two drawn clusters at a time.

For an object x of class distribution q, clusters j and l are drawn from its memberships y(x):

    m_l     <- m_l - a (x - m_l) sum_i q_i log(psi_j(i) / psi_l(i))
    gamma_l <- gamma_l + a (q - psi_l),            psi_l = softmax(gamma_l)

The expected step of m is -s^2/2 times the gradient of the expected distortion E; the Gaussian prior
of the prototypes adds its own, which is none for ``spread=inf``. The rate a falls with the objects
t as  rate / (1 + t / n).  No step carries a prototype past the object, or away from it by more than
their distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax

from ..array.arrays import to_numpy
from ..models.discriminative import kernel
from ..models.discriminative.problem import Problem

__all__ = ["Draws", "draws_pass"]


class Draws(NamedTuple):
    """Prototypes (k, p), logits gamma (k, classes) of their class distributions, and the number of
    objects seen.
    """

    average: np.ndarray  # the prototypes themselves: the published rule does not average
    logits: np.ndarray
    seen: int

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Draws:
        """Given prototypes with the class distributions of their cells."""
        r = problem.prior + problem.table(centers, bandwidth)
        return cls(centers, np.log(r / r.sum(axis=1, keepdims=True)), 0)


def draws_pass(
    problem: Problem,
    state: Draws,
    bandwidth: float,
    rate: float,
    order: np.ndarray,
    rng: np.random.Generator,
) -> Draws:
    """The state after one step for each object in ``order``."""
    centers, logits, seen = state.average.copy(), state.logits.copy(), state.seen
    log_psi = log_softmax(logits, axis=1)
    share = problem.total / problem.rows.shape[0]
    prior = 0.5 * bandwidth**2 * problem.precision / problem.total
    weight = np.zeros((1, len(centers)))
    for x, q in _objects(problem, order):
        q = q / share
        a = rate / (1.0 + seen / len(order))
        reach = np.cumsum(kernel.memberships(x, centers, bandwidth)[0])
        j, l = np.minimum(np.searchsorted(reach, rng.random(2) * reach[-1]), len(reach) - 1)
        weight[0, l] = np.clip(a * (q @ (log_psi[l] - log_psi[j])), -1.0, 1.0)
        # the prior moves all prototypes, never past the middle
        back = min(a * prior, 1.0) * (centers - problem.frame.middle)
        centers += kernel.moved(x, weight, centers) - back
        weight[0, l] = 0.0
        logits[l] += a * (q - q.sum() * np.exp(log_psi[l]))
        log_psi[l] = log_softmax(logits[l])
        seen += 1
    return Draws(centers, logits, seen)


def _objects(problem: Problem, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each object as a row (1, p) in the frame, and its weighted class distribution."""
    (Q,) = problem.rows.columns
    for start in range(0, len(order), 1024):
        chunk = order[start : start + 1024]  # put into the frame at once
        X, q = (_dense(part) for part in (problem.frame(problem.rows.X[chunk]), Q[chunk]))
        for i in range(len(chunk)):
            yield X[i : i + 1], q[i]


def _dense(part: Any) -> np.ndarray:
    return part.toarray() if sp.issparse(part) else to_numpy(part)
