"""One Gaussian from objects with missing values, against a loop over objects."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.numerics import missing


def slow_gaussian(X, weights, n_steps=200):
    mean, S = np.nanmean(X, axis=0), np.diag(np.nanvar(X, axis=0))
    for _ in range(n_steps):
        first, second = np.zeros(len(mean)), np.zeros(S.shape)
        for x, w in zip(X, weights, strict=True):
            h, o = np.flatnonzero(np.isnan(x)), np.flatnonzero(~np.isnan(x))
            gain = S[np.ix_(h, o)] @ np.linalg.inv(S[np.ix_(o, o)])
            filled, extra = x.copy(), np.zeros(S.shape)
            filled[h] = mean[h] + gain @ (x[o] - mean[o])
            extra[np.ix_(h, h)] = S[np.ix_(h, h)] - gain @ S[np.ix_(o, h)]
            first += w * filled
            second += w * (np.outer(filled, filled) + extra)
        mean = first / weights.sum()
        S = second / weights.sum() - np.outer(mean, mean)
    return mean, S


@pytest.mark.parametrize("weighted", [False, True])
def test_the_likeliest_gaussian(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)) * [1.0, 10.0, 0.1] + 5
    X[rng.random(X.shape) < 0.2] = np.nan
    weights = rng.uniform(0.5, 2.0, size=40) if weighted else None
    mean, unit, covariance = missing.one_gaussian(X, weights)
    own = np.ones(40) if weights is None else weights
    expected = slow_gaussian(X, own)
    assert np.allclose(mean, expected[0], rtol=1e-4)
    assert np.allclose(covariance * np.outer(unit, unit), expected[1], rtol=1e-3)


def test_completion_is_the_conditional_expectation():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 4))
    S = A @ A.T
    unit = np.sqrt(np.diag(S))
    background = missing.Background(unit, S / np.outer(unit, unit))
    x = rng.multivariate_normal(np.zeros(4), S, size=6)
    x[0, [1, 3]] = np.nan
    x[1, :] = np.nan
    x[2:4, 0] = np.nan
    values, vectors = np.linalg.eigh(S)
    P = vectors / np.sqrt(values)
    filled, gaps = background.complete(x, P)
    h, o = [1, 3], [0, 2]
    gain = S[np.ix_(h, o)] @ np.linalg.inv(S[np.ix_(o, o)])
    assert np.allclose(filled[0, h], gain @ x[0, o], atol=1e-6)
    F = gaps.spreads[gaps.pattern[0]]
    open_ = P[h].T @ (S[np.ix_(h, h)] - gain @ S[np.ix_(o, h)]) @ P[h]
    assert np.allclose(F.T @ F, open_, atol=1e-6)
    assert np.allclose(filled[1], 0.0)
    assert gaps.pattern[2] == gaps.pattern[3]
    assert (gaps.pattern[4:] == -1).all()


def test_a_feature_that_repeats_another_fills_its_holes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    X = np.stack([x, 2 * x + 1, rng.normal(size=50)], axis=1)
    X[3, 0] = np.nan
    mean, unit, covariance = missing.one_gaussian(X, None)
    filled, _ = missing.Background(unit, covariance).complete(X - mean, np.eye(3))
    assert filled[3, 0] + mean[0] == pytest.approx(x[3], abs=1e-3)
