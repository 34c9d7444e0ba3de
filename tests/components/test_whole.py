"""The native loop against steps in NumPy, in every family."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.array.arrays import native
from sfumato.array.rows import Rows
from sfumato.components import gaussian as families
from sfumato.components import gaussian as kernel
from sfumato.components.gaussian import Gaussian, Measured
from sfumato.engine import loop
from sfumato.engine.search import Objects
from sfumato.numerics import seeding
from sfumato.numerics.distances import measure


def problem(family, seed=0, n=120, d=3, k=3, noise=None, weighted=False, outlier=False):
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    if outlier:
        X[0] += 400.0
    weights = rng.integers(1, 4, size=n).astype(float) if weighted else None
    data = Objects.of(X, weights)
    whole = families.reduced(np.broadcast_to(np.eye(d), (k, d, d)), family)
    shares = np.full(k + (noise is not None), 1.0 / (k + (noise is not None)))
    state = kernel.State(shares, rng.normal(size=(k, d)), np.array(whole), family, 1e-9, noise)
    return data, state


def likelihood(data, state, prior=None):
    plain = Rows(data.X, data.weights)
    coordinates = measure(plain, per_feature=True, mix=families.kind_of(state.family) == "full")
    measured, noise = Measured(coordinates, data.count, False), None if state.noise is None else 0.1
    k = len(state.means)
    return data.likelihood(Gaussian(k, state.family, measured, 1e-9, noise, None, prior))


def plain(monkeypatch):
    monkeypatch.setattr(Gaussian, "whole", lambda self, *_: None)


def same(one, other):
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(kernel.matrices(one), kernel.matrices(other), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("family", families.FAMILIES)
def test_a_run_equals_the_plain_run(family, noise, prior, monkeypatch):
    density = np.full(3, -1.5) if noise else None
    data, state = problem(family, noise=density, weighted=noise)
    both = likelihood(data, state, "default" if prior else None)
    fast = both.run(state, 40, 1e-9)
    plain(monkeypatch)
    numpy_only = likelihood(data, state, "default" if prior else None)
    slow = numpy_only.run(state, 40, 1e-9)
    assert fast.n_iter == slow.n_iter
    assert fast.converged == slow.converged
    np.testing.assert_allclose(fast.history, slow.history, rtol=1e-10)
    same(fast.state, slow.state)
    rating = numpy_only.rating(slow.state)
    monkeypatch.undo()
    np.testing.assert_allclose(both.rating(slow.state), rating)


@pytest.mark.parametrize("family", ["VVV", "EEI", "VII", "VEV"])
def test_short_runs_and_one_feature_and_outliers_equal_the_plain_ones(family, monkeypatch):
    for settings in ({"d": 1}, {"outlier": True}, {"d": 5, "k": 2}):
        data, state = problem(family, **settings)
        fast, value = likelihood(data, state).steps(state, 5)
        with monkeypatch.context() as patch:
            plain(patch)
            slow, expected = likelihood(data, state).steps(state, 5)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        same(fast, slow)


def test_whoever_watches_sees_the_end_of_a_run_and_does_not_change_it():
    data, state = problem("VVV")
    seen = []
    with loop.progress(lambda i, n, value: seen.append((i, n, value))):
        watched = likelihood(data, state).run(state, 30, 1e-8)
    alone = likelihood(data, state).run(state, 30, 1e-8)
    assert seen == [(alone.n_iter, alone.n_iter, alone.objective)]
    np.testing.assert_array_equal(watched.history, alone.history)


def slowly_merged(Z, a, wanted):
    """Groups (n,) of the objects for all wanted numbers, each cost from the objects themselves."""

    def cost(rows):
        """N log((tr W + a) / N + det(W / N)) by LAPACK."""
        N = len(rows)
        W = (Z[rows] - Z[rows].mean(axis=0)).T @ (Z[rows] - Z[rows].mean(axis=0))
        inner = (np.trace(W) + a) / N + max(np.linalg.det(W / N), 0.0)
        return N * np.log(max(inner, np.finfo(float).tiny))

    groups, found = {i: [i] for i in range(len(Z))}, {}
    own = {i: cost(rows) for i, rows in groups.items()}
    rise = {
        (i, j): cost(groups[i] + groups[j]) - own[i] - own[j]
        for i in groups
        for j in groups
        if i < j
    }
    while len(groups) > min(wanted):
        i, j = min(rise, key=rise.get)
        groups[i] += groups.pop(j)
        own[i] = cost(groups[i])
        rise = {pair: value for pair, value in rise.items() if j not in pair}
        for other in groups.keys() - {i}:
            pair = (min(i, other), max(i, other))
            rise[pair] = cost(groups[i] + groups[other]) - own[i] - own[other]
        if len(groups) in wanted:
            labels = np.empty(len(Z), dtype=int)
            for label, i in enumerate(sorted(groups)):
                labels[groups[i]] = label
            found[len(groups)] = labels
    return found


def test_merging_equals_the_merging_of_arrays():
    for n, d in ((40, 2), (30, 5), (60, 2)):
        X = np.random.default_rng(d).normal(size=(n, d))
        weights = np.ones(n)
        Z = seeding._half_white(X, weights)
        spread = np.sum((Z - Z.mean(axis=0)) ** 2) / (n * d)
        slow, fast = slowly_merged(Z, spread, {2, 3, 7}), seeding.Hierarchy.of(X, weights)
        for k in (2, 3, 7):
            np.testing.assert_array_equal(fast.labels(k), slow[k])


def test_merging_refuses_what_does_not_fit_and_survives_what_is_no_number():
    merges = native("agglomerate").merges
    with pytest.raises(ValueError, match="groups"):
        merges(np.ones(2), np.zeros((3, 2)), np.zeros((3, 2, 2)), 1.0, 1)
    nothing = merges(np.ones(3), np.full((3, 2), np.nan), np.zeros((3, 2, 2)), 1.0, 1)
    assert sorted(nothing[:, 1]) == [1, 2]
    assert merges(np.ones(3), np.zeros((3, 2)), np.zeros((3, 2, 2)), 1.0, 5).shape == (0, 2)


def test_a_mixture_refuses_what_does_not_fit():
    mixture = native("em").Mixture
    rest = ((0, 0, 2), np.empty((0, 2)), 0.0, None, None)
    for Z, weights, shape in (
        (np.ones((4, 5)), None, (2, 1, 2)),
        (np.ones((5, 0)), None, (2, 1, 2)),
        (np.ones((5, 5)), np.ones(3), (2, 1, 2)),
        (np.ones((5, 5)), None, (0, 1, 2)),
    ):
        with pytest.raises(ValueError, match="must|no objects"):
            mixture(Z, weights, 2, shape, *rest)
