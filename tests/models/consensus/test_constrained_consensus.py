"""Links and partial labels in a consensus."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from sfumato import ClusteringEnsemble, EvidenceAccumulation
from sfumato.metrics import adjusted_rand_index


def some_pairs(y, n, seed):
    pairs = np.random.default_rng(seed).integers(0, len(y), (n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def moons():
    return make_moons(200, noise=0.2, random_state=1)


def overlapping():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    return rng.normal(size=(200, 2)) + np.where(y, 1.2, -1.2)[:, None] * [1.0, 0.0], y


def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("data", [moons, overlapping, iris])
def test_a_few_dozen_pairs_help_and_are_honoured(data):
    X, y = data()
    k = len(np.unique(y))
    must, cannot = some_pairs(y, 60, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blind = EvidenceAccumulation(k, random_state=0).fit(X)
        told = EvidenceAccumulation(k, random_state=0).fit(X, must_link=must, cannot_link=cannot)
    U, labels = told.memberships_, told.labels_
    np.testing.assert_array_equal(U[must[:, 0]], U[must[:, 1]])
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    assert adjusted_rand_index(y, labels) > adjusted_rand_index(y, blind.labels_)
    np.testing.assert_allclose(told.predict_proba(X).sum(axis=1), 1)
    free = np.setdiff1d(np.arange(len(y)), np.concatenate([must, cannot]))
    assert np.mean(told.predict(X)[free] == labels[free]) > 0.9


def test_labelings_take_links_and_labels(blobs):
    X, truth = blobs
    L = ClusteringEnsemble(20, random_state=0).fit_transform(X)
    y = np.full(90, -1)
    y[[5, 40, 41, 80]] = [2, 0, 0, 1]
    model = EvidenceAccumulation(3, ensemble="precomputed", random_state=0)
    model.fit(L, y, must_link=[[5, 6]], cannot_link=[[6, 50]])
    np.testing.assert_array_equal(model.labels_[[5, 40, 41, 80]], [2, 0, 0, 1])
    assert adjusted_rand_index(truth, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict(L), model.labels_)


def test_weights_go_with_links(blobs):
    X, _ = blobs
    weights = np.ones(90)
    weights[[10, 70]] = 0.0
    kept = np.flatnonzero(weights)
    must, cannot = np.array([[0, 1], [40, 41]]), np.array([[0, 40]])
    model = EvidenceAccumulation(3, random_state=0).fit(
        X, sample_weight=weights, must_link=must, cannot_link=cannot
    )
    at = np.searchsorted(kept, must), np.searchsorted(kept, cannot)
    alone = EvidenceAccumulation(3, random_state=0).fit(X[kept], must_link=at[0], cannot_link=at[1])
    assert adjusted_rand_index(model.labels_[kept], alone.labels_) == 1.0


def test_contradictions_and_other_consensus_functions_are_named(blobs):
    X, _ = blobs
    model = EvidenceAccumulation(3, random_state=0)
    with pytest.raises(ValueError, match="rows 0 and 1"):
        model.fit(X, must_link=[[0, 1]], cannot_link=[[0, 1]])
    assert not hasattr(model, "memberships_")
    with pytest.raises(ValueError, match="cluster-kernel"):
        EvidenceAccumulation(3, consensus="average").fit(X, must_link=[[0, 1]])
