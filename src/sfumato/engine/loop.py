"""One loop for every model: tolerance, history, progress, checkpoints, acceleration, best runs.

A *step* is ``step(state) -> (state, objective)`` and never makes the objective worse. The objective
belongs to the returned state or, if that would cost another pass over the data (EM), to the state
before the step. It may also be a vector, with one entry for each of several runs.

An *accelerator* turns a step into a step on a larger state, which reaches the same result in fewer
steps; ``.settled`` is the state of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..array.types import ArrayLike

State: TypeAlias = Any  # a NamedTuple of arrays
Step = Callable[[Any], tuple[Any, Any]]

_listener: ContextVar[Any] = ContextVar("sfumato_progress", default=None)
_keeper: ContextVar[Any] = ContextVar("sfumato_checkpoints", default=None)


class Run(NamedTuple):
    """Result of a loop: last state, history of objectives, and why it stopped."""

    state: State
    objective: Any
    history: np.ndarray
    n_iter: int
    converged: bool


@contextmanager
def progress(listener: Callable[[int, int, float], None]) -> Iterator[None]:
    """Context in which every loop reports ``listener(iteration, max_iter, objective)``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def checkpoints(keeper: Any) -> Iterator[None]:
    """Context in which every outermost loop starts from ``keeper.recall(state)`` and calls
    ``keeper.keep(number, state, history)`` after every step.
    """
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)


def tell(done: int, total: int, value: float) -> None:
    """Report progress of work that is not a loop of steps."""
    report = _listener.get()
    if report is not None:
        report(done, total, value)


def iterate(
    step: Step,
    state: State,
    *,
    max_iter: int,
    tol: float,
    relative_to: float | np.ndarray | Callable[[Any], Any] | None = None,
    horizon: float = np.inf,
) -> Run:
    """Repeat ``step`` until the objective changes by at most ``tol`` times ``relative_to``.

    ``relative_to`` is a number, a function of the objective, or None for its size. With several
    runs, all minimised, those that would not reach the best one within ``horizon`` steps at their
    present pace are given up.
    """
    report, keeper = _listener.get(), _keeper.get()
    history: list[Any] = []
    if keeper is not None:
        place, state, history = keeper.recall(state)

    with checkpoints(None):
        while len(history) < max_iter and not _settled(history, tol, relative_to, horizon):
            state, objective = step(state)
            history.append(np.asarray(objective, dtype=np.float64))
            if report is not None:
                report(len(history), max_iter, float(history[-1].min()))
            if keeper is not None:
                keeper.keep(place, state, history)
    done = _settled(history, tol, relative_to, horizon)
    return Run(state, history[-1] if history else np.inf, np.asarray(history), len(history), done)


def replay(solve: Callable[[Callable[[Any], Any]], Run], evaluate: Callable[[Any], Any]) -> Run:
    """Result of ``solve(evaluate)`` for deterministic solvers with hidden state, whose resumed run
    is given the recorded values of ``evaluate``.
    """
    report, keeper = _listener.get(), _keeper.get()
    place, known, history = (0, None, []) if keeper is None else keeper.recall(None)
    if isinstance(known, Run):
        return known
    given: list[Any] = list(known or ())
    asked = 0  # number of calls of ``evaluate`` by this solver

    def answer(question: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked > len(given):
            given.append(evaluate(question))
            history.append(np.asarray(asked, dtype=np.float64))
            if report is not None:
                # The number of evaluations is unknown, so the bar is never more than half full.
                report(asked, max(2 * asked, 100), float(np.ravel(given[-1][0])[0]))
            if keeper is not None:
                keeper.keep(place, tuple(given), history)
        return given[asked - 1]

    with checkpoints(None):
        run = solve(answer)
    if keeper is not None:
        history.append(np.asarray(asked, dtype=np.float64))
        keeper.keep(place, run, history)
    return run


def at_once(compute: Callable[[], Run]) -> Run:
    """A run without observable steps, such as a compiled loop, shown and kept as one step."""
    report, keeper = _listener.get(), _keeper.get()
    place, known, history = (0, None, []) if keeper is None else keeper.recall(None)
    if isinstance(known, Run):
        return known
    with checkpoints(None):
        run = compute()
    if report is not None:
        report(run.n_iter, run.n_iter, float(run.objective))
    if keeper is not None:
        keeper.keep(place, run, [*history, np.asarray(run.objective, dtype=np.float64)])
    return run


def _settled(history: list[Any], tol: float, relative_to: Any, horizon: float) -> bool:
    if len(history) < 2:
        return False
    size = np.abs(history[-1]) if relative_to is None else relative_to
    size = size(history[-1]) if callable(size) else size
    change = np.abs(history[-1] - history[-2])
    behind = history[-1] - history[-1].min()
    # A run that gains ``change`` per step needs behind / change steps to reach the best one.
    return bool(np.all((change <= tol * size) | (behind / horizon > change)))


def best(runs: list[Run], *, larger: bool) -> Run:
    """The run with the largest (or smallest) objective."""
    return runs[earliest_best([run.objective for run in runs], larger=larger)]


def earliest_best(objectives: ArrayLike, *, larger: bool) -> int:
    """Index of the first objective within one part in a million of the largest (or smallest)."""
    values = np.asarray(objectives, dtype=np.float64) * (-1.0 if larger else 1.0)
    lowest = values.min()
    return int(np.argmax(values <= lowest + 1e-6 * np.abs(lowest)))


class Extrapolation(NamedTuple):
    """Steps from current + momentum * (current - previous), kept only if the objective fell.

    ``combine(current, previous, momentum)`` returns the extrapolated state, back inside its
    constraints. The objective belongs to the state that a step returns. With several runs (a vector
    of objectives), ``select(mask, one, other)`` combines two states.
    """

    current: Any
    previous: Any = None
    objective: Any = np.inf
    momentum: Any = 0.5
    cap: Any = 2.0

    @property
    def settled(self) -> Any:
        """The state with the best known objective."""
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
    """Squared extrapolation of a fixed-point map (Varadhan and Roland 2008): from x, F(x), F(F(x))
    with r = F(x) - x, v = F(F(x)) - F(x) - r and a = -|r|/|v| to x - 2 a r + a^2 v or, if the
    objective there is worse, to F(F(x)).

    The objective belongs to the state before the step. ``pack`` turns a state into one
    unconstrained vector, and ``unpack(vector, like)`` reverses this.
    """

    current: Any
    trail: tuple[Any, ...] = ()
    fallback: Any = None
    objective: float = np.nan
    stretch: float = 1.0

    @property
    def settled(self) -> Any:
        """The last state that is known to be no worse than any before it."""
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
                value = np.nan  # extrapolated to a covariance with NaN or infinity
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
    **limits: Any,
) -> Run:
    """A run of ``iterate`` with squared extrapolation; a plain run if there is no ``pack``."""
    if pack is None or unpack is None:
        return iterate(step, state, **limits)
    accelerated = Squarem.accelerate(step, pack, unpack, larger=larger)
    run = iterate(accelerated, Squarem(state), **limits)
    return run._replace(state=run.state.settled)
