"""Arrays of torch and CuPy, on every device there is, through every model that takes them.

The answer of NumPy, to their precision.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from sfumato import (
    DiscriminativeClustering,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.array.arrays import namespace, to_numpy
from sfumato.models.discriminative import problem as kernel
from sfumato.numerics import eigen
from sfumato.numerics.operators import normalized_operator
from sfumato.similarity import coassociation
from sfumato.similarity.doubly_stochastic import entropy_dual, fixed_point, frobenius_dual, newton

TOLERANCE = {np.float64: 1e-6, np.float32: 2e-2}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(
    params=[
        "torch-cpu",
        pytest.param("torch-cuda", marks=needs_cuda),
        pytest.param("cupy", marks=needs_cuda),
    ]
)
def put(request):
    """A function that puts a NumPy array into a library and on a device."""
    if request.param == "cupy":
        return pytest.importorskip("cupy").asarray
    device = request.param.partition("-")[2]
    return lambda values: torch.from_numpy(np.array(values)).to(device)


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


def same_clusters(here, there, k):
    return len(np.unique(np.stack([here, to_numpy(there)]), axis=1).T) == k


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
def test_features_give_the_memberships_of_numpy(model, points, put, dtype):
    X = points[0].astype(dtype)
    here = model.fit(X)
    memberships, objective = here.memberships_, here.objective_
    there = model.fit(put(X))
    assert type(there.memberships_) is type(put(X))
    assert to_numpy(there.memberships_).dtype == dtype
    np.testing.assert_allclose(to_numpy(there.memberships_), memberships, atol=TOLERANCE[dtype])
    assert there.objective_ == pytest.approx(objective, rel=1e-8 if dtype == np.float64 else 1e-4)
    np.testing.assert_allclose(
        to_numpy(there.predict_proba(put(X[:5]))), memberships[:5], atol=TOLERANCE[dtype]
    )


def test_classes_give_the_memberships_of_numpy(points, put):
    X, y = points
    model = DiscriminativeClustering(3, random_state=0)
    here = model.fit(X, y).memberships_
    np.testing.assert_allclose(to_numpy(model.fit(put(X), y).memberships_), here, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_counts_and_gradients_of_discriminative_clustering_are_those_of_numpy(rng, put, dtype):
    X, Q, centers = (
        rng.normal(size=(200, 4)).astype(dtype),
        np.eye(3, dtype=dtype)[rng.integers(3, size=200)],
        rng.normal(size=(5, 4)),
    )
    close = {"rtol": 1e-10, "atol": 1e-10} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-3}
    Y = kernel.memberships(X, centers, 1.5)
    there = kernel.memberships(put(X), centers, 1.5)
    np.testing.assert_allclose(to_numpy(there), Y, atol=close["atol"])
    r = kernel.counts(Y, Q)
    np.testing.assert_allclose(kernel.counts(there, put(Q)), r, **close)
    A = kernel.slopes(r, np.ones(3))
    gradient = kernel.pull(X, Y, Q, A, centers, 1.5)
    np.testing.assert_allclose(
        kernel.pull(put(X), there, put(Q), A, centers, 1.5), gradient, **close
    )
    np.testing.assert_array_equal(to_numpy(kernel.cells(put(X), centers)), kernel.cells(X, centers))


@pytest.mark.parametrize("diagonal", ["exclude", "include"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_similarity_gives_the_clusters_of_numpy(blocks, put, diagonal, dtype):
    model = PairwiseProbabilisticClustering(
        3, similarity="precomputed", diagonal=diagonal, random_state=0
    )
    here = model.fit(blocks)
    labels, objective = here.labels_, here.objective_
    there = model.fit(put(blocks.astype(dtype)))
    assert type(there.memberships_) is type(put(blocks))
    assert there.objective_ == pytest.approx(objective, rel=1e-6 if dtype == np.float64 else 1e-3)
    assert same_clusters(labels, there.labels_, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_spectral_clustering_gives_the_clusters_of_numpy(blocks, put, dtype):
    model = SpectralClustering(3, similarity="precomputed", random_state=0)
    here = model.fit(blocks).labels_
    assert same_clusters(here, model.fit(put(blocks.astype(dtype))).labels_, 3)


@pytest.mark.parametrize("n", [300, 700])  # all eigenvectors at once, a block Krylov space
def test_leading_eigenvectors_are_those_of_numpy(rng, put, n):
    labels = rng.integers(4, size=n)
    W = 0.7 * (labels[:, None] == labels) + 0.1 * rng.random((n, n))
    A = normalized_operator((W + W.T) / 2)
    here, there = (
        eigen.leading_eigenvectors(A, 4),
        eigen.leading_eigenvectors(normalized_operator(put((W + W.T) / 2)), 4),
    )
    np.testing.assert_allclose(to_numpy(there.values), here.values, atol=1e-8)
    E, F = here.vectors, to_numpy(there.vectors)
    np.testing.assert_allclose(F @ F.T, E @ E.T, atol=1e-6)


@pytest.mark.parametrize("dual", [entropy_dual, frobenius_dual])
def test_newton_steps_to_a_doubly_stochastic_matrix_are_those_of_numpy(blocks, put, dual):
    K, y = blocks / blocks.sum(axis=1).mean(), np.zeros(len(blocks))
    K_there, y_there = put(K), put(y)
    for _ in range(8):
        y, y_there = (
            newton(lambda z: dual(K, z), y),
            newton(lambda z: dual(K_there, z), y_there),
        )
    assert float(abs(dual(K_there, y_there).gradient).max()) < 1e-8
    np.testing.assert_allclose(to_numpy(y_there), y, atol=1e-8)
    x = np.exp(np.linspace(-1, 1, len(y)))
    np.testing.assert_allclose(
        to_numpy(fixed_point(K_there, put(x))), fixed_point(K, x), rtol=1e-12
    )


@pytest.mark.parametrize("clusters", [5, 700])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_co_association_multiplies_torch_arrays_like_numpy_ones(rng, clusters, dtype, device):
    L = rng.integers(-1, clusters, size=(800, 6))
    V = rng.random((800, 3))
    C = coassociation(L)
    expected = C @ V
    for operator in (C, C.to(device)):
        product = operator @ torch.from_numpy(V).to(device, dtype)
        assert product.dtype == dtype
        np.testing.assert_allclose(
            to_numpy(product), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12
        )


def test_a_library_is_known_by_the_module_of_its_arrays():
    class Like:
        pass

    Like.__module__ = "cupy._core.core"
    try:
        import cupy  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="cupy arrays need array-api-compat"):
            namespace(Like())
    else:
        assert namespace(Like()).__name__.endswith("cupy")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_a_soft_consensus_places_objects_where_they_are(put, points, dtype, spread):
    """Components (clusters of one Gaussian) and mixtures that the pairwise model reads."""
    X = points[0].astype(dtype)
    X = np.concatenate([X, X[:, ::-1] * spread + 30]).astype(dtype)
    here = EvidenceAccumulation(4, random_state=0).fit(X)
    there = EvidenceAccumulation(4, random_state=0).fit(put(X))
    assert namespace(there.memberships_) is namespace(put(X))
    assert there.evidence_ == here.evidence_
    np.testing.assert_allclose(
        to_numpy(there.memberships_), here.memberships_, atol=TOLERANCE[dtype]
    )
    new = to_numpy(there.predict_proba(put(X[:9])))
    np.testing.assert_allclose(new, here.predict_proba(X[:9]), atol=TOLERANCE[dtype])


@pytest.mark.parametrize("evidence", ["mixtures", "cells"])
def test_every_kind_of_soft_evidence_is_placed_where_the_objects_are(put, evidence):
    from sklearn.datasets import make_moons

    from sfumato import MixtureEnsemble

    X = make_moons(300, noise=0.05, random_state=0)[0]
    ensemble = MixtureEnsemble(8, random_state=0) if evidence == "mixtures" else None
    here = EvidenceAccumulation(2, ensemble=ensemble, random_state=0).fit(X)
    there = EvidenceAccumulation(2, ensemble=ensemble, random_state=0).fit(put(X))
    np.testing.assert_allclose(to_numpy(there.memberships_), here.memberships_, atol=1e-6)
