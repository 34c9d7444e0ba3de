"""Partitions that saw no object: a resample, or a fold, may hold nothing else."""

import numpy as np
import pytest

from sfumato import EvidenceAccumulation

NAMES = ("cluster-kernel", "coassociation", "coassociation-likelihood", "single", "hgpa", "mcla")


def labelings(n_blank, n_telling=1):
    L = np.full((8, n_blank + n_telling), -1)
    L[:, :n_telling] = np.arange(8)[:, None] // 4
    return L


def made(n_clusters, name, **settings):
    return EvidenceAccumulation(
        n_clusters, ensemble="precomputed", consensus=name, random_state=0, **settings
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_resample_that_saw_nothing_is_uniform(name):
    model = made(2, name).fit(labelings(3))
    draws = list(model._membership_draws(12))
    np.testing.assert_allclose([draw.sum(axis=1) for draw in draws], 1.0)
    blank = [np.all(draw == 0.5) for draw in draws]
    assert any(blank)
    assert not all(blank)
    assert np.isfinite(model.cooccurrence_interval([(0, 1), (0, 7)], n_draws=12)).all()


@pytest.mark.filterwarnings("ignore")
def test_labelings_that_stand_in_rows_are_named():
    L = np.random.default_rng(0).integers(0, 3, (3, 100))
    with pytest.warns(UserWarning, match="100 labelings of 3 objects.*transpose"):
        made(2, "cluster-kernel").fit(L)
