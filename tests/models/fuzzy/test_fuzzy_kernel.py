"""Fuzzy c-means against its definition, by slow loops and by checks of optimality."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.models.fuzzy import kernel
from sfumato.numerics import distances

RULES = [
    kernel.Rule(2.0),
    kernel.Rule(1.3),
    kernel.Rule(3.5),
    kernel.Rule(2.0, temperature=0.7),
    kernel.Rule(2.0, noise=1.5),
]


def block(seed=0, n=40, d=3, k=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(k, d)), rng.random(n) + 0.5


def objective(X, C, U, weights, rule):
    """The printed objective, up to the constant k^(m - 1) that the code leaves out."""
    D = ((X[:, None] - C[None]) ** 2).sum(axis=2)
    if rule.noise is not None:
        D = np.column_stack([D, np.full(len(X), rule.noise)])
    if rule.temperature is not None:
        return np.sum(weights[:, None] * (U * D + rule.temperature * U * np.log(U)))
    return np.sum(weights[:, None] * U**rule.fuzzifier * D) * D.shape[1] ** (rule.fuzzifier - 1)


@pytest.mark.parametrize("rule", RULES)
def test_summary_matches_the_printed_formulas(rule):
    X, C, weights = block()
    Z = distances.features(X.T, "spherical")
    state = kernel.State(C)
    U = kernel.memberships(Z, kernel.ready(state, rule))
    stats = kernel.summarize(Z, weights, kernel.ready(state, rule))
    assert stats.objective == pytest.approx(objective(X, C, U, weights, rule), rel=1e-12)
    m = 1.0 if rule.temperature is not None else rule.fuzzifier
    A = (weights[:, None] * U**m)[:, : len(C)]
    np.testing.assert_allclose(
        kernel.update(stats, state).centers, (A.T @ X) / A.sum(axis=0)[:, None], rtol=1e-10
    )


@pytest.mark.parametrize("rule", RULES)
def test_memberships_minimise_the_objective_of_a_row(rule):
    X, C, weights = block(1, n=5)
    U = kernel.memberships(
        distances.features(X.T, "spherical"), kernel.ready(kernel.State(C), rule)
    )
    best = objective(X, C, U, weights, rule)
    rng = np.random.default_rng(2)
    for _ in range(50):
        other = 0.95 * U + 0.05 * rng.dirichlet(np.ones(U.shape[1]), len(U))
        assert objective(X, C, other, weights, rule) >= best - 1e-12


def test_a_point_on_centers_shares_its_weight_among_them():
    C = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
    for m in (1.05, 2.0, 4.0):
        U = kernel.memberships(
            distances.features(np.zeros((2, 1)), "spherical"),
            kernel.ready(kernel.State(C), kernel.Rule(m)),
        )
        np.testing.assert_allclose(U[0], [0.5, 0.5, 0.0], atol=1e-4 if m > 2 else 1e-12)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(1.001, 300.0), st.booleans())
def test_rows_lie_on_the_simplex_for_any_fuzzifier(seed, fuzzifier, single):
    X, C, _ = block(seed)
    C[0] = X[0]
    Z = distances.features(X.T.astype(np.float32 if single else np.float64), "spherical")
    U = kernel.memberships(Z, kernel.ready(kernel.State(C), kernel.Rule(fuzzifier)))
    assert U.dtype == Z.dtype
    assert U.min() >= 0
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-6 if single else 1e-12)
    stats = kernel.summarize(Z, None, kernel.ready(kernel.State(C), kernel.Rule(fuzzifier)))
    assert np.isfinite(stats.sums).all()
    assert np.isfinite(stats.objective)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_steps_never_raise_the_objective(rule, full):
    X, C, weights = block(3, n=200)
    Z = distances.features(X.T, "full" if full else "spherical")
    state = kernel.State(C, np.repeat(np.eye(3)[None], 3, axis=0) if full else None)
    values = []
    for _ in range(25):
        stats = kernel.summarize(Z, weights, kernel.ready(state, rule))
        values.append(stats.objective)
        state = kernel.update(stats, state)
    assert np.diff(values).max() <= 1e-9 * abs(values[0])
    if full:
        np.testing.assert_allclose(np.linalg.det(state.metrics), 1, rtol=1e-8)


@pytest.mark.parametrize("full", [False, True])
def test_pack_and_unpack_are_inverse(full):
    _, C, _ = block()
    A = np.random.default_rng(0).normal(size=(3, 3, 3))
    S = A @ A.transpose(0, 2, 1) + np.eye(3)
    state = kernel.State(C, S / np.linalg.det(S)[:, None, None] ** (1 / 3) if full else None)
    back = kernel.unpack(kernel.pack(state), state)
    for one, other in zip(state, back, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other)


def test_a_cluster_without_mass_stays():
    state = kernel.State(np.array([[0.0], [9.0]]))
    stats = kernel.Stats(np.array([[2.0, 4.0, 8.0], [0.0, 0.0, 0.0]]), 0.0)
    np.testing.assert_allclose(kernel.update(stats, state).centers, [[2.0], [9.0]])


def test_float32_goes_over_to_float64_where_centers_are_near():
    near = kernel.State(np.array([[30.0, 0.0], [30.001, 0.0]]))
    Z = distances.features(np.array([[30.0002], [0.0]], dtype=np.float32), "spherical")
    x = float(np.float32(30.0002))
    d = np.array([(x - 30.0) ** 2, (x - 30.001) ** 2])
    expected = (1 / d) / (1 / d).sum()
    np.testing.assert_allclose(
        kernel.memberships(Z, kernel.ready(near, kernel.Rule(2.0)))[0], expected, atol=1e-5
    )
