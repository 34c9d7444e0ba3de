"""Quadratic features, coordinates and starts, against slow definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.array.rows import Rows
from sfumato.numerics import distances, seeding
from sfumato.numerics.distances import measure

KINDS = ("spherical", "diag", "full")


def precision(rng, k, d, kind):
    if kind == "spherical":
        return rng.random(k) + 0.5
    if kind == "diag":
        return rng.random((k, d)) + 0.5
    A = rng.normal(size=(k, d, d))
    return A @ A.transpose(0, 2, 1) + np.eye(d)


def as_matrix(P, d, kind):
    return {"spherical": lambda: P * np.eye(d), "diag": lambda: np.diag(P), "full": lambda: P}[
        kind
    ]()


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_times_features_are_quadratic_forms(kind):
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    P = precision(rng, 4, 3, kind)
    ours = distances.coefficients(C, P, kind) @ distances.features(X.T, kind)
    slow = [
        [(x - c) @ as_matrix(p, 3, kind) @ (x - c) for x in X] for c, p in zip(C, P, strict=True)
    ]
    np.testing.assert_allclose(ours, slow, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_sums_of_features_are_moments(kind):
    rng = np.random.default_rng(1)
    X, A = rng.normal(size=(20, 3)), rng.random((2, 20))
    mass, first, second = distances.moments(A @ distances.features(X.T, kind).T, 3, kind)
    np.testing.assert_allclose(mass, A.sum(axis=1))
    np.testing.assert_allclose(first, A @ X)
    full = np.einsum("kn,ni,nj->kij", A, X, X)
    expected = {
        "spherical": np.trace(full, axis1=1, axis2=2),
        "diag": np.diagonal(full, axis1=1, axis2=2),
        "full": full,
    }[kind]
    np.testing.assert_allclose(second, expected)


def test_sparse_features_equal_dense_ones():
    X = sp.random_array((5, 9), density=0.4, rng=np.random.default_rng(0))
    np.testing.assert_allclose(
        distances.features(X, "spherical").toarray(), distances.features(X.toarray(), "spherical")
    )


def test_cholesky_coordinates_go_there_and_back():
    rng = np.random.default_rng(2)
    S = precision(rng, 3, 4, "full")
    np.testing.assert_allclose(
        distances.from_cholesky_coordinates(distances.cholesky_coordinates(S), 4), S
    )


def test_softmax_of_columns():
    L = np.array([[0.0, 1000.0, -np.inf], [np.log(3.0), 0.0, 2.0]])
    U, level = distances.softmax_columns(L.copy())
    np.testing.assert_allclose(U, [[0.25, 1.0, 0.0], [0.75, 0.0, 1.0]])
    np.testing.assert_allclose(level, [np.log(4.0), 1000.0, 2.0])


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_whitened_coordinates_do_not_know_units_or_offsets(scale):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)) @ np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.1]])
    weights = rng.integers(1, 4, 200).astype(float)
    coordinates = measure(Rows(X * scale + 5 * scale, weights), per_feature=True, mix=True)
    inner = coordinates.inner(X * scale + 5 * scale)
    share = weights / weights.sum()
    np.testing.assert_allclose(share @ inner, 0, atol=1e-12)
    np.testing.assert_allclose((inner.T * share) @ inner, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(coordinates.outer(inner), X * scale + 5 * scale, rtol=1e-9)
    reference = measure(Rows(X, weights), per_feature=True, mix=True).inner(X)
    np.testing.assert_allclose(inner, reference, atol=1e-9)


def test_coordinates_skip_missing_values_and_survive_constant_and_collinear_features():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 2))
    H = X.copy()
    H[rng.random(H.shape) < 0.3] = np.nan
    holes = measure(Rows(H, None), per_feature=True, mix=False)
    np.testing.assert_allclose(holes.shift, np.nanmean(H, axis=0))
    np.testing.assert_allclose(1 / holes.scale, np.nanstd(H, axis=0))
    flat = np.column_stack([X, np.ones(100), X[:, 0] + X[:, 1]])
    coordinates = measure(Rows(flat, None), per_feature=True, mix=True)
    assert np.isfinite(coordinates.inner(flat)).all()
    assert coordinates.thinnest < 1e-5


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_kmeans_plus_plus_never_repeats_a_center(seed, k):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(30, 2)).astype(float)
    distinct = len(np.unique(X, axis=0))
    centers = seeding.kmeans_plus_plus(X, np.ones(30), min(k, distinct), rng)
    assert len(np.unique(centers, axis=0)) == min(k, distinct)


@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (40, 3, 5), (300, 6, 12), (9, 2, 9)])
def test_lloyd_moves_centers_like_a_slow_loop(n, d, k):
    rng = np.random.default_rng(n)
    X, weights = rng.normal(size=(n, d)), rng.integers(1, 4, n).astype(float)
    given = seeding.kmeans_plus_plus(X, weights, k, rng)
    given[-1] += 100.0 * (k > 1)  # nothing is near to it
    kept, centers = given.copy(), given.copy()
    for _ in range(4):
        squares = ((X[:, None] - centers) ** 2).sum(axis=2)
        labels, errors = squares.argmin(axis=1), weights * squares.min(axis=1)
        for j in range(k):
            if (labels == j).any():
                centers[j] = np.average(X[labels == j], axis=0, weights=weights[labels == j])
            else:
                centers[j] = X[errors.argmax()]
                errors[errors.argmax()] = 0.0
    labels = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(seeding.lloyd(X, weights, given, 4), labels)
    np.testing.assert_array_equal(given, kept)


def test_a_weight_starts_like_copies():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]], 20, axis=0)
    weights = rng.integers(1, 4, 60)
    order = seeding.sort(X, None)
    X, weights = X[order], weights[order]
    one = seeding.kmeans(X, weights.astype(float), 3, np.random.default_rng(0))
    copies, total, index = seeding.distinct(np.repeat(X, weights, axis=0), np.ones(weights.sum()))
    np.testing.assert_array_equal(copies, X)
    other = seeding.kmeans(copies, total, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(one, other)
    assert len(index) == weights.sum()


def test_unit_rows_survive_tiny_and_zero_rows():
    Z = distances.unit_rows(np.array([[3e-200, 4e-200], [0.0, 0.0], [3e200, 4e200]]))
    np.testing.assert_allclose(Z, [[0.6, 0.8], [0.0, 0.0], [0.6, 0.8]])


def test_roots_of_matrices_that_rounding_left_indefinite():
    flat = np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]])
    matrices = np.stack([flat, 4.0 * np.eye(2)])
    factors = distances.roots(matrices)
    np.testing.assert_allclose(factors @ np.swapaxes(factors, 1, 2), matrices, atol=1e-13)
    assert distances.roots(np.empty((3, 0, 0))).shape == (3, 0, 0)
