"""Rows on the simplex: projection, normalisation, softmax and the quadratic program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.special import softmax as scipy_softmax

from sfumato.array.arrays import to_numpy
from sfumato.numerics import simplex

rows = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e6, 1e6)
)


@given(rows)
def test_projection_lies_on_the_simplex_and_is_nearest(V):
    U = simplex.project(V)
    assert np.all(U >= 0)
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    corners = np.eye(V.shape[1])
    # nearest point of a convex set: no corner lies in the direction of V
    slack = ((V - U)[:, None, :] * (corners[None] - U[:, None, :])).sum(axis=2)
    assert slack.max() <= 1e-6 * (1 + np.abs(V).max())


@given(rows)
def test_softmax_matches_scipy(V):
    U, total = simplex.softmax(V.copy())
    np.testing.assert_allclose(U, scipy_softmax(V, axis=1), atol=1e-12)
    np.testing.assert_allclose(total, logsumexp(V, axis=1), rtol=1e-12, atol=1e-14)


def test_projection_of_a_simplex_point_is_itself(rng):
    U = rng.dirichlet(np.ones(4), 10)
    np.testing.assert_allclose(simplex.project(U), U, atol=1e-15)


def test_normalize_gives_uniform_rows_where_there_is_no_mass():
    np.testing.assert_allclose(
        simplex.normalize(np.array([[0.0, 0.0], [1.0, 3.0]])), [[0.5, 0.5], [0.25, 0.75]]
    )


def test_kernels_run_on_every_array_library(array, rng):
    V = rng.normal(size=(6, 3))
    np.testing.assert_allclose(to_numpy(simplex.project(array(V))), simplex.project(V), atol=1e-12)
    A = rng.normal(size=(3, 5))
    H = A @ A.T
    expected = simplex.quadratic_program(H, V)
    np.testing.assert_allclose(
        to_numpy(simplex.quadratic_program(array(H), array(V))), expected, atol=1e-8
    )


@pytest.mark.parametrize("k", [2, 3, 7])
def test_quadratic_program_against_scipy(k, rng):
    A = rng.normal(size=(k, k + 2))
    H, B = A @ A.T, 3 * rng.normal(size=(4, k))
    U = simplex.quadratic_program(H, B)
    for u, b in zip(U, B, strict=True):
        found = minimize(
            lambda v, b=b: v @ H @ v / 2 - b @ v,
            np.full(k, 1 / k),
            jac=lambda v, b=b: H @ v - b,
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert u @ H @ u / 2 - b @ u <= found.fun + 1e-9


def test_quadratic_program_with_flat_curvature_takes_the_whole_step():
    U = simplex.quadratic_program(np.zeros((3, 3)), np.array([[0.0, 2.0, 1.0]]))
    np.testing.assert_allclose(U, [[0, 1, 0]])


def test_pair_steps_with_a_matrix_for_each_run_equal_single_runs(rng):
    k, r, p = 4, 3, 5
    H = np.stack([(lambda A: A @ A.T)(rng.normal(size=(k, 6))) for _ in range(r)])
    U = rng.dirichlet(np.ones(k), (p, r))
    B = rng.normal(size=(p, r, k))
    gradient = np.einsum("prk,rkl->prl", U, H) - B
    together = simplex.pair_steps(
        H, gradient.reshape(-1, k).copy(), U.reshape(-1, k).copy(), 3
    ).reshape(p, r, k)
    for run in range(r):
        alone = simplex.pair_steps(H[run], gradient[:, run].copy(), U[:, run].copy(), 3)
        np.testing.assert_allclose(together[:, run], alone, atol=1e-14)


def optimality_gap(H, B, U):
    """Largest excess of a used coordinate's slope over the smallest slope of its row."""
    gradient = np.einsum("ij,ijk->ik", U, np.broadcast_to(H, (len(U), *H.shape[-2:]))) - B
    return (np.where(U > 0, gradient, -np.inf).max(axis=1) - gradient.min(axis=1)).max()


@pytest.mark.parametrize("k", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("noise", [0.1, 10.0])
def test_the_active_set_equals_the_pair_steps(k, noise, rng):
    xp = pytest.importorskip("array_api_strict")
    members = rng.dirichlet(np.full(k, 0.2), 300)
    H = members.T @ members
    B = rng.dirichlet(np.full(k, 0.5), 20) @ H + noise * rng.normal(size=(20, k))
    U = simplex.quadratic_program(H, B)
    assert U.min() >= 0
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-14)
    assert optimality_gap(H, B, U) <= 1e-12 * (H.max() + np.abs(B).max())
    given = xp.asarray(H), xp.asarray(B)
    slow = to_numpy(simplex.quadratic_program(*given, max_steps=2000, tol=1e-15))
    np.testing.assert_allclose(U, slow, atol=1e-11)
    value = np.einsum("ij,jk,ik->i", U, H, U) / 2 - (U * B).sum(axis=1)
    slow_value = np.einsum("ij,jk,ik->i", slow, H, slow) / 2 - (slow * B).sum(axis=1)
    np.testing.assert_allclose(value, slow_value, rtol=1e-12, atol=1e-12 * np.abs(B).max())


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_active_set_with_flat_directions_is_optimal(rank, rng):
    A = rng.normal(size=(8, rank))
    H, B = A @ A.T, rng.normal(size=(200, 8))
    U = simplex.quadratic_program(H, B)
    assert U.min() >= 0
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-14)
    assert optimality_gap(H, B, U) <= 1e-12


def test_a_matrix_for_every_row_equals_single_programs(array, rng):
    A = rng.normal(size=(20, 5, 7))
    H, B = A @ np.swapaxes(A, 1, 2), 2 * rng.normal(size=(20, 5))
    together = to_numpy(simplex.quadratic_program(array(H), array(B)))
    for i in range(20):
        alone = simplex.quadratic_program(H[i], B[i : i + 1])
        np.testing.assert_allclose(together[i], alone[0], atol=1e-9)


def test_shapes_that_do_not_belong_together_are_refused(rng):
    with pytest.raises(ValueError, match="H must be"):
        simplex.quadratic_program(np.eye(3), rng.normal(size=(4, 2)))


@given(
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e150]),
)
def test_the_quadratic_program_does_not_depend_on_units(k, seed, unit):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(k, k + 1)), rng.normal(size=(3, k))
    H = A @ A.T
    np.testing.assert_allclose(
        simplex.quadratic_program(unit * H, unit * B), simplex.quadratic_program(H, B), atol=1e-6
    )


def test_the_quadratic_program_keeps_float32_and_writes_to_nothing(rng):
    H, B = np.eye(3, dtype=np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    H.flags.writeable = B.flags.writeable = False
    U = simplex.quadratic_program(H, B)
    assert U.dtype == np.float32
    np.testing.assert_allclose(U, simplex.project(B), atol=1e-6)
