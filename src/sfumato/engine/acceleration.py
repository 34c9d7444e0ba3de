"""Wrappers around a step of the loop that reach the same end in fewer steps.

An *accelerator* takes a step and gives a step on a larger state; ``.settled`` of that state is the
model's own. The objective is the safeguard: an extrapolation that makes it worse is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .loop import Run, Step, iterate


class Extrapolation(NamedTuple):
    """Safeguarded extrapolation: step from  current + momentum * (current - previous),  keep it
    only if the objective fell.

    ``combine(current, previous, momentum)`` gives the extrapolated state, back inside its
    constraints. For objectives that are minimised and known for the state that a step returns. Of
    several runs (a vector of objectives) ``select(mask, one, other)`` puts a state together.
    """

    current: Any
    previous: Any = None
    objective: Any = np.inf
    momentum: Any = 0.5
    cap: Any = 2.0

    @property
    def settled(self) -> Any:
        """The state whose objective is known to be the best so far."""
        return self.current

    @classmethod
    def accelerate(
        cls,
        step: Step,
        combine: Callable[[Any, Any, Any], Any],
        select: Callable[[Any, Any, Any], Any],
    ) -> Callable[[Extrapolation], Any]:
        """The step of accelerated states."""

        def accelerated(state: Extrapolation) -> tuple[Extrapolation, Any]:
            current, previous, objective, momentum, cap = state
            if previous is not None:
                trial, value = step(combine(current, previous, momentum))
                good = value <= objective
                cap = np.where(good, cap, np.maximum(0.5, 0.9 * momentum))
                momentum = np.where(good, np.minimum(1.1 * momentum, cap), momentum / 2)
                if np.all(good):
                    return cls(trial, current, value, momentum, cap), value
                if np.any(good):
                    current = select(good, trial, current)
            trial, value = step(current)
            return cls(trial, current, value, momentum, cap), value

        return accelerated


class Squarem(NamedTuple):
    """Squared extrapolation of a fixed-point map (Varadhan and Roland 2008), with the objective as
    safeguard.

    For steps whose objective belongs to the state that went in. ``pack`` turns a state into one
    unconstrained vector, ``unpack(vector, like)`` turns it back. From  x, F(x), F(F(x)):
    r = F(x) - x,  v = F(F(x)) - F(x) - r, a = -|r|/|v|,  next  x - 2 a r + a^2 v;  where the
    objective there is worse, the plain iterate F(F(x)) goes on instead.
    """

    current: Any
    trail: tuple[Any, ...] = ()
    fallback: Any = None
    objective: float = np.nan
    stretch: float = 1.0

    @property
    def settled(self) -> Any:
        """The last state that is known to be no worse than every state before it."""
        return self.current if self.fallback is None else self.fallback

    @classmethod
    def accelerate(
        cls,
        step: Step,
        pack: Callable[[Any], np.ndarray],
        unpack: Callable[[np.ndarray, Any], Any],
        *,
        larger: bool,
    ) -> Callable[[Squarem], Any]:
        """The step of accelerated states."""

        def accelerated(state: Squarem) -> tuple[Squarem, float]:
            try:
                following, value = step(state.current)
            except np.linalg.LinAlgError:
                if state.fallback is None:
                    raise
                value = np.nan  # extrapolated to where a covariance is no number
            if state.fallback is not None:
                worse = value < state.objective if larger else value > state.objective
                if worse or not np.isfinite(value):
                    following, value = step(state.fallback)
                    return cls(following, (), None, value, max(1.0, state.stretch / 4)), value
            trail = (*state.trail, state.current)
            if len(trail) < 2:
                return cls(following, trail, None, value, state.stretch), value
            x0, x1, x2 = (pack(s) for s in (*trail, following))
            r, v = x1 - x0, x2 - 2 * x1 + x0
            length = float(np.linalg.norm(v))
            alpha = -float(np.linalg.norm(r)) / length if length > 0 else -1.0
            alpha = min(-1.0, max(-state.stretch, alpha))
            stretch = state.stretch * 4 if alpha == -state.stretch else state.stretch
            if alpha == -1.0:
                return cls(following, (), None, value, stretch), value
            far = unpack(x0 - 2 * alpha * r + alpha**2 * v, following)
            return cls(far, (), following, value, stretch), value

        return accelerated


def climb(
    step: Step,
    state: Any,
    pack: Callable[[Any], np.ndarray] | None,
    unpack: Callable[[np.ndarray, Any], Any] | None,
    *,
    larger: bool,
    lost: Callable[[Any], bool] | None = None,
    **limits: Any,
) -> Run:
    """A run of ``iterate`` with squared extrapolation; plain where nothing is to ``pack``."""
    if pack is None or unpack is None:
        return iterate(step, state, lost=lost, **limits)
    run = iterate(
        Squarem.accelerate(step, pack, unpack, larger=larger),
        Squarem(state),
        lost=None if lost is None else lambda state: lost(state.settled),
        **limits,
    )
    return run._replace(state=run.state.settled)
