import _thread
import threading

import numpy as np
import pytest

from sfumato.numerics.eigen import waited


def test_it_returns_what_the_function_returns_in_any_thread():
    assert waited(divmod, 7, 3) == (2, 1)
    found = []
    other = threading.Thread(target=lambda: found.append(waited(np.linalg.eigvalsh, np.eye(3))))
    other.start()
    other.join()
    np.testing.assert_array_equal(found[0], np.ones(3))


def test_it_raises_what_the_function_raises():
    with pytest.raises(np.linalg.LinAlgError):
        waited(np.linalg.inv, np.zeros((2, 2)))


def test_a_stop_is_heard_while_the_function_works():
    started, end, finished = threading.Event(), threading.Event(), threading.Event()

    def long():
        started.set()
        end.wait(60.0)
        finished.set()

    def stop():
        started.wait()
        _thread.interrupt_main()

    threading.Thread(target=stop).start()
    with pytest.raises(KeyboardInterrupt):
        waited(long)
    assert not finished.is_set()
    end.set()
