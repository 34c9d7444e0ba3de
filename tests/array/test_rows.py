"""Calls in threads: in order, few at a time."""

import threading

import pytest

from sfumato.array.rows import AHEAD, in_threads


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
