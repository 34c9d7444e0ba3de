"""How many files a reader passes who follows a fit of iris with the defaults from call to call.

A file counts if one of its functions is called, in whatever thread; imports alone do not, nor do
native modules, which have no Python to follow. The limits hold what has been reached:
they only ever go down.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import sfumato
from sfumato.array import rows

ROOT = Path(sfumato.__file__).parent
LIMITS = {
    "GaussianMixture": 14,
    "EvidenceAccumulation": 27,
    "FuzzyCMeans": 19,
    "PairwiseProbabilisticClustering": 25,
}


def walked(fit: Callable[[], object]) -> list[str]:
    """Files below ``sfumato`` in which functions are called during a fit."""
    fit()  # what is loaded once is no part of the walk
    profile = cProfile.Profile(builtins=False)
    profile.runcall(fit)
    codes = (entry.code for entry in profile.getstats() if not isinstance(entry.code, str))
    paths = {Path(code.co_filename) for code in codes if code.co_name != "<module>"}
    return sorted(str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT))


@pytest.mark.parametrize("name", LIMITS)
def test_a_fit_passes_few_files(name, monkeypatch):
    monkeypatch.setattr(rows, "cpu_count", lambda: 1)  # calls in other threads would not be seen
    model, X = getattr(sfumato, name)(random_state=0), load_iris().data
    files = walked(lambda: model.fit(X))
    assert len(files) <= LIMITS[name], files
