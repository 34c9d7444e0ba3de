import numpy as np
import pytest

from sfumato import metrics

MEASURES = [
    metrics.rand_index,
    metrics.adjusted_rand_index,
    metrics.pair_precision,
    metrics.pair_recall,
    metrics.pair_f1,
    metrics.pair_confusion,
    metrics.normalized_mutual_information,
    metrics.matched_accuracy,
    metrics.brier_score,
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_objects_that_were_not_seen_are_left_out(measure, rng):
    one, two = rng.integers(3, size=40), rng.integers(3, size=40)
    weights = rng.random(40)
    hidden = one.copy()
    hidden[:15] = -1
    expected = measure(one[15:], two[15:], sample_weight=weights[15:])
    np.testing.assert_allclose(measure(hidden, two, sample_weight=weights), expected)
    other = two.astype(float)
    other[:15] = -1
    np.testing.assert_allclose(measure(one, other, sample_weight=weights), expected)
    counted = measure(hidden, two, sample_weight=weights, missing="cluster")
    named = np.where(hidden == -1, 7, hidden)
    np.testing.assert_allclose(counted, measure(named, two, sample_weight=weights))


def test_memberships_beside_labels_with_gaps(rng):
    U = rng.dirichlet(np.ones(3), size=30)
    labels = rng.integers(3, size=30)
    hidden = np.where(np.arange(30) < 10, -1, labels)
    assert metrics.brier_score(hidden, U) == pytest.approx(metrics.brier_score(labels[10:], U[10:]))
    assert metrics.calibration_curve(hidden, U).error == pytest.approx(
        metrics.calibration_curve(labels[10:], U[10:]).error
    )


def test_what_cannot_be_compared_is_named():
    with pytest.raises(ValueError, match="missing must be one of"):
        metrics.rand_index([0, 1], [0, 1], missing="drop")
    with pytest.raises(ValueError, match="no object has a label in both"):
        metrics.rand_index([-1, 1], [0, -1])
    assert metrics.adjusted_rand_index([0, 0, 1, 1, -1], [1, 1, 0, 0, 0]) == 1.0
