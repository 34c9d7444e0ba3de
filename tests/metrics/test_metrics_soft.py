"""On memberships the measures equal the double loop over pairs, whatever the clusters are
called.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, silhouette_samples, silhouette_score

from sfumato import metrics
from sfumato.datasets import make_gaussians, make_memberships
from sfumato.memberships import harden, margin, one_hot

PAIR_MEASURES = [
    "rand_index",
    "adjusted_rand_index",
    "pair_precision",
    "pair_recall",
    "pair_f1",
    "brier_score",
]
COMPARISONS = [
    *PAIR_MEASURES,
    "matched_accuracy",
    "normalized_mutual_information",
    "adjusted_mutual_information",
]


def soft(seed, n=30, k=3, concentration=0.4):
    return make_memberships(n, k, concentration=concentration, random_state=seed)


def double_loop(V, U, w):
    """Every pair measure from its definition."""
    tp = fp = fn = tn = pp = qq = pairs = difference = 0.0
    for i in range(len(U)):
        for j in range(i):
            weight, p, q = w[i] * w[j], U[i] @ U[j], V[i] @ V[j]
            tp, fp, fn, tn = (
                tp + weight * p * q,
                fp + weight * p * (1 - q),
                fn + weight * (1 - p) * q,
                tn + weight * (1 - p) * (1 - q),
            )
            pp, qq, pairs, difference = (
                pp + weight * p * p,
                qq + weight * q * q,
                pairs + weight,
                difference + weight * (p - q) ** 2,
            )
    expected = (tp + fp) * (tp + fn) / pairs
    ratios = {
        "rand_index": (tp + tn, pairs),
        "adjusted_rand_index": (tp - expected, (pp + qq) / 2 - expected),
        "pair_precision": (tp, tp + fp),
        "pair_recall": (tp, tp + fn),
        "pair_f1": (2 * tp, 2 * tp + fp + fn),
        "brier_score": (difference, pairs),
    }
    return {name: above / below for name, (above, below) in ratios.items() if below > 1e-9}


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 15),
    st.integers(1, 4),
    st.integers(2, 5),
    st.booleans(),
    st.booleans(),
)
def test_pair_measures_equal_the_double_loop(seed, n, k, other, weighted, hard):
    U, V = soft(seed, n, other), soft(seed + 1, n, k)
    w = np.random.default_rng(seed).integers(1, 4, size=n).astype(float) if weighted else np.ones(n)
    reference = V.argmax(1) if hard else V
    V = one_hot(reference, k) if hard else V
    for name, expected in double_loop(V, U, w).items():
        value = getattr(metrics, name)(reference, U, sample_weight=w if weighted else None)
        assert value == pytest.approx(expected, abs=1e-10), name


def test_information_equals_its_definition():
    U, V = soft(0), soft(1, k=4)
    w = np.random.default_rng(0).random(30)
    P = np.einsum("i,ir,is->rs", w / w.sum(), V, U)
    r, c = P.sum(1), P.sum(0)
    shared = np.sum(P * np.log(P / np.outer(r, c)))
    expected = 2 * shared / -(np.sum(r * np.log(r)) + np.sum(c * np.log(c)))
    assert metrics.normalized_mutual_information(V, U, sample_weight=w) == pytest.approx(
        expected, abs=1e-12
    )


def test_soft_chance_information_meets_shuffling():
    U, V = soft(0, n=400, concentration=0.2), soft(1, n=400, concentration=0.2)
    rng = np.random.default_rng(0)
    values = [metrics.adjusted_mutual_information(V, U[rng.permutation(400)]) for _ in range(300)]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(300)
    labels = [harden(V), harden(U)]
    near = [0.999 * one_hot(a, 3) + 0.001 / 3 for a in labels]
    assert metrics.adjusted_mutual_information(*near) == pytest.approx(
        adjusted_mutual_info_score(*labels), abs=0.003
    )


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("side", [0, 1])
def test_names_of_clusters_do_not_matter(name, side):
    U, V = soft(3, k=4), soft(4)
    expected = getattr(metrics, name)(V, U)
    order = np.random.default_rng(0).permutation((V, U)[side].shape[1])
    renamed = (V[:, order], U) if side == 0 else (V, U[:, order])
    assert getattr(metrics, name)(*renamed) == pytest.approx(expected, abs=1e-13)
    assert getattr(metrics, name)(*renamed, interval=0.9).low == pytest.approx(
        getattr(metrics, name)(V, U, interval=0.9).low, abs=1e-12
    )


@pytest.mark.parametrize(
    "name", ["matched_accuracy", "normalized_mutual_information", "adjusted_mutual_information"]
)
@pytest.mark.parametrize("hard", [True, False])
def test_weights_are_copies(name, hard):
    U, V = soft(5), soft(6)
    if hard:
        U, V = harden(U), harden(V)
    w = np.random.default_rng(1).integers(0, 4, size=30)
    value = getattr(metrics, name)(V, U, sample_weight=w)
    assert value == pytest.approx(
        getattr(metrics, name)(np.repeat(V, w, axis=0), np.repeat(U, w, axis=0)), abs=1e-12
    )


@pytest.mark.parametrize("name", PAIR_MEASURES)
def test_pair_weights_of_zero_drop_objects_and_scale_does_not_matter(name):
    U, V = soft(5), soft(6)
    w = np.where(np.arange(30) < 20, 0.7, 0.0)
    value = getattr(metrics, name)(V, U, sample_weight=w)
    assert value == pytest.approx(getattr(metrics, name)(V[:20], U[:20]), abs=1e-12)
    assert value == pytest.approx(getattr(metrics, name)(V, U, sample_weight=w * 1e-6), abs=1e-12)


def test_a_soft_clustering_against_itself():
    U = soft(0)
    assert metrics.adjusted_rand_index(U, U) == pytest.approx(1, abs=1e-12)
    assert metrics.brier_score(U, U) == pytest.approx(0, abs=1e-12)
    assert metrics.rand_index(U, U) < 1
    vague = np.full((10, 4), 0.25)
    assert metrics.adjusted_rand_index(vague, vague) == 1
    assert metrics.adjusted_rand_index(vague, np.full((10, 2), 0.5)) == 0
    assert metrics.adjusted_rand_index(np.arange(10) % 2, vague) == 0
    assert metrics.adjusted_mutual_information(np.arange(10) % 2, vague) == pytest.approx(
        0, abs=1e-12
    )


def test_float32_memberships_are_summed_in_float64():
    U, V = soft(0, n=100_000), soft(1, n=100_000)
    exact = metrics.adjusted_rand_index(V, U)
    assert metrics.adjusted_rand_index(V.astype(np.float32), U.astype(np.float32)) == pytest.approx(
        exact, abs=1e-7
    )


def test_calibration_of_the_true_posterior():
    simulated = make_gaussians(700, 3, separation=2.0, random_state=0)
    curve = metrics.calibration_curve(simulated.labels, simulated.memberships, interval=0.95)
    assert curve.error < 0.03
    assert np.mean((curve.low <= curve.predicted) & (curve.predicted <= curve.high)) >= 0.7
    below, above = curve.observed - curve.low, curve.high - curve.observed
    assert 0.5 < below.mean() / above.mean() < 2  # both ends leave out as much
    sure = metrics.calibration_curve(simulated.labels, one_hot(harden(simulated.memberships)))
    assert sure.error > 5 * curve.error
    sampled = metrics.calibration_curve(simulated.labels, simulated.memberships, n_pairs=100_000)
    assert sampled.weight.sum() == 100_000
    np.testing.assert_allclose(sampled.observed, curve.observed, atol=0.03)


def test_calibration_equals_the_double_loop():
    U, V = soft(0, n=25), soft(1, n=25)
    w = np.random.default_rng(0).random(25)
    curve = metrics.calibration_curve(V, U, n_bins=5, sample_weight=w)
    sums = np.zeros((3, 5))
    for i in range(25):
        for j in range(i):
            p = U[i] @ U[j]
            sums[:, min(4, int(p * 5))] += w[i] * w[j] * np.array([1, p, V[i] @ V[j]])
    used = sums[0] > 0
    np.testing.assert_allclose(curve.weight, sums[0][used])
    np.testing.assert_allclose(curve.predicted, (sums[1] / sums[0])[used])
    np.testing.assert_allclose(curve.observed, (sums[2] / sums[0])[used])


def test_partition_coefficient_and_entropy():
    U = soft(0, k=4)
    w = np.random.default_rng(0).integers(0, 3, size=30)
    repeated = np.repeat(U, w, axis=0)
    assert metrics.partition_coefficient(U, sample_weight=w) == pytest.approx(
        np.mean(np.sum(repeated**2, axis=1))
    )
    assert metrics.partition_entropy(U, sample_weight=w) == pytest.approx(
        -np.mean(np.sum(repeated * np.log(repeated), axis=1))
    )
    vague = np.full((5, 4), 0.25)
    assert metrics.partition_coefficient(vague, normalized=True) == pytest.approx(0)
    assert metrics.partition_entropy(vague, normalized=True) == pytest.approx(1)
    assert metrics.partition_coefficient([0, 1, 0], normalized=True) == 1
    estimate = metrics.partition_coefficient(U, interval=0.9)
    assert estimate.low < float(estimate) < estimate.high


def test_xie_beni_equals_its_definition_and_never_prefers_coincident_centers():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(30, 2)), soft(0)
    centers = (U**2).T @ X / (U**2).sum(0)[:, None]
    spread = sum(
        U[i, r] ** 2 * np.sum((X[i] - centers[r]) ** 2) for i in range(30) for r in range(3)
    )
    gap = min(np.sum((centers[r] - centers[s]) ** 2) for r in range(3) for s in range(r))
    assert metrics.xie_beni(X, U) == pytest.approx(spread / (30 * gap))
    assert metrics.xie_beni(X + 5, U, centers=centers + 5) == pytest.approx(spread / (30 * gap))
    assert metrics.xie_beni(1e-9 * X, U) == pytest.approx(spread / (30 * gap))
    light = np.full(30, 1e-3)  # the unit of the weights does not matter, nor does an empty cluster
    assert metrics.xie_beni(X, U, sample_weight=light) == pytest.approx(spread / (30 * gap))
    assert metrics.xie_beni(X, np.c_[U, np.zeros(30)]) == pytest.approx(spread / (30 * gap))
    assert metrics.xie_beni(X, np.full((30, 3), 1 / 3)) == np.inf
    with pytest.raises(ValueError, match="at least two"):
        metrics.xie_beni(X, np.ones((30, 1)))


def test_fuzzy_silhouette_weighs_by_margin_and_copies():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(30, 2)), soft(0)
    values, margins = silhouette_samples(X, harden(U)), margin(U)
    assert metrics.fuzzy_silhouette(X, U) == pytest.approx(np.average(values, weights=margins))
    assert metrics.fuzzy_silhouette(X, U, exponent=0) == pytest.approx(np.mean(values))
    assert metrics.silhouette(X, U) == pytest.approx(silhouette_score(X, harden(U)))
    assert metrics.silhouette(X, harden(U)) == metrics.silhouette(X, U)
    w = rng.integers(1, 4, size=30)
    copies = metrics.fuzzy_silhouette(np.repeat(X, w, axis=0), np.repeat(U, w, axis=0))
    assert metrics.fuzzy_silhouette(X, U, sample_weight=w) == pytest.approx(copies, abs=1e-7)
    assert metrics.fuzzy_silhouette(X, np.ones((30, 1))) == 0


def test_input_is_not_written_to():
    U, V, w = soft(0), soft(1), np.ones(30)
    for array in (U, V, w):
        array.flags.writeable = False
    for name in COMPARISONS:
        getattr(metrics, name)(V, U, sample_weight=w, interval=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "rand_index",
        "adjusted_rand_index",
        "brier_score",
        "matched_accuracy",
        "normalized_mutual_information",
    ],
)
@pytest.mark.parametrize("hard", [True, False])
def test_interval_covers_the_population_value(name, hard):
    """Clusterings of objects drawn afresh from a large population, whose value is known."""
    rng = np.random.default_rng(0)
    population = make_gaussians(200_000, 3, separation=2.0, random_state=1)
    clustering = harden(population.memberships) if hard else population.memberships
    truth = getattr(metrics, name)(population.labels, clustering)
    inside = 0
    for trial in range(300):
        rows = rng.integers(200_000, size=150)
        estimate = getattr(metrics, name)(
            population.labels[rows], clustering[rows], interval=0.95, random_state=trial
        )
        inside += estimate.low <= truth <= estimate.high
    assert 0.90 <= inside / 300 <= 0.98


@pytest.mark.parametrize("weights", [[2, 2, 2, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
def test_a_silhouette_without_another_cluster_that_counts_is_zero(weights):
    X, labels = np.arange(12.0).reshape(6, 2), np.repeat([0, 1], 3)
    for clustering in (labels, np.eye(2)[labels]):
        assert metrics.fuzzy_silhouette(X, clustering, sample_weight=weights) == 0.0


@pytest.mark.parametrize("interval", [None, 0.9])
def test_calibration_of_one_object_that_counts_is_refused(interval):
    labels = np.repeat([0, 1], 3)
    with pytest.raises(ValueError, match="give two objects a sample_weight above 0"):
        metrics.calibration_curve(
            labels, np.eye(2)[labels], sample_weight=[0, 0, 0, 0, 0, 1], interval=interval
        )
