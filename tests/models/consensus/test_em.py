"""Small mixtures of an ensemble: the M step and the posteriors of all of them at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

from sfumato.array.arrays import native
from sfumato.array.rows import in_threads
from sfumato.models.consensus import mixtures as em
from sfumato.numerics import distances


def weighted_sums(n=60, d=3, k=4, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, d)) * [1.0, 2.0, 0.5][:d]
    share = rng.dirichlet(np.full(k, 0.3), size=n).T
    return Y, share, distances.features(np.ascontiguousarray(Y.T), "full")


@pytest.mark.parametrize("d", [1, 2, 3])
def test_m_step_gives_the_logarithms_of_weighted_normal_densities(d):
    Y, share, Z = weighted_sums(d=d)
    logits = em.maximize(share @ Z.T, d) @ Z
    prior = em.TUNING.prior * len(share) ** (-2.0 / d)
    means = [weight @ Y / weight.sum() for weight in share]
    scatters = [((Y - m).T * w) @ (Y - m) for w, m in zip(share, means, strict=True)]
    for j, weight in enumerate(share):
        mean = means[j]
        covariance = scatters[j] / weight.sum() + prior / (weight.sum() + 1e-3) * np.eye(d)
        expected = np.log(weight.sum() / share.sum()) + multivariate_normal(
            mean, covariance
        ).logpdf(Y)
        np.testing.assert_allclose(logits[j], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("array_api", [True, False])
def test_posteriors_are_the_softmax_within_each_mixture(monkeypatch, array_api, dtype):
    if array_api:  # as arrays of other libraries go
        monkeypatch.setattr(em, "is_numpy", lambda *_: False)
    rng = np.random.default_rng(0)
    rows = [rng.normal(scale=30.0, size=(size, 6)) for size in (1, 4, 7)]
    Y = rng.normal(scale=20.0, size=(30, 2)).astype(dtype)
    found = em.join(rows).posteriors(Y)
    Z = distances.features(np.ascontiguousarray(Y.T), "full")
    expected = np.concatenate([softmax(each.astype(dtype) @ Z, axis=0) for each in rows])
    np.testing.assert_allclose(found, expected, atol=1e-13 if dtype == np.float64 else 1e-3)


def test_results_come_in_order_from_any_number_of_threads():
    tasks = [(i, 2) for i in range(20)]
    expected = [i**2 for i in range(20)]
    for n_jobs in (1, 2, 3):
        assert list(in_threads(pow, tasks, n_jobs)) == expected


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(divmod, [(1, 1), (1, 0), (2, 1)], 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_climb_is_a_loop_of_steps(rng, weighted):
    Y = rng.normal(size=(120, 3)) + 4.0 * np.eye(3)[np.arange(120) % 3]
    mass = rng.random(120) + 0.5 if weighted else None
    seen = em.Seen.of(Y, mass, None)
    share = rng.dirichlet(np.ones(3), size=120).T
    sums = (share if mass is None else share * mass) @ seen.Z.T
    settings = (3, em._prior(3, 3), em.MAX_STEPS, em.TOLERANCE)
    (found, value), before = native("mixtures").climb(seen.Z, mass, sums, *settings), -np.inf
    for _ in range(em.MAX_STEPS):
        rows = em.maximize(sums, 3)
        share, level = distances.softmax_columns(rows @ seen.Z)
        sums = (share if mass is None else share * mass) @ seen.Z.T
        now = np.average(level, weights=mass)
        if now - before < em.TOLERANCE:
            break
        before = now
    np.testing.assert_allclose(found, rows, rtol=1e-8, atol=1e-8)
    assert value == pytest.approx(now, rel=1e-10)


def test_the_loops_refuse_what_does_not_fit():
    mixtures = native("mixtures")
    with pytest.raises(ValueError, match="columns"):
        mixtures.maximize(np.ones((2, 5)), 2, 0.1)
    with pytest.raises(ValueError, match="at least one object"):
        mixtures.climb(np.ones((6, 0)), None, np.ones((2, 6)), 2, 0.1, 5, 1e-4)
    with pytest.raises(ValueError, match="offsets"):
        mixtures.normalize_members(np.zeros((3, 4)), np.array([0, 4]))


def test_an_object_out_of_reach_does_not_stop_a_climb(rng):
    Y = rng.normal(size=(60, 2))
    Y[0] = 1e5  # all densities of the object vanish at first
    seen = em.Seen.of(Y, None, None)
    rows = em.fit_mixture(seen, Y, 3, rng)
    assert np.isfinite(rows).all()
