"""The one loop and its accelerators."""

import numpy as np
import pytest

from sfumato.engine import loop


def halve(x):
    """A map with fixed point 1, its objective the squared distance after the step."""
    x = 1 + 0.9 * (x - 1)
    return x, float(np.square(x - 1).sum())


def test_iterate_stops_at_the_tolerance_and_keeps_the_history():
    run = loop.iterate(halve, np.array([9.0]), max_iter=1000, tol=1e-3, relative_to=1.0)
    assert run.converged
    assert run.n_iter == len(run.history) < 1000
    assert np.all(np.diff(run.history) < 0)
    assert abs(run.history[-1] - run.history[-2]) <= 1e-3 < abs(run.history[-2] - run.history[-3])


def test_iterate_says_when_it_ran_out():
    run = loop.iterate(halve, np.array([9.0]), max_iter=3, tol=0)
    assert not run.converged
    assert run.n_iter == 3


def test_progress_is_reported():
    seen = []
    with loop.progress(
        lambda iteration, max_iter, objective: seen.append((iteration, max_iter, objective))
    ):
        loop.iterate(halve, np.array([9.0]), max_iter=4, tol=0)
    assert [entry[:2] for entry in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    loop.iterate(halve, np.array([9.0]), max_iter=2, tol=0)
    assert len(seen) == 4


def test_extrapolation_needs_fewer_steps_and_never_rises():
    A = np.diag([1.0, 0.05])

    def descend(x):
        x = x - 0.9 * A @ x
        return x, float(x @ A @ x)

    start = np.array([1.0, 1.0])
    plain = loop.iterate(descend, start, max_iter=2000, tol=1e-10, relative_to=1.0)
    step = loop.Extrapolation.accelerate(descend, lambda x, y, b: x + b * (x - y), np.where)
    fast = loop.iterate(step, loop.Extrapolation(start), max_iter=2000, tol=1e-10, relative_to=1.0)
    assert fast.n_iter < plain.n_iter / 2
    assert np.all(np.diff(fast.history) <= 0)


def test_extrapolation_of_several_runs_lets_each_succeed_or_fail():
    rates = np.array([0.5, 0.99])

    def descend(x):
        x = rates * x
        return x, np.square(x)

    step = loop.Extrapolation.accelerate(
        descend, lambda x, y, b: x + b * (x - y) * np.array([-30.0, 1.0]), np.where
    )
    run = loop.iterate(step, loop.Extrapolation(np.ones(2)), max_iter=50, tol=0)
    assert np.all(np.diff(run.history, axis=0) <= 0)


def test_squarem_halves_the_steps_and_settles_on_a_checked_state():
    A, b = np.diag([0.99, 0.5]), np.array([0.01, 0.5])

    def em(x):
        return A @ x + b, -float(np.square(x - 1).sum())

    start = np.zeros(2)
    plain = loop.iterate(em, start, max_iter=5000, tol=1e-12, relative_to=1.0)
    step = loop.Squarem.accelerate(em, lambda x: x, lambda v, like: v, larger=True)
    fast = loop.iterate(step, loop.Squarem(start), max_iter=5000, tol=1e-12, relative_to=1.0)
    assert fast.n_iter <= plain.n_iter / 2
    assert np.all(np.diff(fast.history) >= 0)
    np.testing.assert_allclose(fast.state.settled, 1, atol=1e-4)


def test_of_equal_starts_the_earliest_is_best():
    assert loop.earliest_best([3.0, 1.0 + 1e-9, 1.0], larger=False) == 1
    assert loop.earliest_best([-3.0, 2.0, 2.0 + 1e-9], larger=True) == 1
    assert loop.earliest_best([0.0, -1e-3], larger=False) == 1


@pytest.mark.parametrize("max_iter", [1, 2])
def test_short_loops(max_iter):
    run = loop.iterate(halve, np.array([2.0]), max_iter=max_iter, tol=0)
    assert run.n_iter == max_iter


def test_a_run_that_cannot_catch_up_is_not_waited_for():
    def step(n):
        return n + 1, np.array([1.0, 5.0 - 0.001 * n])

    patient = loop.iterate(step, 0, max_iter=40, tol=1e-8)
    assert (patient.n_iter, patient.converged) == (40, False)
    run = loop.iterate(step, 0, max_iter=40, tol=1e-8, horizon=100)
    assert (run.n_iter, run.converged) == (2, True)
    close = loop.iterate(step, 0, max_iter=40, tol=1e-8, horizon=1e5)
    assert (close.n_iter, close.converged) == (40, False)


class Memory:
    """Keeps what a loop reached, as a checkpoint does."""

    kept = None

    def recall(self, state):
        return (0, state, []) if self.kept is None else (0, *self.kept)

    def keep(self, place, state, history):
        self.kept = (state, list(history))


def test_a_loop_is_done_when_taken_up_again():
    def run(max_iter):
        return loop.iterate(halve, np.array([9.0]), max_iter=max_iter, tol=1e-3, relative_to=1.0)

    whole, memory = run(1000), Memory()
    assert whole.converged
    with loop.checkpoints(memory):
        assert not run(3).converged
        resumed, again = run(1000), run(1000)
    for other in (resumed, again):
        assert other.n_iter == whole.n_iter
        np.testing.assert_array_equal(other.history, whole.history)
