"""Compiled EM for problems so small that the interpreter would take longer than the arithmetic.

Needs Numba (``pip install 'sfumato[fast]'``). Import at call time.

The twin of ``Likelihood.run`` and of its steps: the same M steps, the same squared extrapolation,
the same tolerance, for quadratic features in one block, without labels or frozen parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ...numerics.compiled_families import letters, pairs
from . import kernel
from .compiled_step import extrapolate, levels, step
from .kernel import State
from .prior import Prior

__all__ = ["rating", "run", "steps"]

SLOTS = 6  # states that are held at once


class _Problem:
    """Arrays that all calls for one problem share."""

    def __init__(
        self, Z: np.ndarray, weights: np.ndarray | None, state: State, prior: Prior | None
    ) -> None:
        k, d = state.means.shape
        self.Z = Z[None]
        self.weights = np.empty(0) if weights is None else np.ascontiguousarray(weights, float)
        self.count = float(Z.shape[1] if weights is None else weights.sum())
        self.family, self.turns = letters(state.family), pairs(d)
        kk, shape = len(state.weights), _shape(state)
        self.slots = np.empty((SLOTS, kk)), np.empty((SLOTS, k, d)), np.empty((SLOTS, *shape))
        self.fixed = np.array([state.floor, 0.0 if state.noise is None else state.noise.sum()])
        self.prior = _hyperparameters(prior, k, d, state.family)

    def put(self, state: State) -> None:
        weights, means, shapes = self.slots
        weights[0], means[0] = state.weights, state.means
        shapes[0] = state.covariances.reshape(shapes.shape[1:])

    def arguments(self, *limits: Any) -> tuple[Any, ...]:
        return (
            self.Z, self.weights, self.count, self.family, self.turns, self.fixed,
            *self.prior, *self.slots, *limits,
        )  # fmt: skip

    def state(self, slot: int, like: State) -> State:
        weights, means, shapes = (part[slot].copy() for part in self.slots)
        return like._replace(
            weights=weights, means=means, covariances=shapes.reshape(like.covariances.shape)
        )


def _shape(state: State) -> tuple[int, int, int]:
    k, *rest = state.covariances.shape
    return (k, *([1] * (2 - len(rest))), *rest)  # type: ignore[return-value]


def _hyperparameters(
    prior: Prior | None, k: int, d: int, family: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, scale, and the three numbers of the prior: strength, share of the scale, powers."""
    if prior is None:
        return np.zeros(d), np.zeros((d, d)), np.zeros(3)
    share = 1.0 / k if "V" not in family else 1.0
    powers = 1.0 + share * (prior.degrees + d + 1.0)
    numbers = np.array([prior.strength, share, powers])
    return np.array(prior.mean), np.ascontiguousarray(prior.scale), numbers


def run(
    Z: np.ndarray,
    weights: np.ndarray | None,
    state: State,
    prior: Prior | None,
    max_iter: int,
    threshold: float,
) -> tuple[State, np.ndarray, bool]:
    """Accelerated EM until a step gains at most ``threshold``.

    ``Z`` (q, n) are quadratic features of the kind of the family. Returns the last state, the
    history of the objective, and whether it converged.
    """
    problem = _Problem(Z, weights, state, prior)
    problem.put(state)
    history = np.empty(max_iter)
    n_iter, slot, converged = _run(*problem.arguments(history, threshold))
    return problem.state(slot, state), history[:n_iter], converged


def steps(
    Z: np.ndarray,
    weights: np.ndarray | None,
    states: list[State],
    prior: Prior | None,
    n_steps: int,
) -> tuple[list[State], np.ndarray]:
    """States after some steps each, and the objectives of the states before the last one."""
    first, several = states[0], kernel.stack(states)
    problem, shape = _Problem(Z, weights, first, prior), _shape(first)
    # One layout only: another would be compiled for by itself.
    W, M, C = (np.ascontiguousarray(part) for part in several[:3])
    C, values = C.reshape(len(states), *shape), np.empty(len(states))
    _steps(*problem.arguments(np.empty(n_steps), W, M, C, values))
    C = C.reshape(several.covariances.shape)
    return kernel.unstack(several._replace(weights=W, means=M, covariances=C)), values


def rating(Z: np.ndarray, weights: np.ndarray | None, state: State) -> tuple[float, float]:
    """The log-likelihood, and the sum of the logarithms of every object's largest membership."""
    problem = _Problem(Z, weights, state, None)
    problem.put(state)
    return levels(problem.Z, problem.weights, problem.fixed, *problem.prior[:2], *problem.slots)


@njit(cache=True, nogil=True)
def _steps(
    Z, w, count, family, turns, fixed, mean, scale, numbers, W, M, C, history, Ws, Ms, Cs, values
):
    """Plain steps of several states, in place, and their objectives before the last one."""
    for i in range(len(values)):
        W[0], M[0], C[0] = Ws[i], Ms[i], Cs[i]
        _, slot, _ = _run(
            Z, w, count, family, turns, fixed, mean, scale, numbers, W, M, C, history, -1.0
        )
        values[i] = history[-1]
        Ws[i], Ms[i], Cs[i] = W[slot], M[slot], C[slot]


@njit(cache=True, nogil=True)
def _run(Z, w, count, family, turns, fixed, mean, scale, numbers, W, M, C, history, threshold):
    """Steps, extrapolated as ``Squarem`` is; the slot of the settled state.

    A negative threshold asks for plain steps, as many as ``history`` has room for.
    """
    squared = threshold >= 0.0
    # Slots come out of an array: a constant among them would be one more type to compile for.
    current, fallback, before = np.array([0, -1, -1])
    length, objective, stretch, n_iter = 0, 0.0, 1.0, 0
    while n_iter < len(history):
        if n_iter > 1 and abs(history[n_iter - 1] - history[n_iter - 2]) <= threshold:
            break
        following = _free(current, fallback, before)
        origin, value = current, 0.0
        for attempt in range(2):
            value = step(
                Z, w, count, family, turns, fixed, mean, scale, numbers, W, M, C, origin, following
            )
            if attempt == 0 and fallback >= 0 and not value >= objective:
                origin = fallback
            else:
                break
        if origin != current:
            current, fallback, length, stretch = following, np.int64(-1), 0, max(1.0, stretch / 4)
        elif length == 0 or not squared:
            before, current, fallback, length = current, following, np.int64(-1), 1
        else:
            spare = _free(current, following, before)
            stretch, moved = extrapolate(
                family, turns, fixed, W, M, C, before, current, following, spare, stretch
            )
            length = 0
            current, fallback = (spare, following) if moved else (following, np.int64(-1))
        objective = value
        history[n_iter] = value
        n_iter += 1
    converged = n_iter > 1 and abs(history[n_iter - 1] - history[n_iter - 2]) <= threshold
    return n_iter, current if fallback < 0 else fallback, converged


@njit(cache=True, nogil=True)
def _free(a, b, c):
    """A slot that is none of these."""
    slot = np.int64(0)
    while slot in (a, b, c):
        slot += 1
    return slot
