"""The best start of k-means: native as in other array libraries."""

from functools import partial

import numpy as np
import pytest

from sfumato.engine import loop
from sfumato.models.spectral import graph
from sfumato.native import kmeans as native
from sfumato.numerics import kmeans


def embedded(rng, n=120, k=4):
    Z = np.eye(k)[rng.integers(k, size=n)] + 0.3 * rng.normal(size=(n, k))
    Z[:2] = 0  # objects without a place
    weights = rng.random(n)
    weights[:2] = 0
    return Z, weights


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("max_iter", "tol"), [(300, 0.0), (3, 0.0), (300, 0.01)])
def test_native_starts_end_where_plain_ones_do(rng, dtype, max_iter, tol):
    Z, weights = (part.astype(dtype) for part in embedded(rng))
    options = {"max_iter": max_iter, "tol": tol}
    once = graph.best_of_starts(Z, weights, 4, [5, 17, 80], **options)
    step = partial(kmeans.lloyd_step, Z, weights, (Z * Z).sum(axis=1))
    starts = [Z[kmeans.orthogonal_rows(Z, 4, first)] for first in (5, 17, 80)]
    plain = loop.best([loop.iterate(step, start, **options) for start in starts], larger=False)
    near = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(once.state, plain.state, atol=near)
    np.testing.assert_allclose(once.objective, plain.objective, rtol=near)
    assert once.state.dtype == dtype
    if dtype == np.float64:
        np.testing.assert_allclose(once.history, plain.history, rtol=1e-9)
        assert (once.n_iter, once.converged) == (plain.n_iter, plain.converged)


def test_a_native_start_is_reported(rng):
    Z, weights = embedded(rng)
    seen = []
    with loop.progress(lambda *words: seen.append(words)):
        run = graph.best_of_starts(Z, weights, 4, [5, 17], max_iter=50, tol=0.0)
    assert seen
    assert min(words[2] for words in seen) == pytest.approx(run.objective)


def test_centers_without_rows_go_to_the_worst(rng):
    Z, weights = embedded(rng)
    centers = np.repeat(Z[5:6], 4, axis=0)
    expected, history = centers, []
    for _ in range(4):
        expected, value = kmeans.lloyd_step(Z, weights, (Z**2).sum(axis=1), expected)
        history.append(value)
    moved, _, found, _ = native.lloyd(Z, weights, centers, 4, 0.0)
    np.testing.assert_allclose(found, history, rtol=1e-12)
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_native_orthogonal_rows_are_the_plain_ones(rng):
    Z, _ = embedded(rng)
    firsts = np.array([5, 17, 80])
    expected = [kmeans.orthogonal_rows(Z, 4, first) for first in firsts]
    np.testing.assert_array_equal(native.orthogonal_rows(Z, 4, firsts), expected)


@pytest.mark.parametrize("q", [1, 2, 5])
def test_the_native_scale_is_the_plain_one(rng, q):
    xp = pytest.importorskip("array_api_strict")
    distances, weights = rng.chisquare(3, (200, q + 1)), rng.random(200)
    plain = kmeans.temperature(xp.asarray(distances), xp.asarray(weights), q)
    assert kmeans.temperature(distances, weights, q) == pytest.approx(plain, rel=1e-9)
