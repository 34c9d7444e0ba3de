"""Shared fixtures: array libraries and small evidence."""

from __future__ import annotations

import importlib.util
import os
import signal

import numpy as np
import pytest
from hypothesis import settings

LIBRARIES = [
    "numpy",
    "numpy-readonly",
    *(name for name in ("array_api_strict", "torch") if importlib.util.find_spec(name)),
]


def pytest_configure(config) -> None:
    """Hypothesis draws the same examples everywhere, others with ``--shuffle``, without haste."""
    same = not config.getoption("--shuffle", default=None)
    settings.register_profile("sfumato", deadline=None, derandomize=same, database=None)
    settings.load_profile("sfumato")


def pytest_sessionstart() -> None:
    """Ctrl-C counts, though shells let what they start in the background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """Checks that scikit-learn skips unless SciPy dispatches on arrays run in a process of their
    own. Warnings of the structure test are errors where the number of clusters is the subject.
    """
    strict = ("test_structure", "test_growing_search", "test_model_search")
    for item in items:
        if item.path.parent.name == "selection" or item.path.stem in strict:
            mark = pytest.mark.filterwarnings("error:structure test")
            item.add_marker(mark, append=False)  # so that a mark of the test has the last word
    if os.environ.get("SCIPY_ARRAY_API"):
        return
    apart = [item for item in items if "check_array_api" in item.nodeid]
    items[:] = [item for item in items if item not in apart]
    config.hook.pytest_deselected(items=apart)


@pytest.fixture(params=LIBRARIES)
def array(request):
    """A function that puts a NumPy array into an array library.

    Read-only NumPy arrays are one of them.
    """
    if request.param == "numpy":
        return np.array
    if request.param == "numpy-readonly":

        def frozen(values):
            values = np.array(values)
            values.flags.writeable = False
            return values

        return frozen
    if request.param == "array_api_strict":
        import array_api_strict

        return array_api_strict.asarray
    import torch

    return lambda values: torch.asarray(np.array(values))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def blobs(rng):
    """Three well separated groups of 30 points in the plane, and their labels."""
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    labels = np.repeat(np.arange(3), 30)
    return centers[labels] + rng.normal(size=(90, 2)), labels
