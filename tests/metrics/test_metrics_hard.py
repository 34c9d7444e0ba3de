"""On labels every measure is the classical one."""

import numpy as np
import pytest
import sklearn.metrics as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix

from sfumato import metrics
from sfumato.memberships import one_hot


@st.composite
def two_labelings(draw):
    n = draw(st.integers(1, 40))
    k = draw(st.sampled_from([1, 2, 3, 5, n]))
    other = draw(st.sampled_from([1, 2, 4, n]))
    first = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    second = draw(st.lists(st.integers(0, other - 1), min_size=n, max_size=n))
    if draw(st.booleans()):
        second = list(range(n))
    return np.array(first), np.array(second)


def peers(a, b):
    (tn, fp), (fn, tp) = pair_confusion_matrix(a, b)
    table = contingency_matrix(a, b)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {
        "rand_index": peer.rand_score(a, b),
        "adjusted_rand_index": peer.adjusted_rand_score(a, b),
        "normalized_mutual_information": peer.normalized_mutual_info_score(a, b),
        "adjusted_mutual_information": peer.adjusted_mutual_info_score(a, b),
        "pair_precision": tp / (tp + fp) if tp + fp else 1.0,
        "pair_recall": tp / (tp + fn) if tp + fn else 1.0,
        "pair_f1": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 1.0,
        "brier_score": (fp + fn) / (tp + tn + fp + fn) if len(a) > 1 else 0.0,
        "matched_accuracy": table[rows, columns].sum() / len(a),
    }


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_all_equal_scikit_learn():
    @settings(max_examples=200)
    @given(two_labelings())
    def check(pair):
        a, b = pair
        for name, expected in peers(a, b).items():
            assert getattr(metrics, name)(a, b) == pytest.approx(expected, abs=1e-12), name
        np.testing.assert_array_equal(2 * metrics.pair_confusion(a, b), pair_confusion_matrix(a, b))

    check()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0], [0]),
        ([0] * 6, [0] * 6),
        (range(6), range(6)),
        ([0] * 6, range(6)),
        ([0, 0, 1, 1], [0, 1, 0, 1]),
        ([3, 3, 7], [1, 2, 2]),
    ],
    ids=[
        "one object",
        "one cluster",
        "singletons",
        "one against singletons",
        "independent",
        "gaps in the names",
    ],
)
def test_degenerate_cases_equal_scikit_learn(first, second):
    a, b = np.array(first), np.array(second)
    for name, expected in peers(a, b).items():
        assert getattr(metrics, name)(a, b) == pytest.approx(expected, abs=1e-12), name


def test_labels_of_any_kind():
    names = np.array(["x", "y", "x", "z"])
    for labels in (
        names,
        names.astype(object),
        list(names),
        np.array([-1, 5, -1, 8]),
        np.array([0.5, 1.0, 0.5, 9.0]),
    ):
        assert metrics.adjusted_rand_index(labels, [0, 1, 0, 2]) == 1
    mixed = np.array(["a", 1, "a", None], dtype=object)
    assert metrics.rand_index(mixed, [0, 1, 0, 2]) == 1


def test_silhouette_equals_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    labels = rng.integers(4, size=80)
    labels[0] = 9
    assert metrics.fuzzy_silhouette(X, labels) == pytest.approx(
        peer.silhouette_score(X, labels), abs=1e-12
    )
    assert metrics.fuzzy_silhouette(X, one_hot(labels)) == pytest.approx(
        peer.silhouette_score(X, labels), abs=1e-12
    )


def test_a_million_objects_do_not_overflow():
    n = 1_000_000
    rng = np.random.default_rng(0)
    a = rng.integers(3, size=n)
    b = np.where(rng.random(n) < 0.9, a, rng.integers(3, size=n))
    assert metrics.adjusted_rand_index(a, b) == pytest.approx(
        peer.adjusted_rand_score(a, b), abs=1e-12
    )
    assert metrics.rand_index(a, b) == pytest.approx(peer.rand_score(a, b), abs=1e-12)
    lonely = np.zeros(n, dtype=int)
    lonely[0] = 1
    assert metrics.adjusted_rand_index(lonely, lonely) == 1
    assert metrics.adjusted_rand_index(np.arange(n), np.arange(n)) == 1
    assert metrics.adjusted_rand_index(lonely, a) == pytest.approx(
        peer.adjusted_rand_score(lonely, a), abs=1e-12
    )


@pytest.mark.parametrize(
    "name",
    [
        "rand_index",
        "adjusted_rand_index",
        "matched_accuracy",
        "normalized_mutual_information",
        "brier_score",
    ],
)
def test_bad_input_is_named(name):
    measure = getattr(metrics, name)
    with pytest.raises(ValueError, match="same objects, got 2 and 3"):
        measure([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="reference .* NaN"):
        measure([0.0, np.nan], [0, 1])
    with pytest.raises(ValueError, match="clustering must have nonnegative rows"):
        measure([0, 1], [[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match="masked"):
        measure(np.ma.array([0, 1], mask=[True, False]), [0, 1])
    with pytest.raises(ValueError, match="sample_weight"):
        measure([0, 1], [0, 1], sample_weight=[1.0, -1.0])
    with pytest.raises(ValueError, match="interval must be a level"):
        measure([0, 1], [0, 1], interval=95)


def test_objects_without_weight_leave_no_trace_in_an_interval():
    a, b = np.arange(40) % 2, np.where(np.arange(40) < 20, np.arange(40) % 2, 0)
    weights = (np.arange(40) < 20).astype(float)  # of the objects on which both agree
    found = metrics.rand_index(a, b, sample_weight=weights, interval=0.9)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert metrics.rand_index(a, b, interval=0.9).high < 1.0
