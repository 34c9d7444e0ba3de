"""The table of labels against slow loops over pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from sfumato.models.consensus import solutions
from sfumato.native.labels import bregman_row
from sfumato.numerics import label_table as kernel
from sfumato.numerics import simplex


def labelings(seed, n=30, m=6, missing=0.0, n_labels=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n, m)).astype(np.int32)
    labels[rng.random((n, m)) < missing] = -1
    return labels


def double_loop(labels, weights, U):
    total = 0.0
    for b in range(labels.shape[1]):
        seen = np.flatnonzero(labels[:, b] >= 0)
        for i in seen:
            for j in seen:
                if i != j:
                    total += weights[b] * ((labels[i, b] == labels[j, b]) - U[i] @ U[j]) ** 2
    return total


@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.1, 0.6]))
@settings(max_examples=15)
def test_objective_equals_the_double_loop(seed, missing):
    rng = np.random.default_rng(seed)
    labels, weights = labelings(seed, n=12, missing=missing), rng.random(6) + 0.1
    U = simplex.draw(rng, (12, 3))
    assert kernel.objective(kernel.encode(labels, weights), U) == pytest.approx(
        double_loop(labels, weights, U), rel=1e-10, abs=1e-9
    )


@pytest.mark.parametrize("n_labels", [3, 300, 70_000])
def test_codes_take_the_smallest_integers(n_labels):
    labels = np.array([[0], [n_labels - 1], [-1]], dtype=np.int32)
    table = kernel.encode(labels)
    assert table.codes.dtype == {3: np.uint8, 300: np.uint16, 70_000: np.int32}[n_labels]
    assert table.seen().ravel().tolist() == [True, True, False]
    assert table.coverage.tolist() == [1, 1, 0]


@pytest.mark.parametrize("n_labels", [3, 300, 70_000])
def test_unseen_objects_have_no_label_whatever_the_type_of_codes(n_labels):
    L = np.stack([np.arange(n_labels), np.full(n_labels, -1)], axis=1)
    L[::2, 0] = -1
    np.testing.assert_array_equal(kernel.encode(L).labels(), L)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_pair_counts_equal_comparisons(missing):
    labels = labelings(5, missing=missing)
    weights = np.ones(6)
    together, seen = kernel.pair_counts(kernel.encode(labels, weights))
    both = (labels[:, None] >= 0) & (labels[None, :] >= 0)
    np.testing.assert_allclose(seen, both.sum(axis=2), atol=1e-12)
    np.testing.assert_allclose(
        together, (both & (labels[:, None] == labels[None, :])).sum(axis=2), atol=1e-12
    )


def test_pair_counts_are_weighted():
    labels, weights = labelings(6, missing=0.2), np.arange(6.0)
    together, seen = kernel.pair_counts(kernel.encode(labels, weights))
    both = (labels[:, None] >= 0) & (labels[None, :] >= 0)
    np.testing.assert_allclose(seen, both @ weights, atol=1e-12)
    np.testing.assert_allclose(
        together, (both & (labels[:, None] == labels[None, :])) @ weights, atol=1e-12
    )


@pytest.mark.parametrize("missing", [0.0, 0.1, 0.5])
def test_sweeps_go_down_to_a_stationary_point(missing):
    rng = np.random.default_rng(7)
    truth = np.arange(60) % 3
    labels = np.where(
        rng.random((60, 8)) < 0.8, truth[:, None], rng.integers(0, 3, (60, 8))
    ).astype(np.int32)
    labels[rng.random(labels.shape) < missing] = -1
    weights = rng.random(8) + 0.5
    table, U, history = kernel.encode(labels, weights), simplex.draw(rng, (60, 3)), []
    for _ in range(200):
        U, value = kernel.sweep(table, U)
        history.append(value)
    assert np.all(np.diff(history) <= 1e-9 * history[0])
    assert history[-1] == pytest.approx(kernel.objective(table, U), rel=1e-12)
    np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
    assert U.min() >= 0
    for i in range(0, 60, 7):
        for target in np.eye(3):
            moved = U.copy()
            moved[i] += 1e-4 * (target - U[i])
            assert kernel.objective(table, moved) >= history[-1] - 1e-6


def test_objects_one_by_one_and_in_panels_reach_the_same_minimum():
    rng = np.random.default_rng(8)
    labels = np.where(
        rng.random((80, 10)) < 0.9, (np.arange(80) % 4)[:, None], rng.integers(0, 4, (80, 10))
    ).astype(np.int32)
    labels[rng.random(labels.shape) < 0.1] = -1
    table, start = kernel.encode(labels), simplex.normalize(np.eye(4)[np.arange(80) % 4] + 0.2)

    def minimum(table):
        U = start
        for _ in range(150):
            U, value = kernel.sweep(table, U)
        return U, value

    U_single, f_single = minimum(table)
    U_panels, f_panels = minimum(table._replace(mass=np.ones(80)))  # weights go by panels
    assert f_panels == pytest.approx(f_single, rel=1e-8)
    np.testing.assert_allclose(U_panels, U_single, atol=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_new_objects_are_placed_at_the_minimum_over_the_pairs_seen(missing):
    rng = np.random.default_rng(0)
    known, new = labelings(1, missing=missing), labelings(2, n=12, missing=missing)
    weights, U = rng.random(6) + 0.1, simplex.draw(rng, (30, 2))
    sizes = np.full(6, 4)
    sums = kernel.moments(kernel.encode(known, weights, sizes), U)
    placed = kernel.place(kernel.encode(new, weights, sizes), sums)
    for row, found in zip(new, placed, strict=True):
        seen = (row >= 0) & (known >= 0)

        def loss(t, row=row, seen=seen):
            error = (known == row) - (U @ [t, 1.0 - t])[:, None]
            return np.sum(seen * weights * error**2)

        a, b, _ = np.polyfit([0.0, 0.5, 1.0], [loss(0.0), loss(0.5), loss(1.0)], 2)
        assert found[0] == pytest.approx(np.clip(-b / (2 * a), 0.0, 1.0), abs=1e-9)


def test_pairs_never_seen_together_change_nothing():
    labels = np.array([[0, -1], [0, -1], [-1, 0], [-1, 0], [1, 1], [1, 1]], dtype=np.int32)
    table = kernel.encode(labels)
    U = simplex.draw(np.random.default_rng(0), (6, 2))
    value = kernel.objective(table, U)
    p = U @ U.T
    seen = np.array(
        [[(labels[i] >= 0) & (labels[j] >= 0) for j in range(6)] for i in range(6)]
    ).any(axis=2)
    assert not seen[0, 2]
    together = np.array(
        [
            [(labels[i] == labels[j])[(labels[i] >= 0) & (labels[j] >= 0)].sum() for j in range(6)]
            for i in range(6)
        ]
    )
    count = np.array(
        [[((labels[i] >= 0) & (labels[j] >= 0)).sum() for j in range(6)] for i in range(6)]
    )
    loss = together * (1 - p) ** 2 + (count - together) * p**2
    np.fill_diagonal(loss, 0)
    assert value == pytest.approx(loss[seen].sum())


def test_separate_groups_are_the_connected_components():
    L = labelings(3, n=60, m=3, missing=0.3, n_labels=25)
    table = kernel.encode(L, np.array([1.0, 0.0, 1.0]))
    linked = kernel.pair_counts(table)[0] > 0
    n_groups, expected = connected_components(linked)
    found = kernel.separate_groups(table)
    assert 1 < n_groups < 60
    assert np.array_equal(found[:, None] == found, expected[:, None] == expected)


@pytest.mark.parametrize("regularization", [0.0, 2.0])
@pytest.mark.parametrize(("n", "m", "n_labels"), [(30, 40, 4), (600, 4, 5), (700, 6, 100)])
def test_spectrum_equals_that_of_the_matrix(n, m, n_labels, regularization):
    table = kernel.encode(
        labelings(11, n=n, m=m, missing=0.2, n_labels=n_labels), np.linspace(0.5, 1.5, m)
    )
    together, _ = kernel.pair_counts(table)
    C = table.scale[:, None] * together * table.scale
    np.fill_diagonal(C, 0.0)
    np.testing.assert_allclose(kernel.degrees(table), C.sum(axis=1), atol=1e-10)
    C += (regularization + kernel.SMALLEST_REGULARIZATION) / n
    d = C.sum(axis=1) ** -0.5
    A = d[:, None] * C * d
    start = None if regularization == 0.0 else kernel.spectrum(table, 3)[0].vectors
    spectrum, scaling = kernel.spectrum(table, 3, regularization, start)
    np.testing.assert_allclose(scaling, d, rtol=1e-10)
    np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(A)[::-1][:3], atol=1e-8)
    np.testing.assert_allclose(A @ spectrum.vectors, spectrum.vectors * spectrum.values, atol=1e-6)


def test_regularization_falls_from_a_share_of_the_mean_degree_to_nothing():
    table = kernel.encode(labelings(5, n=50, m=8, n_labels=4))
    bare = kernel.spectrum(table, 3)[0]
    regularization = [
        kernel.regularization(table, bare._replace(following=value))
        for value in (-np.inf, 0.0, 0.5, 1.0, 1.0 + 1e-9)
    ]
    np.testing.assert_allclose(
        np.array(regularization) / kernel.degrees(table).mean(),
        [0.04, 0.04, 0.02, 0.0, 0.0],
        atol=1e-12,
    )
    assert kernel.regularization(table, bare._replace(values=np.ones(3))) == 0.0


LOSSES = {
    "coassociation-likelihood": lambda c, p: -(c * np.log(p) + (1 - c) * np.log(1 - p)),
    "coassociation-kullback-leibler": lambda c, p: c * np.log(c / p) - c + p,
    "coassociation-itakura-saito": lambda c, p: p / c - np.log(p / c) - 1,
}


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("name", LOSSES)
def test_a_row_of_a_divergence_only_falls_and_settles_at_the_minimum(k, name):
    rng = np.random.default_rng(k)
    U, kind = simplex.draw(rng, (40, k)), list(solutions.DIVERGENCES).index(name)
    U[:5] = np.eye(k)[np.zeros(5, dtype=int)]

    def loss(c, weight, u):
        p = np.clip(U @ u, solutions.NEAR, 1 - solutions.NEAR)
        return np.sum(weight * LOSSES[name](c, p))

    for i in range(10):
        c, weight, u = rng.uniform(0.05, 1, 40), rng.integers(0, 4, 40).astype(float), U[i]
        for _ in range(300):
            before, u = loss(c, weight, u), bregman_row(c, weight, U, u, kind)
            assert loss(c, weight, u) <= before + 1e-10 * abs(before)
        assert u.min() >= 0
        assert u.sum() == pytest.approx(1.0)
        for vertex in np.eye(k):
            aside = loss(c, weight, 0.999 * u + 0.001 * vertex)
            assert aside >= loss(c, weight, u) * (1 - 1e-7)


def tables_alike(one, other):
    for mine, theirs in zip(one[:4], other[:4], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_other_weights_of_the_partitions_give_the_table_of_these_weights():
    labels, weights = labelings(0, missing=0.3), np.array([0.5, 2.0, 0.0, 1.0, 3.0, 0.25])
    tables_alike(kernel.reweight(kernel.encode(labels), weights), kernel.encode(labels, weights))


def test_labels_that_a_table_does_not_know_count_as_unseen():
    table = kernel.encode(np.array([[0, 0], [1, 2], [1, 1]]), np.array([1.0, 2.0]))
    found = kernel.recode(table, np.array([[1, 2], [2, 1], [-1, 3]]))
    np.testing.assert_array_equal(found.labels(), [[1, 2], [-1, 1], [-1, -1]])
    np.testing.assert_array_equal(found.coverage, [3.0, 2.0, 0.0])
    np.testing.assert_array_equal(found.offsets, table.offsets)


def test_gaps_are_those_of_partitions_that_count():
    labels = labelings(0)
    assert not kernel.has_missing(kernel.encode(labels))
    labels[3, 2] = -1
    assert kernel.has_missing(kernel.encode(labels))
    assert not kernel.has_missing(kernel.encode(labels, np.array([1.0, 1, 0, 1, 1, 1])))


def test_independent_partitions_reach_the_chance_level():
    """Of the co-association of objects that all partitions see, without the mean."""
    labels = labelings(0, n=1000, m=40, n_labels=3)
    table = kernel.encode(labels)
    H = (labels[:, :, None] == np.arange(3)).reshape(1000, -1) / np.sqrt(1000 / 3)
    second = np.linalg.svd(H, compute_uv=False)[1] ** 2 / 40
    assert kernel.chance_level(table) == pytest.approx(second, rel=0.05)


def test_the_chance_level_counts_copies_and_weights():
    labels, copies = labelings(1, missing=0.2), np.arange(30) % 3
    weights = np.array([0.5, 2.0, 0.0, 1.0, 3.0, 0.25])
    weighted = kernel.encode(labels, weights)._replace(mass=copies.astype(float))
    known = weights > 0
    copied = kernel.encode(np.repeat(labels, copies, axis=0)[:, known], 7 * weights[known])
    assert kernel.chance_level(weighted) == pytest.approx(kernel.chance_level(copied), rel=1e-12)
