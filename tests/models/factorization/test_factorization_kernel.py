"""Completely positive factorization: monotone, exact, and the same as slow loops."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from sfumato.array.arrays import native
from sfumato.engine import loop
from sfumato.models import factorization as kernel
from sfumato.similarity import doubly_stochastic


def slow_objective(F, G):
    n = len(F)
    return 0.5 * sum((F[i, j] - G[i] @ G[j]) ** 2 for i in range(n) for j in range(n) if i != j)


def problems(rng, n=14):
    B = rng.random((n, 3)) * (rng.random((n, 3)) < 0.7)
    F = B @ B.T
    forms = (F, False), (sp.csr_array(F), False), (B, True), (sp.csr_array(B), True)
    return F, [kernel.Problem.of(form, low) for form, low in forms]


def test_objective_and_sweeps_agree_over_every_form(rng):
    F, forms = problems(rng)
    G = rng.random((14, 4))
    for exact in (True, False):
        results = []
        for problem in forms:
            state = kernel.scaled_start(problem, G)
            assert state.objective == pytest.approx(slow_objective(F, state.G), rel=1e-10)
            for _ in range(3):
                state, value = kernel.sweep(problem, exact, state)
            assert value == pytest.approx(slow_objective(F, state.G), rel=1e-9)
            results.append(state.G)
        for other in results[1:]:
            np.testing.assert_allclose(other, results[0], atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 5))
def test_objective_never_rises_whatever_the_similarity(seed, exact, k):
    rng = np.random.default_rng(seed)
    F = rng.random((9, 9)) * (rng.random((9, 9)) < 0.5)
    F += F.T
    problem = kernel.Problem.of(F)
    state = kernel.scaled_start(problem, rng.random((9, k)))
    for _ in range(6):
        before = state
        state, value = kernel.sweep(problem, exact, state)
        assert value <= before.objective
        assert slow_objective(F, state.G) <= slow_objective(F, before.G) + 1e-9
        assert state.G.min() >= 0


def test_published_update_entry_by_entry(rng):
    F, G = problems(rng)[0], rng.random((14, 3))
    problem = kernel.Problem.of(F)
    expected = G.copy()
    for i in range(14):
        for r in range(3):
            others = [j for j in range(14) if j != i]
            above = sum(F[i, j] * expected[j, r] for j in others)
            below = sum(
                expected[i, s] * sum(expected[j, s] * expected[j, r] for j in others)
                for s in range(3)
            )
            expected[i, r] *= above / below
    state, _ = kernel.sweep(problem, False, kernel.State(G, kernel.objective(problem, G)))
    np.testing.assert_allclose(state.G, expected, rtol=1e-10)


def slow_walk(problem, exact, G, S, M):
    """Update every row of ``G`` in turn and return what was gained.

    S = G'G and M = B'G (G itself unless low) are kept up to date.
    """
    rule = exact_rule if exact else multiplicative_rule
    copies = np.zeros(len(G)) if problem.copies is None else problem.copies
    gained = 0.0
    for i in range(G.shape[0]):
        columns, entries = row_of(problem.F, i)
        g, c, own = G[i].astype(np.float64), float(copies[i]), float(problem.diagonal[i])
        b = entries @ M[columns] - own * g
        H = S - np.outer(g, g)
        new = rule(H, b, g, c, own).astype(G.dtype).astype(np.float64)
        # f(g) - f(new) of a quadratic, without the cancellation of two separate values.
        change = float((g - new) @ (H @ (g + new) - 2 * b))
        if c > 0:
            before, after = float(g @ g), float(new @ new)
            change += 0.5 * c * (after - before) * (2 * own - before - after)
        # In float32 a step at the minimum may seem to lose by rounding.
        gained += max(0.0, change)
        S[:] = H + np.outer(new, new)
        G[i] = new
        if problem.low:
            M[columns] += np.outer(entries, new - g).astype(M.dtype)
    return gained


def row_of(F, i):
    """Where row i has entries, and the entries."""
    if sp.issparse(F):
        entries = slice(F.indptr[i], F.indptr[i + 1])
        return F.indices[entries], F.data[entries]
    return slice(None), F[i]


def exact_rule(H, b, g, copies, own):
    """Each entry in turn at its minimum, twice; an entry that no other object has is 0."""
    g = g.copy()
    slope = b - H @ g
    for _ in range(2):
        for r in range(g.shape[0]):
            if copies > 0:
                bend = H[r, r] + copies * (float(g @ g) - g[r] ** 2 - own)
                change = (
                    native("factorization").cubic_minimum(copies, bend, slope[r] + H[r, r] * g[r])
                    - g[r]
                )
            else:
                change = max(-g[r], slope[r] / H[r, r]) if H[r, r] > 0 else -g[r]
            g[r] += change
            slope -= change * H[r]
    return g


def multiplicative_rule(H, b, g, copies, own):
    """The published update, one entry after another.

    Copies make the objective a quartic, for which the ratio's fourth root never raises it.
    """
    g = g.copy()
    for r in range(g.shape[0]):
        above = float(b[r]) + copies * own * g[r]
        below = float(H[r] @ g) + copies * float(g @ g) * g[r]
        ratio = max(0.0, above) / below if below > 0 else 0.0
        g[r] *= ratio if copies == 0 else ratio**0.25
    return g


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sweep_equals_the_slow_one(rng, exact, dtype):
    for problem in problems(rng)[1]:
        problem = kernel.Problem.of(problem.F.astype(dtype), problem.low)
        G = rng.random((14, 4)).astype(dtype)
        slow = G.copy()
        M = np.asarray(problem.F.T @ G) if problem.low else slow
        gained = slow_walk(problem, exact, slow, G.astype(float).T @ G, M)
        state, value = kernel.sweep(problem, exact, kernel.State(G, 1e6))
        if dtype == np.float64:
            np.testing.assert_allclose(state.G, slow, rtol=1e-8, atol=1e-12)
        # In float32 an entry that no other object has is a matter of rounding.
        assert 1e6 - value == pytest.approx(gained, rel=1e-6 if dtype == np.float64 else 1e-3)


def test_fold_in_is_nonnegative_least_squares(rng):
    G, rows = rng.random((30, 4)), rng.random((6, 30)) - 0.2
    expected = [nnls(G, row)[0] for row in rows]
    np.testing.assert_allclose(kernel.fold_in(rows @ G, G.T @ G), expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_exact_coordinates_need_a_fifth_of_the_published_sweeps(seed):
    """Five overlapping groups of 10 to 30 objects with unequal strengths."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(5), [10, 20, 30, 20, 20])
    strength = rng.uniform(0.2, 1, 100)
    F = (
        np.outer(strength, strength)
        * np.where(labels[:, None] == labels, 1.0, 0.15)
        * np.exp(0.1 * rng.normal(size=(100, 100)))
    )
    problem = kernel.Problem.of(doubly_stochastic((F + F.T) / 2).toarray())
    start = kernel.scaled_start(problem, rng.random((100, 5)))
    published = loop.iterate(partial(kernel.sweep, problem, False), start, max_iter=3000, tol=1e-8)
    assert published.converged
    n_sweeps = 0

    def step(state):
        nonlocal n_sweeps
        n_sweeps += 1
        return kernel.sweep(problem, True, state)

    accelerated = loop.Extrapolation.accelerate(
        step, partial(kernel.combine, problem), lambda mask, one, other: one if mask else other
    )
    state, value = loop.Extrapolation(start), np.inf
    while value > published.objective and n_sweeps < published.n_iter:
        state, value = accelerated(state)
    assert n_sweeps <= published.n_iter / 5


def copied_objective(F, G, counts):
    """f of copies that share a row, each pair of different copies once in each order."""
    rows = np.repeat(np.arange(len(F)), counts)
    return slow_objective(F[np.ix_(rows, rows)], G[rows])


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 4))
def test_weights_are_copies_and_sweeps_stay_monotone(seed, exact, k):
    rng = np.random.default_rng(seed)
    F = rng.random((8, 8)) * (rng.random((8, 8)) < 0.6)
    F += F.T
    counts = rng.integers(1, 4, 8)
    root = np.sqrt(counts)
    E = root[:, None] * F * root
    problem = kernel.Problem.of(E, False, counts.astype(float))
    sparse = kernel.Problem.of(sp.csr_array(E), False, counts.astype(float))
    state = kernel.scaled_start(problem, rng.random((8, k)))
    for _ in range(4):
        before = copied_objective(F, state.G / root[:, None], counts)
        assert state.objective == pytest.approx(before, rel=1e-9, abs=1e-9)
        plain = state.G.copy()
        slow_walk(problem, exact, plain, plain.T @ plain, plain)
        other, _ = kernel.sweep(sparse, exact, state)
        state, value = kernel.sweep(problem, exact, state)
        np.testing.assert_allclose(other.G, state.G, atol=1e-8)
        np.testing.assert_allclose(plain, state.G, atol=1e-8)
        assert value <= before + 1e-9


@given(st.floats(0.1, 3), st.floats(-4, 4), st.floats(-4, 4))
def test_cubic_minimum_is_the_best_of_a_fine_grid(a, h, b):
    def value(x):
        return a * x**4 / 4 + h * x**2 / 2 - b * x

    found = native("factorization").cubic_minimum(a, h, b)
    assert found >= 0
    assert value(found) <= value(np.linspace(0, 12, 4001)).min() + 1e-9
