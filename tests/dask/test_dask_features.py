"""Blocks of rows on the workers."""

import pickle

import numpy as np
import pytest

pytest.importorskip("dask.array")
pytest.importorskip("distributed")

from sfumato.dask._features import _Kept, _packed, _results


def test_kept_rows_are_made_again_on_another_worker():
    """A block that moves takes its view along and gives the same sums."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(600, 3)), rng.random(600)
    kept = _Kept(_packed((lambda block: 2.0 * block, None)), X, weights)
    moved = pickle.loads(pickle.dumps(kept))
    sums = _packed((lambda block, w: ((w[:, None] * block).sum(axis=0),),))
    for (found,) in _results(sums, "sum", [kept, moved]):
        np.testing.assert_allclose(found, 2 * weights @ X)
