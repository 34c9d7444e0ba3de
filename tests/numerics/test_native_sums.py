"""Native passes of fuzzy c-means and mixtures beside the forms of other array libraries."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

from sfumato.array.rows import Rows
from sfumato.components import gaussian
from sfumato.components import gaussian as families
from sfumato.models.fuzzy import kernel as fuzzy
from sfumato.numerics import distances

TYPES = ("full", "tied", "diag", "spherical")


def both(monkeypatch, function):
    """What a pass gives by the native loops, and by the form of other array libraries."""
    native = function()
    with monkeypatch.context() as patch:
        patch.setattr(distances, "fused_sums", lambda *_, **__: None)
        return native, function()


def agree(stats, other, rtol):
    scale = np.abs(other.sums).max()
    np.testing.assert_allclose(stats.sums / scale, other.sums / scale, rtol=0, atol=rtol)
    assert stats.objective == pytest.approx(other.objective, rel=rtol)


def mixture(covariance_type, k, d, rng, noise):
    A = rng.normal(size=(k, d, d))
    S = A @ A.transpose(0, 2, 1) / d + 0.3 * np.eye(d)
    family = families.family_of(covariance_type)
    weights = rng.dirichlet(np.ones(k + noise))
    return gaussian.State(
        weights,
        rng.normal(size=(k, d)),
        families.fitted_covariances(family, S, np.ones(k)),
        family,
        1e-9,
        -np.ones(d) if noise else None,
    )


@pytest.mark.parametrize("n, d, k", [(1, 1, 1), (7, 3, 2), (1001, 5, 11)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", [None, 0.8])
@pytest.mark.parametrize("fuzzifier", [2.0, 1.5, 3.0, 1.1, 1.7, 30.0])
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_fuzzy_sums(monkeypatch, n, d, k, weighted, noise, fuzzifier, dtype, rtol):
    rng = np.random.default_rng(n)
    rule = fuzzy.Rule(fuzzifier, noise=noise)
    ready = fuzzy.ready(fuzzy.State(rng.normal(size=(k, d))), rule)
    Z = distances.features(rng.normal(size=(d, n)).astype(dtype), "spherical")
    weights = rng.random(n) if weighted else None
    agree(*both(monkeypatch, lambda: fuzzy.summarize(Z, weights, ready)), rtol)


def test_powers_of_the_number_of_clusters_do_not_overflow(monkeypatch):
    rng = np.random.default_rng(0)
    ready = fuzzy.ready(fuzzy.State(rng.normal(size=(1500, 2))), fuzzy.Rule(100.0))
    Z = distances.features(rng.normal(size=(2, 40)), "spherical")
    native, plain = both(monkeypatch, lambda: fuzzy.summarize(Z, None, ready))
    agree(native, plain, 1e-10)
    assert np.isfinite(plain.objective)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("n, d, k", [(1, 1, 1), (7, 3, 2), (1001, 5, 11), (600, 20, 40)])
@pytest.mark.parametrize("weighted, noise", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_gaussian_sums(monkeypatch, covariance_type, n, d, k, weighted, noise, dtype, rtol):
    rng = np.random.default_rng(n)
    ready = gaussian.ready(mixture(covariance_type, k, d, rng, noise))
    X = rng.normal(size=(d, n)).astype(dtype)
    weights = rng.random(n) if weighted else None
    Z = distances.features(X, ready.kind)
    native, plain = both(monkeypatch, lambda: gaussian.summarize(Z, weights, ready))
    agree(native, plain, rtol)
    if ready.kind != "spherical":
        for stats in both(monkeypatch, lambda: gaussian.summarize(X, weights, ready)):
            agree(stats, plain, rtol)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_objects_far_from_every_component_keep_their_densities(monkeypatch, covariance_type):
    rng = np.random.default_rng(3)
    ready = gaussian.ready(mixture(covariance_type, 4, 3, rng, False))
    X = rng.normal(size=(3, 50))
    X[:, ::7] *= 100.0
    native, plain = both(
        monkeypatch, lambda: gaussian.summarize(distances.features(X, ready.kind), None, ready)
    )
    agree(native, plain, 1e-12)
    assert plain.objective < -1e4


def test_rows_that_are_kept_equal_rows_that_are_not():
    X, w = np.random.default_rng(5).normal(size=(9001, 3)), np.arange(9001.0)
    plain = Rows(X, w, view=lambda block: block * 2.0)
    kept = plain.kept()
    for one, other in zip(
        kept.sum(lambda X, w: (w @ X, X.sum())),
        plain.sum(lambda X, w: (w @ X, X.sum())),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(kept.map(lambda X, w: X), 2.0 * X)
    np.testing.assert_array_equal(kept.extremes(), plain.extremes())
    few = [rows.sample(50, np.random.default_rng(0)).map(lambda X, *_: X) for rows in (kept, plain)]
    np.testing.assert_array_equal(*few)


def test_a_pass_within_a_pass_ends():
    rows = Rows(np.ones((20_000, 2)), None, n_jobs=2)
    inner = Rows(np.ones((10_000, 2)), None, n_jobs=2)
    total = rows.sum(lambda X, w: (X.sum() + inner.sum(lambda X, w: (X.sum(),))[0],))[0]
    assert total == 40_000 + len(rows.slices) * 20_000


def _total(_):
    return Rows(np.ones((20_000, 2)), None, n_jobs=2).sum(lambda X, w: (X.sum(),))[0]


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    expected = _total(0)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(_total, [0]).get(timeout=60) == [expected]


def test_an_error_in_a_thread_reaches_the_caller():
    rows = Rows(np.arange(40_000.0)[:, None], None, n_jobs=2)

    def refuse(X, w):
        if X[-1, 0] > 30_000:
            raise ValueError("too large")
        return (X.sum(),)

    with pytest.raises(ValueError, match="too large"):
        rows.sum(refuse)
    assert rows.sum(lambda X, w: (len(X),))[0] == 40_000
