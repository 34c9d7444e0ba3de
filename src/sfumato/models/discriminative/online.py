"""The online algorithm of discriminative clustering: steps on random batches of objects.

Two time scales (Borkar 1997): the counts that the steps look at forget faster than the steps
shrink, so that they belong to the prototypes of now; the prototypes that are reported are a running
mean of the steps' (Polyak and Juditsky 1992).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...engine import loop
from . import kernel
from .problem import Problem

__all__ = ["Online", "learn", "online_pass"]


# Exponents of b, the number of batches: by how much the steps and the shares of a new batch in the
# running means fall. Chosen, with the default rate, from one start on four sets of 20 000 objects
# (40 groups, a checkerboard, stripes, smooth probabilities); ``python -m benchmarks
# discriminative`` reports whole fits on others. Theory asks for steps between 1/2 and 1, and for
# counts that forget faster than that.
STEPS = 0.6
COUNTS = 0.4
MEANS = 0.6
WARM = 30.0  # batches that the first shares count as
PATIENCE = 8  # passes without progress that end a search, the later ones with smaller steps


class Online(NamedTuple):
    """State of the online algorithm: the prototypes, and running means over the last batches."""

    centers: np.ndarray  # (k, p)
    average: np.ndarray  # of the prototypes: what is reported
    table: np.ndarray  # soft counts (k, classes), as if of all objects seen
    recent: np.ndarray  # the same of the last batches, used by the steps
    first: np.ndarray  # of the steps
    second: np.ndarray  # of their squares
    batches: int
    seen: float  # weight of all objects seen
    slow: float = 1.0  # times the steps

    def again(self, best: np.ndarray) -> Online:
        """The state back at the best prototypes, with half the steps."""
        return self._replace(
            centers=best, average=best, first=np.zeros_like(best), slow=0.5 * self.slow
        )

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Online:
        """The state before the first batch."""
        zeros, table = np.zeros_like(centers), problem.table(centers, bandwidth)
        return cls(centers, centers, table, table, zeros, zeros, 0, problem.total)


def online_pass(
    problem: Problem, state: Online, bandwidth: float, first_rate: float, order: np.ndarray
) -> Online:
    """The state after steps over batches of the objects in ``order``.

    Each is the expected step divided by its running root mean square (Kingma and Ba 2015).
    """
    (Q,) = problem.rows.columns
    batch_size = max(10, len(order) // 100)
    mean_weight = problem.total / problem.rows.shape[0]
    centers, average, table, recent, first, second, b, seen, slow = state
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        X, q = problem.frame(problem.rows.X[batch]), Q[batch]
        Y = kernel.memberships(X, centers, bandwidth)
        scale, forget = seen / (len(batch) * mean_weight), (b + WARM) ** -MEANS
        counts = scale * kernel.counts(Y, q)
        table = table + forget * (counts - table)
        recent = recent + (b + WARM) ** -COUNTS * (counts - recent)
        step = scale * kernel.drift(
            X, q, Y, Y, kernel.slopes(recent, problem.prior, problem.penalty), centers
        )
        step -= 0.5 * bandwidth**2 * problem.precision * (centers - problem.frame.middle)
        b += 1
        first, second = 0.9 * first + 0.1 * step, 0.99 * second + 0.01 * step**2
        size = np.sqrt(second / (1 - 0.99**b)) + np.finfo(np.float64).tiny
        rate = slow * first_rate * min(bandwidth, 1.0) * (1 + b / 200) ** -STEPS
        centers = centers + rate * (first / (1 - 0.9**b)) / size
        average = average + forget * (centers - average)
    return Online(centers, average, table, recent, first, second, b, seen, slow)


def learn(
    problem: Problem,
    first: Any,
    advance: Callable[[Any, np.ndarray], Any],
    bandwidth: float,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The best prototypes of online passes in random order.

    ``advance(state, order)`` is a pass from a state whose ``average`` are the prototypes to report;
    ``state.again(best)`` goes back to the best ones with half the steps, after two passes without
    progress and after each further one. The state of the generator is part of the state of the
    loop, so that a resumed search goes through the same orders.
    """

    def value_of(state: Any) -> float:
        return problem.objective(problem.table(state.average, bandwidth), state.average)

    def step(state: tuple[Any, np.ndarray, float, Any]) -> tuple[Any, float]:
        online, best, value, rng.bit_generator.state = state
        for failed in range(PATIENCE):
            online = online.again(best) if failed > 1 else online
            online = advance(online, rng.permutation(problem.rows.shape[0]))
            reached = value_of(online)
            if reached > value:
                return (online, online.average, reached, rng.bit_generator.state), reached
        return (online, best, value, rng.bit_generator.state), value

    start = (first, first.average, value_of(first), rng.bit_generator.state)
    run = loop.iterate(
        step, start, max_iter=max_iter, tol=max(tol, 1e-4), relative_to=problem.total
    )
    _, best, _, rng.bit_generator.state = run.state
    return run._replace(state=best)
