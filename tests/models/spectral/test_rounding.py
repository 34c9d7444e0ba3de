"""The best start of k-means, its centers and its scale: native ones against slow loops."""

from functools import partial

import numpy as np
import pytest

from sfumato.engine import loop
from sfumato.models import spectral as estimator
from sfumato.native import kmeans as native
from sfumato.numerics import eigen


def embedded(rng, n=120, k=4):
    Z = np.eye(k)[rng.integers(k, size=n)] + 0.3 * rng.normal(size=(n, k))
    Z[:2] = 0  # objects without a place
    weights = rng.random(n)
    weights[:2] = 0
    return Z, weights


def orthogonal_rows(Z, k, first):
    lengths = np.sqrt((Z * Z).sum(axis=1))
    U = Z / np.where(lengths > 0, lengths, 1)[:, None]
    chosen = [first]
    for _ in range(k - 1):
        worst = np.abs(U @ U[chosen].T).max(axis=1)
        chosen.append(int(np.argmin(np.where(lengths > 0, worst, 2))))
    return chosen


def lloyd_step(Z, weights, centers):
    distances = eigen.squared_distances(Z, centers)
    labels, errors = distances.argmin(axis=1), weights * distances.min(axis=1)
    moved, distortion = np.empty_like(centers), float(errors.sum())
    for r in range(len(centers)):
        own = weights * (labels == r)
        if own.sum() == 0:  # goes to the worst row
            worst = errors.argmax()
            moved[r], errors[worst] = Z[worst], 0
        else:
            moved[r] = own @ Z / own.sum()
    return moved, distortion


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("max_iter", "tol"), [(300, 0.0), (3, 0.0), (300, 0.01)])
def test_native_starts_end_where_plain_ones_do(rng, dtype, max_iter, tol):
    Z, weights = (part.astype(dtype) for part in embedded(rng))
    options = {"max_iter": max_iter, "tol": tol}
    once = estimator.best_of_starts(Z, weights, 4, [5, 17, 80], **options)
    step = partial(lloyd_step, Z, weights)
    starts = [Z[orthogonal_rows(Z, 4, first)] for first in (5, 17, 80)]
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
        run = estimator.best_of_starts(Z, weights, 4, [5, 17], max_iter=50, tol=0.0)
    assert seen
    assert min(words[2] for words in seen) == pytest.approx(run.objective)


def test_centers_without_rows_go_to_the_worst(rng):
    Z, weights = embedded(rng)
    centers = np.repeat(Z[5:6], 4, axis=0)
    expected, history = centers, []
    for _ in range(4):
        expected, value = lloyd_step(Z, weights, expected)
        history.append(value)
    moved, _, found, _ = native.lloyd(Z, weights, centers, 4, 0.0)
    np.testing.assert_allclose(found, history, rtol=1e-12)
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_native_orthogonal_rows_are_the_plain_ones(rng):
    Z, _ = embedded(rng)
    firsts = np.array([5, 17, 80])
    expected = [orthogonal_rows(Z, 4, first) for first in firsts]
    np.testing.assert_array_equal(native.orthogonal_rows(Z, 4, firsts), expected)
