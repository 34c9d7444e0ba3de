import _thread
import threading

import numpy as np
import pytest

from sfumato.similarity import learn, learn_scales, spectral_cost_gradient

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2


@pytest.mark.parametrize(
    "name, call",
    [
        ("scale_gradient", lambda: learn_scales(X, Y)),
        ("spectral_cost", lambda: spectral_cost_gradient(np.ones((12, 12)), Y)),
    ],
)
def test_a_stop_is_heard_while_eigenvectors_are_computed(monkeypatch, name, call):
    started, end, finished = threading.Event(), threading.Event(), threading.Event()

    def long(*arguments):
        started.set()
        try:
            end.wait(60.0)
        finally:  # the stop came here, where linear algebra would not hear it
            finished.set()

    def stop():
        started.wait()
        _thread.interrupt_main()

    monkeypatch.setattr(learn, name, long)
    threading.Thread(target=stop).start()
    with pytest.raises(KeyboardInterrupt):
        call()
    assert not finished.is_set()
    end.set()
