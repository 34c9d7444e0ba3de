"""Communities against slow loops and against all partitions of small graphs."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.native.communities import communities, modularity


def entries(W):
    W = sp.csr_array(W)
    W.sort_indices()
    return W.data, W.indices, W.indptr


def random_graph(rng, n, density=0.4):
    W = np.triu((rng.random((n, n)) < density) * rng.random((n, n)))
    return W + np.triu(W, 1).T


def slow_modularity(W, labels, resolution):
    degrees, total, Q = W.sum(axis=1), W.sum(), 0.0
    for i in range(len(W)):
        for j in range(len(W)):
            if labels[i] == labels[j]:
                Q += W[i, j] / total - resolution * degrees[i] * degrees[j] / total**2
    return Q


def partitions(n):
    """All partitions of n objects, as labels by first appearance."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*each, c] for each in found for c in range(max(each) + 2)]
    return found


def planted(rng, n_groups, size, within, between):
    own = np.repeat(np.arange(n_groups), size)
    W = rng.random((own.size, own.size)) < np.where(own[:, None] == own, within, between)
    W = np.triu(W, 1).astype(float)
    return W + W.T, own


@pytest.mark.parametrize("resolution", [0.3, 1.0, 4.0])
def test_modularity_is_that_of_the_slow_loop(rng, resolution):
    W = random_graph(rng, 15)
    labels = rng.integers(4, size=15)
    found = modularity(*entries(W), labels, resolution)
    assert found == pytest.approx(slow_modularity(W, labels, resolution), abs=1e-12)


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_small_graphs_have_nearly_the_best_of_all_partitions(rng, resolution):
    short = []
    for _ in range(10):
        W = random_graph(rng, 7)
        best = max(slow_modularity(W, labels, resolution) for labels in partitions(7))
        found = [communities(*entries(W), resolution, seed) for seed in range(8)]
        short.append(best - max(slow_modularity(W, labels, resolution) for labels in found))
    assert min(short) > -1e-12
    assert max(short) < 0.01
    assert np.median(short) < 1e-12


@pytest.mark.parametrize("resolution", [0.5, 1.0, 3.0])
def test_no_single_move_and_no_merger_is_better(rng, resolution):
    W = random_graph(rng, 60, 0.1)
    labels = communities(*entries(W), resolution, 0)
    best = slow_modularity(W, labels, resolution)
    assert best >= slow_modularity(W, np.arange(60), resolution)
    k = labels.max() + 1
    for i in range(60):
        for c in range(k + 1):
            moved = labels.copy()
            moved[i] = c
            assert modularity(*entries(W), moved, resolution) <= best + 1e-10
    for a in range(k):
        for b in range(a):
            joined = np.where(labels == a, b, labels)
            assert modularity(*entries(W), joined, resolution) <= best + 1e-10


def test_planted_groups_are_found_at_any_number(rng):
    W, own = planted(rng, 8, 40, 0.4, 0.02)
    labels = communities(*entries(W), 1.0, 0)
    assert len(set(zip(labels, own, strict=True))) == 8
    assert labels.max() == 7


def test_a_larger_resolution_gives_more_communities(rng):
    W, _ = planted(rng, 6, 30, 0.3, 0.05)
    counts = [communities(*entries(W), g, 0).max() + 1 for g in (0.0, 0.5, 1.0, 4.0, 1e6)]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 180


def test_a_weight_is_a_number_of_copies(rng):
    W = random_graph(rng, 12)
    v = rng.integers(1, 4, size=12)
    labels = rng.integers(3, size=12)
    copies = np.repeat(np.arange(12), v)
    many = modularity(*entries(W[np.ix_(copies, copies)]), labels[copies], 1.3)
    assert modularity(*entries(W), labels, 1.3, v) == pytest.approx(many, abs=1e-12)
    found = communities(*entries(W), 1.3, 5, v)
    np.testing.assert_array_equal(found, communities(*entries(W * np.outer(v, v)), 1.3, 5))


def test_the_unit_of_weights_does_not_matter(rng):
    W, _ = planted(rng, 5, 20, 0.3, 0.05)
    one = communities(*entries(W), 1.0, 3)
    np.testing.assert_array_equal(communities(*entries(W), 1.0, 3, np.full(100, 8.0)), one)
    np.testing.assert_array_equal(communities(*entries(W * 2.0**-90), 1.0, 3), one)


def test_the_same_seed_gives_the_same_labels_by_first_appearance(rng):
    W, _ = planted(rng, 5, 30, 0.2, 0.05)
    one, two = (communities(*entries(W), 2.0, 11) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    firsts = [int(np.argmax(one == c)) for c in range(one.max() + 1)]
    assert firsts == sorted(firsts)


def test_graphs_without_edges_or_nodes():
    empty = np.empty(0), np.empty(0, dtype=int)
    np.testing.assert_array_equal(communities(*empty, np.zeros(4, int), 1.0, 0), [0, 1, 2])
    assert communities(*empty, np.zeros(1, int), 1.0, 0).size == 0
    assert modularity(*empty, np.zeros(4, int), [0, 0, 1], 1.0) == 0.0


@pytest.mark.parametrize(
    ("W", "message"),
    [
        ([[0.0, 1.0], [2.0, 0.0]], "symmetric"),
        ([[0.0, 1.0], [0.0, 0.0]], "symmetric"),
        ([[0.0, -1.0], [-1.0, 0.0]], "negative"),
        ([[0.0, np.nan], [np.nan, 0.0]], "negative"),
        ([[0.0, np.inf], [np.inf, 0.0]], "summed"),
    ],
)
def test_other_matrices_are_refused(W, message):
    with pytest.raises(ValueError, match=message):
        communities(*entries(W), 1.0, 0)


def test_entries_that_are_no_matrix_are_refused():
    data, indices, indptr = entries([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="between 0 and 1"):
        communities(data, indices + 1, indptr, 1.0, 0)
    with pytest.raises(ValueError, match="ascend from 0"):
        communities(data, indices, indptr[::-1], 1.0, 0)
    with pytest.raises(ValueError, match="ascend from 0"):
        communities(data[:1], indices, indptr, 1.0, 0)
    with pytest.raises(ValueError, match="resolution"):
        communities(data, indices, indptr, np.nan, 0)
    with pytest.raises(ValueError, match="weights must hold 2"):
        communities(data, indices, indptr, 1.0, 0, [1.0])
    with pytest.raises(ValueError, match="labels must hold 2"):
        modularity(data, indices, indptr, [0, 2], 1.0)
