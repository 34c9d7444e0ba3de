"""The information bottleneck.

Updates, monotone objective, and the sequential move against brute force.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sfumato.models import bottleneck as kernel
from sfumato.numerics.contingency import mutual_information


def table(seed, n=6, classes=3):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, size=(n, classes)) + rng.integers(0, 2, size=(n, 1))
    counts[counts.sum(axis=1) == 0] += 1
    mass = counts.sum(axis=1) / counts.sum()
    return counts / counts.sum(axis=1, keepdims=True), mass


def functional(Y, Q, mass, beta):
    joint = kernel.joint(Y, Q, mass)
    return kernel.compression(Y, mass, joint.sum(axis=1)) - beta * mutual_information(joint)


def start(Q, k, beta, seed=0):
    return kernel.Bottleneck(
        np.full(k, 1 / k),
        kernel.seeds(Q, np.full(len(Q), 1 / len(Q)), k, np.random.default_rng(seed)),
        beta,
    )


@given(st.integers(0, 10_000), st.floats(0.1, 200.0))
def test_objective_never_rises_and_meets_the_functional(seed, beta):
    Q, mass = table(seed)
    state, entropy = start(Q, 3, beta), kernel.entropy(mass @ Q)
    before = np.inf
    for _ in range(20):
        totals = kernel.summarize(Q, mass, state)
        value = totals.objective - beta * entropy
        actual = functional(kernel.assign(Q, state)[0], Q, mass, beta)
        assert value <= before + 1e-10 * beta
        assert actual <= value + 1e-10 * max(1.0, beta)
        before, state = actual, kernel.update(totals.joint, beta)


def test_memberships_by_hand():
    Q, mass = table(1)
    state = start(Q, 2, 3.0)
    Y, _ = kernel.assign(Q, state)
    for x in range(len(Q)):
        divergence = [
            sum(q * np.log(q / p) for q, p in zip(Q[x], row, strict=True) if q > 0)
            for row in state.distributions
        ]
        weights = state.weights * np.exp(-3.0 * np.array(divergence))
        np.testing.assert_allclose(Y[x], weights / weights.sum(), atol=1e-12)


@given(st.integers(0, 10_000))
def test_sparse_equals_dense(seed):
    Q, mass = table(seed)
    state = start(Q, 3, 5.0)
    for dense, sparse in zip(
        kernel.summarize(Q, mass, state),
        kernel.summarize(sp.csr_array(Q), mass, state),
        strict=True,
    ):
        np.testing.assert_allclose(sparse, dense, atol=1e-12)
    np.testing.assert_allclose(
        kernel.seeds(sp.csr_array(Q), mass, 3, np.random.default_rng(1)),
        kernel.seeds(Q, mass, 3, np.random.default_rng(1)),
    )
    labels = np.arange(6) % 3
    np.testing.assert_array_equal(
        kernel.sequential(sp.csr_array(Q), mass, labels, 3)[0],
        kernel.sequential(Q, mass, labels, 3)[0],
    )


@given(st.integers(0, 10_000))
def test_a_sweep_never_loses_relevance_and_ends_where_no_move_gains(seed):
    Q, mass = table(seed)

    def relevance(labels):
        return mutual_information(kernel.joint(np.eye(2)[labels], Q, mass))

    labels, value = np.arange(6) % 2, -1.0
    for _ in range(50):
        labels, found = kernel.sequential(Q, mass, labels, 2)
        assert found == pytest.approx(relevance(labels), abs=1e-12)
        assert found >= value - 1e-12
        if found <= value:
            break
        value = found
    for x, v in itertools.product(range(6), range(2)):
        other = labels.copy()
        other[x] = v
        assert relevance(other) <= value + 1e-10


def test_information_measures():
    Q, mass = table(2)
    joint = Q * mass[:, None]
    assert kernel.entropy(mass @ Q) - mass @ kernel.row_entropies(Q) == pytest.approx(
        mutual_information(joint), abs=1e-12
    )
    assert kernel.compression(np.eye(6), mass, mass) == pytest.approx(
        kernel.entropy(mass), abs=1e-12
    )
