"""Whole runs of EM in one native loop, for problems of few features in one block.

The same steps, the same squared extrapolation and the same tolerance as those of
``engine.component.Likelihood``, for quadratic features, without links or frozen parameters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import native
from ..engine import loop
from ..numerics.families import rounds
from .kernel import State
from .prior import Prior

__all__ = ["Whole"]


class Whole(NamedTuple):
    """Quadratic features ``Z`` (q, n) of the kind of a family, weights (n,) and a prior or None."""

    Z: np.ndarray
    weights: np.ndarray | None
    prior: Prior | None

    def run(self, state: State, max_iter: int, least: float) -> loop.Run:
        """Accelerated EM until a step gains at most ``least``."""
        mixture = _mixture(self.Z, self.weights, state, self.prior)
        mixture.put(*state[:3])
        slot, history, done = mixture.run(max_iter, least)
        return loop.Run(_state(mixture, slot, state), history[-1], history, len(history), done)

    def steps(self, state: State, n_steps: int) -> tuple[State, float]:
        """The state after some steps, and the objective of the state before the last one."""
        run = self.run(state, n_steps, -1.0)
        return run.state, float(run.objective)

    def levels(self, state: State) -> tuple[float, float]:
        """The log-likelihood, and the sum of the logarithms of every object's largest
        membership.
        """
        mixture = _mixture(self.Z, self.weights, state, None)
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
