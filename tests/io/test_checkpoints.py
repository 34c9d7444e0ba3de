"""A loop that was cut short and goes on ends where an uncut one ends."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from sfumato.engine.loop import Run, Squarem, checkpoints, iterate, replay
from sfumato.io import output
from sfumato.io.results import Checkpoint


class Keeper:
    """Keeps everything, and stops the world after a number of steps."""

    def __init__(self, kept=(), stop=None):
        self.kept, self.stop, self.calls, self.steps = list(kept), stop, 0, 0

    def recall(self, state):
        place, self.calls = self.calls, self.calls + 1
        if place < len(self.kept):
            return place, self.kept[place][0], list(self.kept[place][1])
        self.kept.append((state, []))
        return place, state, []

    def keep(self, place, state, history):
        self.kept[place] = (state, list(history))
        self.steps += 1
        if self.steps == self.stop:
            raise KeyboardInterrupt


def two_loops():
    def halve(x):
        return x / 2 + 1, float(np.sum((x / 2 - 1) ** 2))

    def nested(x):
        inner = iterate(halve, x, max_iter=3, tol=0)
        return inner.state, inner.objective

    squared = Squarem.accelerate(halve, np.atleast_1d, lambda vector, like: vector, larger=False)
    first = iterate(squared, Squarem(np.array([50.0, -3.0])), max_iter=9, tol=0)
    return first, iterate(nested, first.state.settled + 7, max_iter=15, tol=1e-12)


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 8, 9, 10, 14])
def test_stopped_anywhere_the_answer_is_the_same(stop):
    whole = two_loops()
    cut = Keeper(stop=stop)
    with pytest.raises(KeyboardInterrupt), checkpoints(cut):
        two_loops()
    again = Keeper(cut.kept)
    with checkpoints(again):
        resumed = two_loops()
    for expected, got in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(expected.history, got.history)
        assert (expected.n_iter, expected.converged) == (got.n_iter, got.converged)
    assert again.calls == 2
    assert again.steps + stop == sum(run.n_iter for run in whole)


@pytest.mark.parametrize("stop", [1, 2, 7, 12, 13])
def test_a_solver_that_keeps_its_state_to_itself_is_given_the_same_answers(stop):
    """L-BFGS on Rosenbrock's valley.

    Not one question is answered twice, and the path is the same to the last bit.
    """
    asked = []

    def evaluate(x):
        asked.append(x.copy())
        return float(rosen(x)), rosen_der(x)

    def solve(function):
        found = minimize(function, np.array([-1.2, 1.0]), jac=True, method="L-BFGS-B")
        return Run(found.x, found.fun, np.array([found.fun]), found.nit, found.success)

    whole, total = replay(solve, evaluate), len(asked)
    asked.clear()
    cut = Keeper(stop=stop)
    with pytest.raises(KeyboardInterrupt), checkpoints(cut):
        replay(solve, evaluate)
    again = Keeper(cut.kept)
    with checkpoints(again):
        resumed = replay(solve, evaluate)
    np.testing.assert_array_equal(resumed.state, whole.state)
    assert (resumed.n_iter, len(asked)) == (whole.n_iter, total)
    finished = Keeper(again.kept)
    with checkpoints(finished):
        assert replay(solve, evaluate) is again.kept[0][0]
    assert len(asked) == total


def test_a_stop_between_the_rename_and_the_end_of_a_write_loses_nothing(tmp_path, monkeypatch):
    """The folder is being synchronised: the file is there, and is ours."""
    pytest.importorskip("skops")
    kept = Checkpoint(tmp_path / "r.checkpoint", "task", every=0.0)
    place, state, history = kept.recall(1.0)
    sync = output.sync

    def stopped(path):
        if path == tmp_path:
            raise KeyboardInterrupt
        sync(path)

    monkeypatch.setattr(output, "sync", stopped)
    with pytest.raises(KeyboardInterrupt):
        kept.keep(place, state, [*history, 2.0])
    monkeypatch.setattr(output, "sync", sync)
    assert kept.mine
    assert kept.write()
    kept.remove()
    assert not any(tmp_path.iterdir())
