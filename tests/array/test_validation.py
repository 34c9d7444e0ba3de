"""Checks at the door."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sfumato import ClusteringEnsemble, FuzzyCMeans, GaussianMixture
from sfumato.array.labels import check_labelings, encode
from sfumato.array.validation import as_generator, check_choice, check_number, check_weights


@pytest.mark.parametrize(
    "model", [FuzzyCMeans(2, random_state=0), GaussianMixture(2, random_state=0)]
)
@pytest.mark.parametrize(
    "weights",
    [
        np.zeros(90),
        -np.ones(90),
        np.full(90, np.nan),
        np.ones(3),
        "x",
        np.full(90, 1e308),
        np.full(90, 1e-300),
        np.ones((90, 1)),
    ],
)
def test_impossible_weights_are_named(model, weights, blobs):
    with pytest.raises((ValueError, TypeError), match=r"(?i)sample.weight"):
        model.fit(blobs[0], sample_weight=weights)


def test_impossible_ensembles_are_named(blobs):
    for parameter, value in (
        ("algorithms", []),
        ("subsample", 0.0),
        ("n_members", 0),
    ):
        with pytest.raises((ValueError, TypeError), match=parameter):
            ClusteringEnsemble(**{parameter: value}).fit(blobs[0])


def test_numbers_and_choices():
    assert check_number(np.int64(3), "k", integer=True) == 3
    for value, error in ((True, TypeError), ("3", TypeError), (2.5, TypeError), (0, ValueError)):
        with pytest.raises(error, match="k must"):
            check_number(value, "k", low=1, integer=True)
    with pytest.raises(ValueError, match=r"solver must be one of 'a', 'b', got 'c'"):
        check_choice("c", "solver", ("a", "b"))


def test_generators():
    assert as_generator(3).integers(100) == as_generator(3).integers(100)
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator
    assert isinstance(as_generator(np.random.RandomState(0)), np.random.Generator)
    for bad in ("x", -1, 1.5):
        with pytest.raises(ValueError, match="random_state"):
            as_generator(bad)


def test_labelings_are_coded_column_by_column():
    L = check_labelings([["a", "x"], ["b", ""], [None, "x"]])
    np.testing.assert_array_equal(L, [[0, 0], [1, -1], [-1, 0]])
    np.testing.assert_array_equal(
        check_labelings(np.array([[7.0, -1], [np.nan, 5], [3, 5]])), [[1, -1], [-1, 0], [0, 0]]
    )
    nan = float("nan")
    np.testing.assert_array_equal(
        check_labelings([["a", nan], ["a", "x"], ["b", None]]), [[0, -1], [0, 0], [1, -1]]
    )
    np.testing.assert_array_equal(
        check_labelings(np.array([[1], [1.0], ["1"], [True], ["a"]], dtype=object))[:, 0],
        [0, 0, 0, 0, 1],
    )
    with pytest.raises(ValueError, match=r"got 0\.37"):
        check_labelings([[0.37], [1.0]])
    with pytest.raises(ValueError, match="every row as long"):
        check_labelings([[1, 2], [1]])
    masked = np.ma.array([[1, 2], [1, 3]], mask=[[0, 0], [0, 1]])
    np.testing.assert_array_equal(check_labelings(masked), [[0, 0], [0, -1]])
    with pytest.raises(ValueError, match="got inf"):
        check_labelings(np.array([[np.inf, 1.0]]))
    with pytest.raises(ValueError, match="one clustering per column"):
        check_labelings(np.zeros((3, 0)))


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3, -7, 1],
        [10**12, -5, 10**12],
        ["b", "a", "b"],
        [2.5, -1.0, 2.5],
        np.array(["b", "a", "b"], dtype=object),
        np.array([], dtype=int),
    ],
)
def test_codes_are_ranks_of_the_sorted_labels(labels):
    assert_array_equal(encode(labels), np.unique(labels, return_inverse=True)[1])


def test_labels_that_cannot_be_compared_are_coded_as_they_come():
    assert_array_equal(encode(np.array(["b", 1, None, "b"], dtype=object)), [0, 1, 2, 0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan, 1.0], "finite numbers, got nan for row 1: give such objects weight 0"),
        ([1.0, 1.0, np.inf], "finite numbers, got inf for row 2"),
        (np.zeros(3), "positive sum, got all zeros: give"),
        (np.ones(2), r"a weight for each of 3 objects, got \(2,\)"),
        (np.ones((3, 2)), r"a weight for each of 3 objects, got \(3, 2\)"),
        (list("abc"), "must hold a number for each of the objects"),
    ],
)
def test_bad_weights_are_named_with_a_fix(weights, message):
    with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
        check_weights(weights, np.ones((3, 2)))
