"""The pairwise kernels against the double sum over pairs, finite differences and each other."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from sfumato.array.arrays import to_numpy
from sfumato.engine import loop
from sfumato.models.pairwise import kernel
from sfumato.models.pairwise import kernel as panels
from sfumato.numerics import simplex


def similarity(rng, n=40):
    A = rng.random((n, 3))
    return A @ A.T


def slow_objective(W, U, scale, exclude):
    residual = W - scale * U @ U.T
    if exclude:
        np.fill_diagonal(residual, 0)
    return np.square(residual).sum()


def evidence(W):
    factor = np.linalg.cholesky(W + 1e-9 * np.eye(len(W)))
    return {
        "dense": kernel.Explicit(W),
        "sparse": kernel.Explicit(sp.csr_array(W)),
        "factor": kernel.Low(factor),
        "sparse factor": kernel.Low(sp.csr_array(factor)),
        "operator": kernel.Implicit(aslinearoperator(W)),
    }


def test_a_part_of_a_similarity_is_that_of_its_rows_and_columns():
    W, rows = similarity(np.random.default_rng(0), 6), np.array([4, 1, 3])
    strict = pytest.importorskip("array_api_strict").asarray(W)
    for given in (W, strict):
        part = kernel.Explicit(given).part(rows).W
        np.testing.assert_array_equal(np.asarray(part), W[np.ix_(rows, rows)])


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "factor", "sparse factor"])
def test_a_sweep_reports_the_objective_of_its_memberships(rng, kind, exclude):
    W = similarity(rng)
    problem = kernel.Problem(evidence(W)[kind], exclude, None)
    state = kernel.start(problem, simplex.draw(rng, (40, 2, 3)))
    for _ in range(3):
        state, f = kernel.coordinate_step(problem, state)
    for run in range(2):
        assert f[run] == pytest.approx(
            slow_objective(W, state.U[:, run], state.scale[run], exclude), rel=1e-6
        )


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_every_kind_of_similarity_reaches_the_same_minimum(rng, exclude, scale):
    W = similarity(rng)
    begin = simplex.draw(rng, (40, 1, 3))
    found = {}
    for kind, operator in evidence(W).items():
        problem = kernel.Problem(operator, exclude, scale)
        sweep = panels.panel_step if kind == "operator" else kernel.coordinate_step
        step = loop.Extrapolation.accelerate(partial(sweep, problem), kernel.combine, kernel.select)
        begun = loop.Extrapolation(kernel.start(problem, begin))
        run = loop.iterate(step, begun, max_iter=3000, tol=1e-13)
        found[kind] = float(run.objective[0])
    assert max(found.values()) - min(found.values()) <= 1e-4 * np.square(W).sum(), found


@pytest.mark.parametrize("exclude", [False, True])
def test_steps_never_raise_the_objective_and_stay_on_the_simplex(rng, exclude):
    W = rng.random((50, 50))
    W = W + W.T
    problem = kernel.Problem(kernel.Explicit(W), exclude, None)
    implicit = kernel.Problem(kernel.Implicit(W), exclude, None)
    U = simplex.draw(rng, (50, 2, 4))
    for step, state in (
        (partial(kernel.coordinate_step, problem), kernel.start(problem, U)),
        (partial(panels.panel_step, problem), kernel.start(problem, U)),
        (partial(kernel.baum_eagon_step, problem), kernel.start(problem, U)),
        (partial(panels.panel_step, implicit), kernel.start(implicit, U)),
    ):
        run = loop.iterate(step, state, max_iter=60, tol=0)
        assert np.all(np.diff(run.history, axis=0) <= 1e-9 * np.square(W).sum())
        np.testing.assert_allclose(run.state.U.sum(axis=2), 1, atol=1e-12)
        assert run.state.U.min() >= 0


@pytest.mark.parametrize("exclude", [False, True])
def test_descent_direction_is_minus_a_quarter_of_the_gradient_over_the_scale(rng, exclude):
    W, U, a = similarity(rng, 8), rng.dirichlet(np.ones(3), 8), 0.6
    problem = kernel.Problem(kernel.Explicit(W), exclude, a)
    R = -kernel.slopes(problem, kernel.State(U[:, None], np.array([a]), None, (W @ U)[:, None]))
    numeric = np.empty_like(U)
    for index in np.ndindex(*U.shape):
        up, down = U.copy(), U.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        numeric[index] = (
            slow_objective(W, up, a, exclude) - slow_objective(W, down, a, exclude)
        ) / 2e-6
    np.testing.assert_allclose(-4 * a * R[:, 0], numeric, atol=1e-7)


def test_printed_denominator_drifts_and_the_row_sum_does_not(rng):
    """The source divides by a n + sum_r u_ir R_ir, which is the row sum only while rows sum to one.

    Errors grow.
    """
    W = similarity(rng, 30)
    problem = kernel.Problem(kernel.Explicit(W), False, None)
    state = kernel.start(problem, simplex.draw(rng, (30, 1, 3)))
    off_printed = state.U[:, 0] * (1 + 1e-9)
    for _ in range(300):
        S = off_printed.T @ off_printed
        a = (off_printed * (W @ off_printed)).sum() / np.square(S).sum()
        R = W @ off_printed - a * off_printed @ S
        off_printed = (
            off_printed * (a * 30 + R) / (a * 30 + (off_printed * R).sum(axis=1, keepdims=True))
        )
        state, _ = kernel.baum_eagon_step(problem, state)
    assert np.abs(off_printed.sum(axis=1) - 1).max() > 2e-9
    assert np.abs(state.U.sum(axis=2) - 1).max() < 1e-14


def test_sweeps_by_panels_run_on_every_array_library(array, rng):
    W, U = similarity(rng, 20), simplex.draw(rng, (20, 1, 3))
    values = []
    for make in (np.array, array):
        problem = kernel.Problem(kernel.Explicit(make(W)), True, None)
        state = kernel.start(problem, make(U))
        for _ in range(100):
            state, f = panels.panel_step(problem, state)
        values.append(f[0])
        np.testing.assert_allclose(to_numpy(state.U).sum(axis=2), 1, atol=1e-12)
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_kkt_residual_vanishes_at_a_minimum_only(rng):
    W = similarity(rng)
    problem = kernel.Problem(kernel.Explicit(W), True, None)
    begin = kernel.start(problem, simplex.draw(rng, (40, 1, 3)))
    run = loop.iterate(partial(kernel.coordinate_step, problem), begin, max_iter=3000, tol=0)
    assert kernel.kkt_residual(problem, begin)[0] > 1e-3
    assert kernel.kkt_residual(problem, run.state)[0] < 1e-6
