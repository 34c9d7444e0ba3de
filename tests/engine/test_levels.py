"""Levels nest, whatever the memberships, and do not depend on the order of the objects."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import FuzzyCMeans, GaussianMixture
from sfumato.engine.levels import local_maxima, merged, own_scores, products, refine, regroup


def draw(seed, n, k, sharpness):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, sharpness), size=n)


def slow_merges(U):
    """The definition: of all pairs of columns, merge the one of largest cosine; a list of U."""
    found = [U]
    while found[-1].shape[1] > 1:
        V = found[-1]
        pairs = [(r, s) for r in range(V.shape[1]) for s in range(r + 1, V.shape[1])]

        def overlap(pair, V=V):
            a, b = V[:, pair[0]], V[:, pair[1]]
            return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))

        r, s = max(pairs, key=overlap)
        V = V.copy()
        V[:, r] += V[:, s]
        found.append(np.delete(V, s, axis=1))
    return found


@given(
    st.integers(0, 2**32 - 1), st.integers(3, 40), st.integers(1, 8), st.sampled_from([0.1, 1, 9])
)
@settings(max_examples=60)
def test_merging_is_that_of_the_definition(seed, n, k, sharpness):
    U = draw(seed, n, k, sharpness)
    maps = merged(products(U, U, None))
    for place, expected in zip(maps, slow_merges(U), strict=True):
        np.testing.assert_allclose(regroup(U, place), expected, atol=1e-12)
    order = np.random.default_rng(seed).permutation(n)
    again = merged(products(U[order], U[order], None))
    for one, other in zip(maps, again, strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.integers(1, 5), st.integers(1, 8))
@settings(max_examples=60)
def test_parts_sum_to_their_cluster(seed, n, k, fine):
    U, V = draw(seed, n, k, 0.3), draw(seed + 1, n, fine, 0.3)
    V[0] = np.eye(fine)[0]  # whose other memberships are zero
    found = refine(None, U, V, None, False)
    W = found.memberships(U, V)
    assert set(found.parents.tolist()) == set(range(k))
    assert (W >= 0).all()
    np.testing.assert_allclose(regroup(W, found.parents), U, atol=1e-12)
    for place in merged(products(W, W, None), found.parents)[: W.shape[1] - k + 1]:
        # The clusters of the answer do not merge before all their parts have.
        for column in range(place.max() + 1):
            assert len(set(found.parents[place == column].tolist())) == 1


def test_a_weight_is_so_many_copies():
    U = draw(0, 30, 5, 0.5)
    weights = np.random.default_rng(1).integers(0, 4, 30)
    copies = np.repeat(U, weights, axis=0)
    one, other = merged(products(U, U, weights)), merged(products(copies, copies, None))
    np.testing.assert_array_equal(one, other)
    left, right = own_scores(U, one, weights), own_scores(copies, other, None)
    np.testing.assert_allclose(list(left.values()), list(right.values()), atol=1e-9)


def test_blocks_in_blocks_show_both_numbers():
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [6, 0], [40, 0], [46, 0], [0, 40], [6, 40]], dtype=float)
    X = np.repeat(centers, 40, axis=0) + rng.normal(size=(240, 2))
    model = GaussianMixture(6, covariance_type="spherical", random_state=0).fit(X)
    shown = [level.n_clusters for level in model.levels_ if level.shown]
    assert 3 in shown
    three = model.at(3).argmax(axis=1)
    assert len({(a, b) for a, b in zip(three, np.repeat([0, 1, 2], 80), strict=True)}) == 3


def test_empty_columns_merge_first_and_ties_go_to_the_first():
    U = np.zeros((4, 3))
    U[:2, 0] = U[2:, 2] = 1.0
    np.testing.assert_array_equal(regroup(U, merged(products(U, U, None))[1]), U[:, [0, 2]])
    hard = np.eye(3)[[0, 1, 2]]
    np.testing.assert_array_equal(merged(products(hard, hard, None))[1], [0, 0, 1])


def test_noise_is_no_cluster_to_merge_with(blobs):
    X = np.vstack([blobs[0], [[50.0, 50.0], [-50.0, 30.0]]])
    model = FuzzyCMeans(3, noise_cluster=0.5, random_state=0).fit(X)
    assert [level.n_clusters for level in model.levels_] == [2, 3, 4]
    np.testing.assert_array_equal(model.at(2)[:, 1], model.memberships_[:, 3])
    with pytest.raises(ValueError, match="n_clusters must be between 2 and 4.*got 1"):
        model.at(1)


def test_finer_levels_go_with_a_saved_model_once_they_were_looked_at(blobs):
    model = GaussianMixture(random_state=0).fit(blobs[0])
    early = pickle.loads(pickle.dumps(model))
    finest = len(model.levels_)
    assert finest > model.n_clusters_ == 3
    late = pickle.loads(pickle.dumps(model))
    assert late.levels_ == model.levels_
    np.testing.assert_array_equal(late.at(finest), model.at(finest))
    new = blobs[0][:5] + 0.1
    np.testing.assert_array_equal(
        late.predict_proba(new, n_clusters=finest), model.predict_proba(new, n_clusters=finest)
    )
    np.testing.assert_array_equal(early.at(2), model.at(2))
    with pytest.raises(ValueError, match=f"got {finest}.*looked at before"):
        early.at(finest)


def test_weights_steer_levels_of_a_loaded_model_too(blobs):
    weights = np.random.default_rng(0).random(90) * [[10, 1, 0.1][i // 30] for i in range(90)]
    model = FuzzyCMeans(5, random_state=0).fit(blobs[0], sample_weight=weights)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.at(3), model.at(3))


def test_single_precision_stays(blobs):
    model = GaussianMixture(random_state=0).fit(blobs[0].astype(np.float32))
    for level in model.levels_:
        assert model.at(level.n_clusters).dtype == np.float32


def test_numbers_outside_the_levels_are_named(blobs):
    model = FuzzyCMeans(3, random_state=0).fit(blobs[0])
    with pytest.raises(ValueError, match="n_clusters must be between 1 and 3.*got 4: fit with"):
        model.at(4)
    with pytest.raises(ValueError, match="n_clusters must lie in"):
        model.at(0)
    with pytest.raises(TypeError, match="n_clusters must be an integer, got '3'"):
        model.predict_proba(blobs[0], n_clusters="3")


def test_a_batch_has_levels_of_its_own(blobs):
    model = FuzzyCMeans(3, random_state=0).partial_fit(blobs[0])
    before = model.at(2)
    model.partial_fit(blobs[0][::-1] + 1)
    assert not np.array_equal(model.at(2), before)
    assert model.at(2).shape == (90, 2)


def test_local_maxima():
    assert local_maxima({1: 0.0, 2: 0.5, 3: 0.2, 4: 0.3, 5: 0.3}) == {2, 4}
    assert local_maxima({1: 0.0, 2: 0.5, 3: 0.2, 4: 0.3, 5: 0.3}, 0.4) == {2}
    assert local_maxima({1: 0.0, 2: 0.0}) == set()
