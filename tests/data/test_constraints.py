"""Pairs that belong together or apart, and partial labels."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons

from sfumato import (
    CompletelyPositiveFactorization,
    EvidenceWarning,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.data.constraints import Known, check_pairs, known_labels
from sfumato.metrics import adjusted_rand_index

MODELS = pytest.mark.parametrize("model", [PairwiseProbabilisticClustering, SpectralClustering])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 9]], "row number 9"),
        ([[1, 1]], "itself"),
        ([[0.5, 1]], "whole row numbers"),
        ([[0, 1, -2.0]], "positive"),
        ([[0, 1, 2, 3]], "must hold pairs"),
    ],
)
def test_bad_pairs_are_named(pairs, message):
    with pytest.raises(ValueError, match=message):
        check_pairs(pairs, 5, "must_link")
    with pytest.raises(TypeError, match="must_link"):
        check_pairs([["a", "b"]], 5, "must_link")


def test_contradictions_are_named():
    X = np.zeros((6, 2))
    with pytest.raises(ValueError, match="rows 0 and 2"):
        Known.of([[0, 1], [1, 2]], [[0, 2]], None, X, 2)
    y = np.array([0, 1, 0, -1, -1, -1])
    with pytest.raises(ValueError, match="whose labels in y differ"):
        Known.of([[0, 3], [3, 1]], None, y, X, 2)
    with pytest.raises(ValueError, match="labels in y"):
        Known.of(None, [[0, 2]], y, X, 2)
    with pytest.raises(ValueError, match="n_clusters=1"):
        Known.of(None, None, y, X, 1)


def test_labels_without_any_unknown_are_no_labels():
    assert known_labels(np.array([0, 1, 1]), 3, 2) is None
    assert known_labels(np.array([0.5, 1.2, -1]), 3, 2) is None
    np.testing.assert_array_equal(known_labels(["b", None, "a"], 3, 2), [1, -1, 0])


def test_similarities_of_links_are_their_weights_in_the_unit_of_the_evidence():
    known = Known.of([[0, 1, 0.5]], [[1, 2], [3, 4]], None, np.zeros((5, 2)), 3)
    expected = np.zeros((5, 5))
    for (i, j), value in {(0, 1): 0.5, (1, 2): -3.0, (3, 4): -3.0}.items():
        expected[i, j] = expected[j, i] = 7.0 * value
    found = known.similarities(None, 5, default=3.0, unit=7.0)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    group = np.array([0, 0, 1, 2, 1])  # of links within an object nothing is left
    found = known.similarities(group, 3, default=3.0, unit=7.0).toarray()
    off = ~np.eye(3, dtype=bool)
    expected = np.array([[0, -21.0, 0], [-21.0, 0, -21.0], [0, -21.0, 0]])
    np.testing.assert_allclose(found[off], expected[off], rtol=1e-12)


@MODELS
def test_must_links_share_memberships_and_cannot_links_part(model, blobs):
    X, y = blobs
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 90, (30, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    fitted = model(3, random_state=0).fit(X, must_link=pairs[same], cannot_link=pairs[~same])
    U = fitted.memberships_
    np.testing.assert_array_equal(U[pairs[same, 0]], U[pairs[same, 1]])
    apart = fitted.labels_[pairs[~same, 0]] != fitted.labels_[pairs[~same, 1]]
    assert apart.all()
    assert adjusted_rand_index(y, fitted.labels_) == 1.0
    assert fitted.predict(X).shape == (90,)


@MODELS
def test_a_few_dozen_constraints_help_on_moons(model):
    X, y = make_moons(300, noise=0.15, random_state=0)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 300, (40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blind = model(2, random_state=0).fit(X)
        told = model(2, random_state=0).fit(X, must_link=pairs[same], cannot_link=pairs[~same])
    plain, better = (adjusted_rand_index(y, m.labels_) for m in (blind, told))
    assert better > plain + 0.2


@MODELS
def test_labelled_objects_keep_their_cluster(model, blobs):
    X, truth = blobs
    y = np.full(90, -1)
    y[[5, 40, 41, 80]] = [2, 0, 0, 1]
    fitted = model(3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.labels_[[5, 40, 41, 80]], [2, 0, 0, 1])
    np.testing.assert_allclose(fitted.memberships_[[5, 40]].max(axis=1), 1)
    np.testing.assert_array_equal(fitted.labels_, np.array([2, 0, 1])[truth])
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)


def test_constraints_on_a_given_similarity(blobs):
    X, y = blobs
    W = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 20)
    for model in (PairwiseProbabilisticClustering, SpectralClustering):
        given = model(3, similarity="precomputed", random_state=0)
        fitted = given.fit(W, must_link=[[0, 1], [1, 2]], cannot_link=[[0, 50]])
        np.testing.assert_array_equal(fitted.memberships_[0], fitted.memberships_[2])
        assert fitted.labels_[0] != fitted.labels_[50]
        assert adjusted_rand_index(y, fitted.labels_) > 0.9
        np.testing.assert_array_equal(fitted.predict(W), fitted.labels_)


@MODELS
def test_links_that_no_labels_could_honour_are_counted(model, blobs):
    X, y = blobs
    rows = np.flatnonzero(y == 0)[:4]  # four rows, each apart from each, for three clusters
    pairs = np.array([(a, b) for a in rows for b in rows if a < b])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        labels = model(3, random_state=0).fit(X, cannot_link=pairs).labels_
    broken = int(np.sum(labels[pairs[:, 0]] == labels[pairs[:, 1]]))
    assert broken >= 1
    about = [each for each in said if "cannot_link" in str(each.message)]
    assert len(about) == 1
    assert about[0].category is EvidenceWarning
    assert f"for {broken} pair" in str(about[0].message)


def test_only_broken_cannot_links_are_warned_of():
    labels, X = np.array([0, 0, 1, 1]), np.zeros((4, 2))
    soft = [[0, 2, 1.0]]  # a pull together that the labels do not follow is no broken link
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Known().warn_of_broken(labels)
        Known.of(soft, [[0, 3], [1, 2]], None, X, 2).warn_of_broken(labels)
    known = Known.of(soft, [[0, 1, 2.0], [2, 3, 2.0], [1, 3, 2.0]], None, X, 2)
    with pytest.warns(EvidenceWarning, match="for 2 pairs, such as rows 0 and 1"):
        known.warn_of_broken(labels)
    with pytest.warns(EvidenceWarning, match="for 1 pair, such as rows 2 and 3"):
        Known.of(None, [[2, 3]], None, X, 2).warn_of_broken(labels)


@pytest.mark.parametrize("weight", [10.0, 1e4])
def test_spectral_clustering_honours_cannot_links_of_large_weight(weight):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 2)) + np.where(y, 1.2, -1.2)[:, None] * [1.0, 0.0]
    pairs = rng.integers(0, 200, (40, 2))
    pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]]
    apart = np.column_stack([pairs, np.full(len(pairs), weight)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blind = SpectralClustering(2, random_state=0).fit(X).labels_
        labels = SpectralClustering(2, random_state=0).fit(X, cannot_link=apart).labels_
    assert (blind[pairs[:, 0]] == blind[pairs[:, 1]]).any()
    assert (labels[pairs[:, 0]] != labels[pairs[:, 1]]).all()


def test_labels_that_were_probably_meant_are_not_ignored_silently():
    y = np.array([0, 1, -2, -2])
    with pytest.warns(EvidenceWarning, match="y is ignored: unknown labels are -1"):
        assert known_labels(y, 4, 2) is None


def test_missing_labels_are_unknown_in_every_model():
    y = np.array([0.0, 1.0, np.nan, np.nan])
    np.testing.assert_array_equal(known_labels(y, 4, 2), [0, 1, -1, -1])


def test_hard_links_are_not_told_to_be_harder():
    known = Known.of(None, [[0, 1], [1, 2], [0, 2]], None, np.ones((3, 1)), 2)
    with pytest.warns(
        EvidenceWarning, match="rows 0 and 2: no labels .* drop some of them, or ask for more"
    ):
        known.warn_of_broken(np.array([0, 1, 0]))
    soft = Known.of(None, [[0, 1, 2.0]], None, np.ones((3, 1)), 2)
    with pytest.warns(EvidenceWarning, match="give a larger weight"):
        soft.warn_of_broken(np.array([0, 0, 1]))


@pytest.mark.parametrize(
    "model",
    [
        SpectralClustering(3),
        PairwiseProbabilisticClustering(3),
        CompletelyPositiveFactorization(3),
    ],
)
def test_rows_without_weight_or_value_are_named(model):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="n_clusters=3 is more than the 2 of 30 rows"):
        model.fit(X, sample_weight=(np.arange(30) < 2).astype(float))
    X[7] = np.nan
    with pytest.raises(ValueError, match=r"no measured value in 1 row \(first: row 7\): drop it"):
        clone(model).set_params(similarity="knn").fit(X)


def test_features_whose_similarity_cannot_be_scaled():
    star = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    model = CompletelyPositiveFactorization(2, similarity=lambda X: star)
    with pytest.raises(ValueError, match=r"the similarity of X does not suit .*normalization=None"):
        model.fit(np.eye(3))
