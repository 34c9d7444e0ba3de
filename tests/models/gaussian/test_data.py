"""Moves between partitions, and the partitions that need none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Peer

from sfumato import GaussianMixture, datasets
from sfumato.models.gaussian.data import Sample, clear_partition
from sfumato.numerics import seeding
from sfumato.numerics.clear_groups import best_move


def log_likelihood(X: np.ndarray, labels: np.ndarray) -> float:
    """Of objects that are in their groups for certain, by SciPy."""
    value = 0.0
    for j in np.unique(labels):
        group = X[labels == j]
        normal = multivariate_normal(group.mean(axis=0), np.cov(group.T, bias=True))
        value += normal.logpdf(group).sum() + len(group) * np.log(len(group) / len(X))
    return value


def sample_of(X: np.ndarray) -> Sample:
    weights = np.ones(len(X))
    return Sample(seeding.standardize(X, weights), weights, None, np.ones(X.shape[1]))


def clear(X: np.ndarray, k: int) -> np.ndarray | None:
    return clear_partition(sample_of(X), k, np.random.default_rng(0))


def test_the_gain_of_a_move_is_that_of_the_likelihood():
    X, _, labels = datasets.make_gaussians(400, 4, n_features=3, separation=7, random_state=0)
    joined = np.where(labels == 1, 0, labels)  # two clusters are one group, and one is cut in two
    joined[(labels == 2) & (X[:, 0] > np.median(X[labels == 2, 0]))] = 1
    trial = best_move(X, np.ones(len(X)), joined, 4)
    assert 0.0 < trial.gain < np.inf
    assert not trial.clear
    assert trial.gain == pytest.approx(
        log_likelihood(X, trial.labels) - log_likelihood(X, joined), abs=1e-6
    )


def test_weights_count_as_copies():
    X, _, labels = datasets.make_gaussians(200, 3, separation=4, random_state=1)
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weights)
    one = best_move(X, weights.astype(float), labels, 3)
    other = best_move(X[copies], np.ones(len(copies)), labels[copies], 3)
    assert one.gain == pytest.approx(other.gain, rel=0.05)  # medians of radii may differ


@pytest.mark.parametrize("n, d, k", [(150, 4, 3), (600, 2, 6), (1500, 8, 10)])
def test_separate_gaussians_are_clear(n, d, k):
    X, _, labels = datasets.make_gaussians(n, k, n_features=d, separation=7, random_state=3)
    found = clear(X, k)
    assert found is not None
    assert len(np.unique(labels * k + found)) == k  # the same partition


def clouds() -> dict[str, tuple[np.ndarray, int]]:
    rng = np.random.default_rng(7)
    three = rng.normal(size=(3, 3))[rng.integers(3, size=600)] * 12
    five = datasets.make_gaussians(500, 5, n_features=3, separation=7, random_state=1)[0]
    return {
        "uniform": (rng.random((600, 3)), 4),
        "one Gaussian": (rng.normal(size=(500, 2)), 3),
        "heavy tails": (three + rng.standard_t(2.5, size=(600, 3)), 3),
        "skewed": (three + rng.lognormal(sigma=1.0, size=(600, 3)), 3),
        "too few components": (five, 4),
        "too many components": (five, 6),
        "overlap": (datasets.make_gaussians(300, 3, separation=3, random_state=0)[0], 3),
        "few objects": (five[:30], 5),
        "a plane": (np.column_stack([five, five[:, 0]]), 5),
    }


@pytest.mark.parametrize("name", clouds())
def test_other_clouds_are_not(name):
    assert clear(*clouds()[name]) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_from_a_clear_partition_is_the_best_of_many(seed):
    X = datasets.make_gaussians(300, 4, n_features=3, separation=7, random_state=seed)[0]
    assert clear(X, 4) is not None
    ours = GaussianMixture(4, covariance_type="full", random_state=0).fit(X)
    peer = Peer(4, n_init=20, tol=1e-6, random_state=0).fit(X)
    assert ours.score(X) >= peer.score(X) - 1e-6
