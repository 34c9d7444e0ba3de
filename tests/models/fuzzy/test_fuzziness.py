"""The fuzzifier chosen from the data."""

import warnings
from itertools import cycle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import adjusted_rand_score

from sfumato import FuzzyCMeans
from sfumato.array.warn import EvidenceWarning
from sfumato.datasets import make_gaussians
from sfumato.models.fuzzy import kernel
from sfumato.models.fuzzy import kernel as fuzziness

X, _, LABELS = make_gaussians(600, 4, n_features=8, separation=7, random_state=0)


def slow(X, labels, weights=None, whiten=False):
    """1 / (1 - 2 l) by loops over objects, around the means of true clusters."""
    weights = np.ones(len(X)) if weights is None else weights
    R = np.empty(X.shape)
    for j in np.unique(labels):
        own = labels == j
        R[own] = X[own] - np.average(X[own], axis=0, weights=weights[own])
    if whiten:
        scatter = sum(w * np.outer(r, r) for w, r in zip(weights, R, strict=True)) / weights.sum()
        R = R @ np.linalg.inv(np.linalg.cholesky(scatter)).T
    F = sum(w * np.outer(r, r) / (r @ r) for w, r in zip(weights, R, strict=True)) / weights.sum()
    return 1.0 / (1.0 - 2.0 * np.linalg.eigvalsh(F)[-1])


def test_it_is_the_bound_within_clusters():
    assert FuzzyCMeans(4).fit(X).fuzzifier_ == pytest.approx(slow(X, LABELS), rel=1e-6)
    full = FuzzyCMeans(4, metric="mahalanobis", random_state=0).fit(X)
    assert full.fuzzifier_ == pytest.approx(slow(X, LABELS, whiten=True), rel=1e-6)


@pytest.mark.parametrize("excess", [-0.02, 0.02])
def test_two_centers_of_one_cloud_part_only_below_the_bound(rng, excess):
    cloud = rng.normal(size=(500, 6)) * [1.4, 1.2, 1, 1, 1, 1]
    cloud -= cloud.mean(axis=0)
    unit = cloud / np.linalg.norm(cloud, axis=1)[:, None]
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    m = fuzziness.fuzzifier_of(values[-1]) + excess
    assert 1.0 < m < 2.0
    apart = 1e-4 * vectors[:, -1]
    state = kernel.State(np.stack([apart, -apart]))
    Z = kernel.distances.features(cloud.T, "spherical")
    moved = kernel.update(kernel.summarize(Z, None, kernel.ready(state, kernel.Rule(m))), state)
    factor = np.linalg.norm(moved.centers[0] - moved.centers[1]) / (2 * 1e-4)
    assert factor == pytest.approx(2 * m * values[-1] / (m - 1), rel=1e-3)
    assert (factor < 1.0) == (excess > 0)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4), st.integers(2, 40))
def test_it_lies_between_the_value_of_round_clusters_and_two(seed, d, k, n):
    rng = np.random.default_rng(seed)
    cloud = rng.normal(size=(n, d)) * rng.gamma(1.0, size=d)
    m = fuzziness.choose(cloud - cloud.mean(axis=0), rng.gamma(1.0, size=n), k)
    assert fuzziness.least(d) - 1e-9 <= m <= 2.0


def test_units_rotations_and_offsets_do_not_matter(rng):
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    moved = FuzzyCMeans(4, random_state=1).fit(1e3 * X @ turn + 50.0)
    assert moved.fuzzifier_ == pytest.approx(FuzzyCMeans(4).fit(X).fuzzifier_, rel=1e-6)


def test_few_features_keep_the_classical_value():
    iris = load_iris().data
    auto = FuzzyCMeans(3, random_state=0).fit(iris)
    assert auto.fuzzifier_ == 2.0
    np.testing.assert_array_equal(
        auto.memberships_, FuzzyCMeans(3, fuzzifier=2.0, random_state=0).fit(iris).memberships_
    )


@pytest.mark.parametrize("n", [1000, 20_000])
def test_many_features_are_clustered(n):
    blobs, _, labels = make_gaussians(n, 10, n_features=16, separation=6, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="some of the")
        model = FuzzyCMeans(10, random_state=0).fit(blobs)
    assert 16 / 14 < model.fuzzifier_ < 1.3
    assert adjusted_rand_score(labels, model.labels_) > 0.98
    assert model.memberships_.max(axis=1).mean() > 0.9


def test_digits_are_clustered():
    digits = load_digits()
    model = FuzzyCMeans(10, random_state=0).fit(digits.data)
    assert adjusted_rand_score(digits.target, model.labels_) > 0.6


@pytest.mark.parametrize(("d", "k"), [(6, 3), (16, 3), (16, 8), (50, 4)])
def test_noise_stays_vague_and_is_named(rng, d, k):
    with pytest.warns(EvidenceWarning, match="centers coincide"):
        model = FuzzyCMeans(k, random_state=0).fit(rng.normal(size=(1000, d)))
    assert model.memberships_.max(axis=1).mean() < 1.0 / k + 0.1


def test_many_centers_that_differ_are_not_said_to_coincide(rng):
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvidenceWarning)
        FuzzyCMeans(400, init=grid, max_iter=3, tol=1.0).fit(
            np.repeat(grid, 5, axis=0) + rng.normal(0, 0.2, size=(2000, 2))
        )


def test_every_form_of_the_data_gives_the_same():
    reference = FuzzyCMeans(4, random_state=0).fit(X)
    weights = np.random.default_rng(0).integers(1, 4, size=len(X))
    copies = FuzzyCMeans(4, random_state=0).fit(np.repeat(X, weights, axis=0)).fuzzifier_
    weighted = FuzzyCMeans(4, random_state=0).fit(X, sample_weight=weights).fuzzifier_
    assert weighted == pytest.approx(copies, rel=1e-9)
    assert weighted == pytest.approx(slow(X, LABELS, weights.astype(float)), rel=1e-6)
    single = FuzzyCMeans(4, random_state=0).fit(X.astype(np.float32)).fuzzifier_
    assert single == pytest.approx(reference.fuzzifier_, rel=1e-5)
    sparse = FuzzyCMeans(4, random_state=0).fit(sp.csr_array(X)).fuzzifier_
    assert sparse == pytest.approx(reference.fuzzifier_, rel=1e-6)
    linked = FuzzyCMeans(4, random_state=0).fit(X, must_link=[[0, 1]]).fuzzifier_
    assert linked == pytest.approx(reference.fuzzifier_, rel=1e-6)


def test_missing_values_are_left_out(rng):
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    model = FuzzyCMeans(4, random_state=0).fit(gaps)
    assert 8 / 6 < model.fuzzifier_ < 1.6
    assert adjusted_rand_score(LABELS, model.labels_) > 0.95


def test_kernels_use_it():
    linear = FuzzyCMeans(4, metric=lambda A, B: A @ B.T, random_state=0).fit(X - X.mean(axis=0))
    assert linear.fuzzifier_ == pytest.approx(slow(X, LABELS), rel=1e-6)


def test_batches_keep_that_of_the_first():
    model = FuzzyCMeans(4, random_state=0).partial_fit(X[:300])
    first = model.fuzzifier_
    assert first == FuzzyCMeans(4, random_state=0).fit(X[:300]).fuzzifier_
    assert model.partial_fit(X[300:]).fuzzifier_ == first
    assert adjusted_rand_score(LABELS[300:], model.labels_) > 0.95


def test_a_number_is_kept_and_entropy_has_none():
    assert FuzzyCMeans(4, fuzzifier=3, random_state=0).fit(X).fuzzifier_ == 3.0
    assert FuzzyCMeans(4, entropy=0.1, random_state=0).fit(X).fuzzifier_ is None
    assert clone(FuzzyCMeans(4)).get_params()["fuzzifier"] == "auto"


def test_equal_objects_and_other_words():
    with pytest.warns(EvidenceWarning, match="coincide"):
        assert FuzzyCMeans(2).fit(np.ones((30, 8))).fuzzifier_ == 2.0
    with pytest.raises(ValueError, match="fuzzifier .*'auto'.*got 'soft'"):
        FuzzyCMeans(2, fuzzifier="soft").fit(X)
    with pytest.raises(TypeError, match="fuzzifier must be a number"):
        FuzzyCMeans(2, fuzzifier=None).fit(X)


@pytest.mark.parametrize("order", [1, -1])
def test_a_start_that_joins_two_clusters_does_not_count_beside_a_better_one(monkeypatch, order):
    runs = cycle([LABELS, np.where(LABELS == 3, 2, LABELS)][::order])
    monkeypatch.setattr(fuzziness.seeding, "kmeans_plus_plus", lambda *_, **__: None)
    monkeypatch.setattr(fuzziness.seeding, "lloyd", lambda *_: next(runs))
    found = fuzziness._residuals(X, np.ones(len(X)), 4, np.inf)
    means = np.stack([X[j == LABELS].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(found, X - means[LABELS], atol=1e-12)
