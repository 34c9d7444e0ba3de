import _thread
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato import DirichletProcessMixture
from sfumato.models.dirichlet_process import gibbs, sampling


def test_a_stop_is_heard_while_the_kernel_is_compiled(monkeypatch):
    """The first visit compiles for seconds; the pool of the chains would wait for it."""
    started, end, finished = threading.Event(), threading.Event(), threading.Event()

    def visit(*arguments):
        started.set()
        assert end.wait(60.0), "the stop was not heard"
        finished.set()
        return gibbs.visit(*arguments)

    def stop():
        started.wait()
        _thread.interrupt_main()

    twin = SimpleNamespace(visit=visit)
    monkeypatch.setattr(sampling, "optional_module", lambda *names: twin)
    threading.Thread(target=stop).start()
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(KeyboardInterrupt):
        DirichletProcessMixture(inference="gibbs", random_state=0).fit(X)
    assert not finished.is_set()
    end.set()
