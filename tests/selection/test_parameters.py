"""Bootstrap intervals of parameters against what theory says of them."""

import numpy as np
import pytest

from sfumato import EvidenceWarning, GaussianMixture, MixedMixture, SpectralClustering
from sfumato.selection import parameter_intervals


def groups(n=100, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0, 1, (n, 1)), rng.normal(9, 2, (3 * n, 1))])


@pytest.mark.parametrize("method", ["nonparametric", "weighted"])
def test_standard_errors_of_separate_groups_are_the_textbook_ones(method):
    X = groups(40)
    mixture = GaussianMixture(2, covariance_type="full", n_init=1)
    found = parameter_intervals(mixture, X, 40, method=method, random_state=0)
    order = np.argsort(found.values["means"][:, 0])
    errors = {name: value[order].ravel() for name, value in found.standard_errors.items()}
    means = [X[:40].std() / np.sqrt(40), X[40:].std() / np.sqrt(120)]
    np.testing.assert_allclose(errors["means"], means, rtol=0.35)
    np.testing.assert_allclose(errors["weights"], np.sqrt(0.25 * 0.75 / 160), rtol=0.35)
    draws = found.draws["means"]
    variance = ((draws - draws.mean(axis=0)) ** 2).sum(axis=0) / (len(draws) - 1)
    np.testing.assert_allclose(found.standard_errors["means"], np.sqrt(variance), rtol=1e-12)
    value, low, high = found.intervals(0.9)["means"]
    assert (low < value).all()
    assert (value < high).all()


def test_clusters_are_matched_before_they_are_compared():
    X = groups(40)
    found = parameter_intervals(
        MixedMixture(2, n_init=1), np.where(X > 4, X, -X), 15, random_state=1
    )
    assert set(found.values) == {"weights", "0 mean", "0 standard_deviation"}
    assert found.standard_errors["0 mean"].max() < 0.6


def test_shared_covariances_noise_and_weights():
    X = np.column_stack([groups(30), groups(30, seed=1)])
    tied = parameter_intervals(
        GaussianMixture(2, covariance_type="tied", n_init=1),
        X,
        4,
        sample_weight=np.full(len(X), 2.0),
        random_state=0,
    )
    assert tied.draws["covariances"].shape[0] == 4
    noisy = parameter_intervals(
        GaussianMixture(2, covariance_type="tied", noise_cluster=0.05, n_init=1),
        X,
        3,
        random_state=0,
    )
    assert noisy.draws["weights"].shape == (3, 3)
    assert noisy.draws["means"].shape == (3, 2, 2)


def test_what_is_chosen_by_the_fit_holds_for_the_resamples():
    found = parameter_intervals(MixedMixture(range(1, 4), n_init=1), groups(40), 4, random_state=0)
    assert found.estimator.n_clusters_ == 2
    assert found.draws["weights"].shape == (4, 2)


def test_data_frames():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["x", "y"], 40), "b": rng.poisson(3, 40)})
    found = parameter_intervals(MixedMixture(1), table, 5, random_state=0)
    assert set(found.values) == {"weights", "a x", "a y", "b rate"}
    assert found.standard_errors["b rate"][0] == pytest.approx(np.sqrt(3 / 40), rel=0.8)


def test_refusals():
    with pytest.raises(ValueError, match="method"):
        parameter_intervals(MixedMixture(2), groups(), method="jackknife")
    with pytest.raises(ValueError, match="n_resamples"):
        parameter_intervals(MixedMixture(2), groups(), 1)
    with pytest.raises(TypeError, match="publishes no parameters"):
        parameter_intervals(SpectralClustering(2), groups(10))


@pytest.mark.parametrize("wrong", [None, "a", GaussianMixture])
def test_what_is_no_estimator_is_named(wrong):
    with pytest.raises(TypeError, match="estimator must be an estimator such as"):
        parameter_intervals(wrong, np.ones((20, 2)))


def test_too_few_resamples_for_the_ends_of_an_interval_are_named():
    X = np.random.default_rng(0).normal(size=(60, 1)) + 8.0 * (np.arange(60) % 2)[:, None]
    mixture = GaussianMixture(2, covariance_type="tied", n_init=1)
    found = parameter_intervals(mixture, X, n_resamples=4, random_state=0)
    with pytest.warns(EvidenceWarning, match="n_resamples=4 draws.*at least 39"):
        found.intervals(0.95)
    found.intervals(0.6)
