"""Moves between partitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sfumato import datasets
from sfumato.numerics.seeding import best_move


def log_likelihood(X: np.ndarray, labels: np.ndarray) -> float:
    """Of objects that are in their groups for certain, by SciPy."""
    value = 0.0
    for j in np.unique(labels):
        group = X[labels == j]
        normal = multivariate_normal(group.mean(axis=0), np.cov(group.T, bias=True))
        value += normal.logpdf(group).sum() + len(group) * np.log(len(group) / len(X))
    return value


def test_the_gain_of_a_move_is_that_of_the_likelihood():
    X, _, labels = datasets.make_gaussians(400, 4, n_features=3, separation=7, random_state=0)
    joined = np.where(labels == 1, 0, labels)  # two clusters are one group, and one is cut in two
    joined[(labels == 2) & (X[:, 0] > np.median(X[labels == 2, 0]))] = 1
    gain, moved, clear = best_move(X, np.ones(len(X)), joined, 4)
    assert 0.0 < gain < np.inf
    assert not clear
    assert gain == pytest.approx(log_likelihood(X, moved) - log_likelihood(X, joined), abs=1e-6)


def test_weights_count_as_copies():
    X, _, labels = datasets.make_gaussians(200, 3, separation=4, random_state=1)
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weights)
    one = best_move(X, weights.astype(float), labels, 3)
    other = best_move(X[copies], np.ones(len(copies)), labels[copies], 3)
    assert one[0] == pytest.approx(other[0], rel=0.05)  # medians of radii may differ
