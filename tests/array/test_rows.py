"""Rows in blocks, and calls in threads: in order, few at a time."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.array.rows import AHEAD, Rows, in_threads


def test_results_come_in_order():
    assert list(in_threads(pow, [(i, 2) for i in range(100)], 3)) == [i**2 for i in range(100)]


def test_a_process_that_is_stopped_does_not_wait_for_thousands_of_calls():
    """No more are handed out than a few for each thread, even if nobody closes the iterator."""
    begun, lock = [], threading.Lock()

    def call(i):
        with lock:
            begun.append(i)
        return i

    results = in_threads(call, [(i,) for i in range(1000)], 2)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(begun) <= 10 + 2 * AHEAD


def test_an_error_of_a_call_is_raised():
    def call(i):
        if i == 5:
            raise ValueError("five")
        return i

    with pytest.raises(ValueError, match="five"):
        list(in_threads(call, [(i,) for i in range(1000)], 2))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(7, 3), (5, 5)])
def test_extremes_are_those_of_every_column(kind, shape):
    X = np.random.default_rng(0).normal(size=shape)
    X[::2, 0] = 0.0
    X[:, 1] = np.abs(X[:, 1]) + 1.0
    np.testing.assert_array_equal(Rows(kind(X)).extremes(), [X.min(axis=0), X.max(axis=0)])
