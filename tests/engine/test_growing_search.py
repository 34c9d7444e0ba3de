"""Numbers of clusters that "auto" of the mixtures tries."""

import numpy as np
import pytest

from sfumato import (
    EvidenceWarning,
    FactorMixture,
    GaussianMixture,
    MixedMixture,
    StudentMixture,
)
from sfumato.datasets import make_gaussians
from sfumato.engine import mixture as growth
from sfumato.engine.mixture import first_sizes, groups_apart, more_sizes
from sfumato.metrics import adjusted_rand_index


def test_numbers_double_up_to_the_cap_while_the_best_is_the_largest():
    assert first_sizes(np.arange(200.0)[:, None]) == list(range(1, 10))
    assert first_sizes(np.arange(12.0)[:, None]) == [1, 2, 3, 4]  # three objects in each
    assert first_sizes(np.arange(4.0)[:, None]) == [1]
    few = np.array([0.5, 3.5, 0.0, 2.0])  # of four objects as of six copies
    assert first_sizes(np.arange(4.0)[:, None], weights=few) == [1, 2]
    assert first_sizes(np.arange(200.0)[:, None] % 3) == [1, 2, 3]
    assert more_sizes(3, range(1, 4), 200) == []
    assert more_sizes(8, range(1, 10), 200) == []
    assert more_sizes(9, range(1, 10), 200) == list(range(10, 19))
    assert more_sizes(18, range(1, 19), 200) == list(range(19, 37))
    assert more_sizes(9, range(1, 10), 36) == [10, 11, 12]
    assert more_sizes(4, range(1, 5), 4) == []


def test_numbers_below_a_suggested_one_are_tried_too():
    tried = [*range(1, 10), 15, 16, 17]
    assert more_sizes(15, tried, 400) == [12, 13, 14]
    assert more_sizes(14, [*tried, 12, 13, 14], 400) == []
    assert more_sizes(16, tried, 400) == []
    assert more_sizes(15, [15, 16, 17], 400) == []  # there are as many known labels
    assert more_sizes(11, [*range(1, 10), 11, 12, 13], 400) == [10]


@pytest.mark.parametrize("largest, n", [(36, 200), (12, 36), (9, 12)])
def test_a_search_that_ends_at_the_cap_says_so(largest, n):
    with pytest.warns(EvidenceWarning, match=f"largest one tried, {largest}"):
        assert more_sizes(largest, range(1, largest + 1), n) == []


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture("auto", covariance_type="spherical", n_init=1),
        StudentMixture("auto", covariance_type="spherical", n_init=3, tol=1e-5),
        FactorMixture("auto", n_factors=1, n_init=2),
        MixedMixture("auto", n_init=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_fourteen_groups_are_found(model):
    rng = np.random.default_rng(0)
    centers = 12.0 * rng.permutation(np.stack(np.divmod(np.arange(16), 4), axis=1))[:14]
    truth = np.repeat(np.arange(14), 25)
    X = centers[truth] + rng.normal(size=(len(truth), 2))
    model.set_params(random_state=0).fit(X)
    assert model.n_clusters_ == 14
    assert 15 <= max(row.n_clusters for row in model.search_) <= 18
    assert len(set(zip(truth, model.labels_, strict=True))) == 14


def test_a_search_that_grew_goes_on_with_the_best_families():
    rng = np.random.default_rng(0)
    angle = np.repeat(np.arange(10), 10) * np.pi / 5
    X = 12.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.5 * rng.normal(size=(100, 2))
    model = GaussianMixture("auto", random_state=0, n_init=1).fit(X)
    assert model.n_clusters_ == 10
    types = {row.covariance_type for row in model.search_ if row.n_clusters > 10}
    assert 1 <= len(types) <= 3
    assert {row.n_clusters for row in model.search_} == set(range(1, 19))
    whole = GaussianMixture(10, covariance_type=model.covariance_type_, random_state=0).fit(X)
    assert model.bic(X) == pytest.approx(whole.bic(X), abs=1e-2)


def test_the_search_begins_with_the_number_of_groups_that_stand_apart():
    X, _, labels = make_gaussians(1200, 24, n_features=8, separation=8, random_state=0)
    apart = groups_apart(X, None, 36)
    assert 19 <= apart <= 25
    wanted = [*range(1, 10), *range(apart - 1, apart + 2)]
    assert first_sizes(X) == wanted
    assert first_sizes(np.repeat(X, 1 + np.arange(1200) % 2, axis=0)) == wanted
    assert first_sizes(1e200 * X, 9, np.ones(1200)) == wanted
    model = GaussianMixture("auto", random_state=0).fit(X)
    assert model.n_clusters_ == 24
    assert adjusted_rand_index(labels, model.labels_) > 0.99


def test_noise_and_few_groups_suggest_no_other_numbers():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(500, 4)), rng.random((300, 2)), rng.standard_t(3, (400, 3))):
        assert first_sizes(X) == list(range(1, 10))
    holes = make_gaussians(400, 4, separation=8, random_state=0).evidence.copy()
    holes[::3, 0] = np.nan
    assert groups_apart(holes, None, 36) == 4
    holes[:, 1] = np.nan
    assert groups_apart(holes, None, 36) == 1


@pytest.mark.parametrize("covariance_type", ["spherical", "auto"])
def test_numbers_below_a_suggested_one_are_fitted(covariance_type, monkeypatch):
    monkeypatch.setattr(growth, "groups_apart", lambda *_: 16)
    X, _, labels = make_gaussians(420, 14, n_features=4, separation=9, random_state=0)
    model = GaussianMixture("auto", covariance_type=covariance_type, random_state=0).fit(X)
    assert model.n_clusters_ == 14
    assert {12, 13, 14, 15, 16, 17} <= {row.n_clusters for row in model.search_}
    assert len({tuple(row.setting.items()) for row in model.search_}) == len(model.search_)
