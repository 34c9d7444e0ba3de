"""Torch arrays through every model that takes them: the answer of NumPy, in torch, to the precision of the type."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from sfumato import (  # noqa: E402
    DiscriminativeClustering,
    FuzzyCMeans,
    GaussianMixture,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.similarity import coassociation  # noqa: E402

TOLERANCE = {np.float64: 1e-6, np.float32: 2e-2}


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(center, 1, (100, 3)) for center in (0, 6, 12)])
    return X, np.repeat(np.arange(3), 100)


@pytest.fixture(scope="module")
def blocks():
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=150)
    W = 0.7 * (labels[:, None] == labels) + 0.1 * rng.random((150, 150))
    return (W + W.T) / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model",
    [
        FuzzyCMeans(3, tol=1e-5, random_state=0),
        FuzzyCMeans(3, fuzzifier=1.5, tol=1e-5, random_state=0),
        FuzzyCMeans(3, entropy=0.5, tol=1e-5, random_state=0),
        GaussianMixture(3, covariance_type="diag", random_state=0),
        GaussianMixture(3, covariance_type="spherical", random_state=0),
        GaussianMixture(3, covariance_type="full", random_state=0),
    ],
    ids=lambda model: repr(model)[:60],
)
def test_features_in_torch_give_the_memberships_of_numpy(model, points, dtype):
    X = points[0].astype(dtype)
    here = model.fit(X)
    memberships, objective = here.memberships_, here.objective_
    there = model.fit(torch.from_numpy(X.copy()))
    assert isinstance(there.memberships_, torch.Tensor)
    assert there.memberships_.dtype == getattr(torch, np.dtype(dtype).name)
    np.testing.assert_allclose(there.memberships_.numpy(), memberships, atol=TOLERANCE[dtype])
    assert there.objective_ == pytest.approx(objective, rel=1e-8 if dtype == np.float64 else 1e-4)
    np.testing.assert_allclose(there.predict_proba(torch.from_numpy(X[:5].copy())).numpy(), memberships[:5], atol=TOLERANCE[dtype])


def test_classes_in_torch_give_the_memberships_of_numpy(points):
    X, y = points
    model = DiscriminativeClustering(3, random_state=0)
    here = model.fit(X, y).memberships_
    there = model.fit(torch.from_numpy(X.copy()), y).memberships_
    np.testing.assert_allclose(np.asarray(there), here, atol=1e-5)


@pytest.mark.parametrize("diagonal", ["exclude", "include"])
def test_a_similarity_in_torch_gives_the_clusters_of_numpy(blocks, diagonal):
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", diagonal=diagonal, random_state=0)
    here = model.fit(blocks)
    labels, objective = here.labels_, here.objective_
    there = model.fit(torch.from_numpy(blocks.copy()))
    assert isinstance(there.memberships_, torch.Tensor)
    assert there.objective_ == pytest.approx(objective, rel=1e-6)
    assert len(np.unique(np.stack([labels, there.labels_.numpy()]), axis=1).T) == 3


def test_spectral_clustering_in_torch_gives_the_clusters_of_numpy(blocks):
    model = SpectralClustering(3, similarity="precomputed", random_state=0)
    here = model.fit(blocks).labels_
    there = model.fit(torch.from_numpy(blocks.copy())).labels_
    assert len(np.unique(np.stack([here, np.asarray(there)]), axis=1).T) == 3


@pytest.mark.parametrize("clusters", [5, 700])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_co_association_multiplies_torch_arrays_like_numpy_ones(rng, clusters, dtype):
    L = rng.integers(-1, clusters, size=(800, 6))
    V = rng.random((800, 3))
    C = coassociation(L)
    expected = C @ V
    for operator in (C, C.to("cpu")):
        product = operator @ torch.from_numpy(V).to(dtype)
        assert product.dtype == dtype
        np.testing.assert_allclose(product.numpy(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("n", "runs", "k"), [(1000, 1, 3), (700, 2, 20), (300, 1, 70)])
def test_a_sweep_on_the_gpu_reports_the_objective_of_its_memberships(rng, n, runs, k):
    from sfumato.kernels import gpu, pairwise, simplex

    A = rng.random((n, 4)).astype(np.float32)
    W = torch.from_numpy(A @ A.T).cuda()
    problem = pairwise.Problem(gpu.Panels(W), True, None)
    V = torch.rand(n, 7, device="cuda")
    assert float(((problem.W @ V) - W.double() @ V.double()).norm() / (W @ V).norm()) < 1e-6
    state = pairwise.start(problem, torch.from_numpy(simplex.draw(rng, (n, runs, k)).astype(np.float32)).cuda())
    values = []
    for _ in range(4):
        state, f = pairwise.coordinate_step(problem, state)
        values.append(f)
    assert np.all(np.diff(values, axis=0) <= 0)
    for run in range(runs):
        U = state.U[:, run].double()
        residual = W.double() - float(state.scale[run]) * U @ U.T
        residual.fill_diagonal_(0)
        assert f[run] == pytest.approx(float((residual**2).sum()), rel=1e-4)
