"""Whole runs of EM in one native loop, for problems of few features in one block.

The same steps, the same squared extrapolation and the same tolerance as those of
``likelihood.Likelihood``, for quadratic features, without labels or frozen parameters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...array.arrays import native
from ...numerics.families import rounds
from .kernel import State
from .prior import Prior

__all__ = ["rating", "run", "steps"]


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
    mixture = _mixture(Z, weights, state, prior)
    mixture.put(*state[:3])
    slot, history, converged = mixture.run(max_iter, threshold)
    return _state(mixture, slot, state), history, converged


def steps(
    Z: np.ndarray,
    weights: np.ndarray | None,
    states: list[State],
    prior: Prior | None,
    n_steps: int,
) -> tuple[list[State], np.ndarray]:
    """States after some steps each, and the objectives of the states before the last one."""
    mixture, ends, values = _mixture(Z, weights, states[0], prior), [], np.zeros(len(states))
    for i, state in enumerate(states):
        mixture.put(*state[:3])
        slot, history, _ = mixture.run(n_steps, -1.0)
        ends.append(_state(mixture, slot, state))
        values[i] = history[-1]
    return ends, values


def rating(Z: np.ndarray, weights: np.ndarray | None, state: State) -> tuple[float, float]:
    """The log-likelihood, and the sum of the logarithms of every object's largest membership."""
    mixture = _mixture(Z, weights, state, None)
    mixture.put(*state[:3])
    return mixture.levels()  # type: ignore[no-any-return]


def _mixture(Z: np.ndarray, weights: np.ndarray | None, state: State, prior: Prior | None) -> Any:
    k, d = state.means.shape
    rest = state.covariances.shape[1:]
    shape = (k, *([1] * (2 - len(rest))), *rest)
    noise = None if state.noise is None else float(state.noise.sum())
    family = state.family
    belief = None if prior is None else _hyperparameters(prior, k, d, family)
    return native("em").Mixture(
        Z, weights, d, shape, _letters(family), _pairs(d), state.floor, noise, belief
    )


def _state(mixture: Any, slot: int, like: State) -> State:
    weights, means, shapes = mixture.state(slot)
    shapes = shapes.reshape(like.covariances.shape)
    return like._replace(weights=weights, means=means, covariances=shapes)


def _hyperparameters(prior: Prior, k: int, d: int, family: str) -> tuple[Any, ...]:
    """Mean, scale, and the three numbers of the prior: strength, share of the scale, powers."""
    share = 1.0 / k if "V" not in family else 1.0
    powers = 1.0 + share * (prior.degrees + d + 1.0)
    return prior.mean, prior.scale, (prior.strength, share, powers)


@lru_cache(maxsize=14)
def _letters(family: str) -> tuple[int, ...]:
    """Numbers of the letters; a multiple of the identity is a diagonal matrix of one number."""
    family = family if family[1] != "I" else 2 * family[0] + "I"
    return tuple("EVI".index(letter) for letter in family)


@lru_cache(maxsize=64)
def _pairs(d: int) -> np.ndarray:
    """All pairs of ``d`` axes in the order in which they are turned."""
    found = [np.stack(both, axis=1) for both in rounds(d)]
    return np.concatenate(found) if found else np.empty((0, 2), dtype=np.intp)
