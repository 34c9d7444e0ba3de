"""How many files a reader passes who follows a fit of iris with the defaults from call to call.

A file counts if one of its functions is called, in whatever thread; imports alone do not, nor do
native modules, which have no Python to follow. The limits hold what has been reached:
they only ever go down.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sfumato
from sfumato.array import rows

ROOT = Path(sfumato.__file__).parent
LIMITS = {
    "GaussianMixture": 16,
    "EvidenceAccumulation": 50,
    "FuzzyCMeans": 25,
    "PairwiseProbabilisticClustering": 30,
}


def walked(estimator, X: np.ndarray) -> set[str]:
    """Files below ``sfumato`` in which functions are called during a fit."""
    estimator.fit(X)  # what is loaded once is no part of the walk
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        estimator.fit(X)
    finally:
        sys.setprofile(None)
    names = (Path(name) for name in seen)
    return {str(path.relative_to(ROOT)) for path in names if path.is_relative_to(ROOT)}


@pytest.mark.parametrize("name", LIMITS)
def test_a_fit_passes_few_files(name, monkeypatch):
    monkeypatch.setattr(rows, "cpu_count", lambda: 1)  # calls in other threads would not be seen
    files = walked(getattr(sfumato, name)(random_state=0), load_iris().data)
    assert len(files) <= LIMITS[name], sorted(files)
