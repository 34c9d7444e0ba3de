"""Kernels of our own on a CUDA device: what NumPy does, to the precision of float32."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
pytest.importorskip("triton")

from sklearn.base import clone

from sfumato import PairwiseProbabilisticClustering
from sfumato.components import gaussian
from sfumato.components.gaussian import family_of
from sfumato.models.fuzzy import kernel as fuzzy
from sfumato.models.pairwise import cuda
from sfumato.models.pairwise import kernel as pairwise
from sfumato.models.pairwise import kernel as panels
from sfumato.numerics import distances, simplex


def similarity(rng, n):
    A = rng.random((n, 4)).astype(np.float32)
    return A @ A.T


@pytest.mark.parametrize("n", [1000, 129])
@pytest.mark.parametrize("columns", [1, 7, 40, 64, 100, 200, 300])
def test_products_have_the_error_of_float32(rng, n, columns):
    W = similarity(rng, n)
    V = rng.normal(size=(n, columns)).astype(np.float32)
    product = cuda.Panels(torch.from_numpy(W).cuda()) @ torch.from_numpy(V).cuda()
    exact = W.astype(np.float64) @ V.astype(np.float64)
    assert np.linalg.norm(product.cpu().numpy() - exact) < 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize(
    ("n", "runs", "k"),
    [(1024, 1, 3), (1024, 2, 20), (512, 1, 70), (256, 4, 64), (384, 5, 64), (128, 1, 2)],
)
def test_a_sweep_is_that_of_the_panels_on_the_processor(rng, n, runs, k, exclude):
    W, U = similarity(rng, n), simplex.draw(rng, (n, runs, k)).astype(np.float32)
    there = pairwise.Problem(cuda.Panels(torch.from_numpy(W).cuda()), exclude, None)
    here = pairwise.Problem(pairwise.Explicit(torch.from_numpy(W).double()), exclude, None)
    here.W.panels = there.W.panels
    state, f = panels.panel_step(there, pairwise.start(there, torch.from_numpy(U).cuda()))
    expected, f_expected = panels.panel_step(
        here, pairwise.start(here, torch.from_numpy(U).double())
    )
    np.testing.assert_allclose(f, f_expected, rtol=1e-5)
    assert np.abs(state.U.cpu().numpy() - expected.U.numpy()).mean() < 1e-6
    np.testing.assert_allclose(state.U.sum(2).cpu().numpy(), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "runs", "k"), [(1000, 1, 3), (700, 2, 20), (300, 1, 70), (900, 5, 64)]
)
def test_sweeps_report_the_objective_of_their_memberships_and_never_raise_it(rng, n, runs, k):
    W = torch.from_numpy(similarity(rng, n)).cuda()
    problem = pairwise.Problem(cuda.Panels(W), True, None)
    state = pairwise.start(
        problem, torch.from_numpy(simplex.draw(rng, (n, runs, k)).astype(np.float32)).cuda()
    )
    values = []
    for _ in range(4):
        state, f = panels.panel_step(problem, state)
        values.append(f)
    assert np.all(np.diff(values, axis=0) <= 0)
    for run in range(runs):
        U = state.U[:, run].double()
        residual = W.double() - float(state.scale[run]) * U @ U.T
        residual.fill_diagonal_(0)
        assert f[run] == pytest.approx(float((residual**2).sum()), rel=1e-4)


def test_the_same_sweep_twice_is_the_same_to_the_last_bit(rng):
    problem = pairwise.Problem(
        cuda.Panels(torch.from_numpy(similarity(rng, 900)).cuda()), True, None
    )
    start = pairwise.start(
        problem, torch.from_numpy(simplex.draw(rng, (900, 2, 20)).astype(np.float32)).cuda()
    )
    first, second = (panels.panel_step(problem, start) for _ in range(2))
    assert torch.equal(first[0].U, second[0].U)
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["fuzzy 2", "fuzzy 1.3", "fuzzy 3.5", "diag", "spherical"])
def test_sums_of_soft_assignment_are_those_of_numpy(rng, kind, weighted):
    n, d, k = 5000, 7, 20
    centers = 2 * rng.normal(size=(k, d))
    X = (rng.normal(size=(n, d)) + centers[rng.integers(k, size=n)]).T.copy()
    weights = rng.random(n) if weighted else None
    if kind.startswith("fuzzy"):
        rule = fuzzy.Rule(float(kind.removeprefix("fuzzy ")))
        ready, summarize = fuzzy.ready(fuzzy.State(centers), rule), fuzzy.summarize
    else:
        spread = np.full((k, d), 1.1) if kind == "diag" else np.full(k, 1.1)
        ready, summarize = (
            gaussian.ready(
                gaussian.State(np.full(k, 1 / k), centers, spread, family_of(kind), 1e-6)
            ),
            gaussian.summarize,
        )
    features = "diag" if kind == "diag" else "spherical"
    X_there = torch.from_numpy(X.astype(np.float32)).cuda()
    weights_there = None if weights is None else torch.from_numpy(weights.astype(np.float32)).cuda()
    here = summarize(distances.features(X, features), weights, ready)
    there = summarize(distances.features(X_there, features), weights_there, ready)
    np.testing.assert_allclose(
        np.asarray(there.sums), here.sums, rtol=1e-3, atol=1e-4 * np.abs(here.sums).max()
    )
    assert there.objective == pytest.approx(here.objective, rel=1e-4)


@pytest.mark.parametrize("columns", [1, 40, 300])
def test_products_with_short_entries_lose_nothing_more(rng, columns):
    W = torch.from_numpy(similarity(rng, 700)).cuda().bfloat16()
    V = rng.normal(size=(700, columns)).astype(np.float32)
    product = cuda.Panels(W) @ torch.from_numpy(V).cuda()
    exact = W.double().cpu().numpy() @ V.astype(np.float64)
    assert np.linalg.norm(product.cpu().numpy() - exact) < 1e-6 * np.linalg.norm(exact)


def test_a_fit_of_short_entries_reaches_the_objective_of_long_ones(rng):
    labels = rng.integers(5, size=3000)
    W = (labels[:, None] == labels) * 0.6 + 0.2 * rng.random((3000, 3000))
    W = torch.from_numpy(((W + W.T) / 2).astype(np.float32)).cuda()
    model = PairwiseProbabilisticClustering(5, similarity="precomputed", random_state=0)
    long, short = clone(model).fit(W), clone(model).fit(W.bfloat16())
    assert short.objective_ == pytest.approx(long.objective_, rel=1e-3)
    together = (model.memberships_ @ model.memberships_.T for model in (long, short))
    assert float((next(together) - next(together)).abs().max()) < 0.02
