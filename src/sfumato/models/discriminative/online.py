"""The online algorithm of discriminative clustering: steps on random batches of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core import loop
from . import kernel
from .problem import Problem

__all__ = ["Online", "Pace", "learn", "online_pass"]


class Pace(NamedTuple):
    """Size of the first step, and the number of objects in a batch ("auto": a hundredth, at least
    ten).
    """

    rate: float
    batch_size: int | str

    def batch(self, n: int) -> int:
        """Objects in a batch out of n."""
        return max(10, n // 100) if isinstance(self.batch_size, str) else self.batch_size


class Online(NamedTuple):
    """State of the online algorithm: the prototypes, and running means over the last batches."""

    centers: np.ndarray  # (k, p)
    average: np.ndarray  # of the prototypes: what is reported
    table: np.ndarray  # soft counts (k, classes), as if of all objects seen
    first: np.ndarray  # of the steps
    second: np.ndarray  # of their squares
    batches: int
    seen: float  # weight of all objects seen

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Online:
        """The state before the first batch."""
        zeros = np.zeros_like(centers)
        return cls(
            centers, centers, problem.table(centers, bandwidth), zeros, zeros, 0, problem.total
        )


def online_pass(
    problem: Problem, state: Online, bandwidth: float, pace: Pace, order: np.ndarray
) -> Online:
    """The state after steps over batches of the objects in ``order``.

    Each is the expected step divided by its running root mean square (Kingma and Ba 2015).
    """
    (Q,) = problem.rows.columns
    batch_size = pace.batch(len(order))
    mean_weight = problem.total / problem.rows.shape[0]
    centers, average, table, first, second, b, seen = state
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        X, q = problem.frame(problem.rows.X[batch]), Q[batch]
        Y = kernel.memberships(X, centers, bandwidth)
        scale, forget = seen / (len(batch) * mean_weight), (b + 30.0) ** -0.6
        table = table + forget * (scale * kernel.counts(Y, q) - table)
        step = scale * kernel.drift(
            X, q, Y, Y, kernel.slopes(table, problem.prior, problem.penalty), centers
        )
        step -= 0.5 * bandwidth**2 * problem.precision * (centers - problem.frame.middle)
        b += 1
        first, second = 0.9 * first + 0.1 * step, 0.99 * second + 0.01 * step**2
        size = np.sqrt(second / (1 - 0.99**b)) + np.finfo(np.float64).tiny
        centers = centers + pace.rate / (1 + b / 200) * (first / (1 - 0.9**b)) / size
        average = average + forget * (centers - average)
    return Online(centers, average, table, first, second, b, seen)


def learn(
    problem: Problem,
    first: Any,
    advance: Callable[[Any, np.ndarray], Any],
    bandwidth: float,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The best prototypes of online passes in random order; three passes without progress end it.

    ``advance(state, order)`` is a pass from a state whose ``average`` are the prototypes to report.
    The state of the generator is part of the state of the loop, so that a resumed search goes
    through the same orders.
    """

    def value_of(state: Any) -> float:
        return problem.objective(problem.table(state.average, bandwidth), state.average)

    def step(state: tuple[Any, np.ndarray, float, Any]) -> tuple[Any, float]:
        online, best, value, rng.bit_generator.state = state
        for _ in range(3):
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
