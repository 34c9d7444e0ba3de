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
from sfumato.core.growth import first_sizes, more_sizes


def test_numbers_double_up_to_the_cap_while_the_best_is_near_the_largest():
    assert first_sizes(np.arange(200.0)[:, None]) == list(range(1, 10))
    assert first_sizes(np.arange(4.0)[:, None]) == [1, 2, 3, 4]
    assert first_sizes(np.arange(200.0)[:, None] % 3) == [1, 2, 3]
    assert more_sizes(3, 3, 200) == []
    assert more_sizes(8, 9, 200) == []
    assert more_sizes(9, 9, 200) == list(range(10, 19))
    assert more_sizes(18, 18, 200) == more_sizes(17, 18, 200) == list(range(19, 37))
    assert more_sizes(16, 18, 200) == more_sizes(35, 36, 200) == []
    assert more_sizes(9, 9, 36) == [10, 11, 12]
    assert more_sizes(4, 4, 4) == []


@pytest.mark.parametrize("largest, n", [(36, 200), (12, 36), (9, 12)])
def test_a_search_that_ends_at_the_cap_says_so(largest, n):
    with pytest.warns(EvidenceWarning, match=f"largest one tried, {largest}"):
        assert more_sizes(largest, largest, n) == []


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
    assert len(model.search_) == 18
    assert len(set(zip(truth, model.labels_, strict=True))) == 14


def test_a_search_that_grew_goes_on_with_the_best_families():
    rng = np.random.default_rng(0)
    angle = np.repeat(np.arange(10), 10) * np.pi / 5
    X = 12.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.5 * rng.normal(size=(100, 2))
    model = GaussianMixture("auto", random_state=0, n_init=1).fit(X)
    assert model.n_clusters_ == 10
    types = {row.covariance_type for row in model.search_ if row.n_clusters != 10}
    assert 1 <= len(types) <= 3
    assert {row.n_clusters for row in model.search_} == set(range(1, 19))
    whole = GaussianMixture(10, covariance_type=model.covariance_type_, random_state=0).fit(X)
    assert model.bic(X) == pytest.approx(whole.bic(X), abs=1e-2)
