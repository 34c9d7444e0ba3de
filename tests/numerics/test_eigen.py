"""Leading eigenvectors of what multiplies, against LAPACK."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_digits, make_moons

from sfumato.numerics import eigen
from sfumato.numerics.eigen import leading_eigenvectors
from sfumato.numerics.operators import Scaled, Shifted, degrees, diagonal_of, normalized_operator
from sfumato.similarity import knn


class OnlyProduct:
    """The least that counts as a similarity."""

    def __init__(self, W):
        self.W, self.shape = W, W.shape

    def __matmul__(self, X):
        return self.W @ X


@pytest.fixture(scope="module")
def graph():
    return knn(load_digits().data[:900])


@pytest.mark.parametrize(
    "form", [lambda W: W, lambda W: W.toarray(), aslinearoperator, OnlyProduct]
)
def test_every_form_gives_the_eigenvectors_of_lapack(graph, form):
    k = 6
    spectrum = leading_eigenvectors(normalized_operator(form(graph)), k)
    values, vectors = np.linalg.eigh(normalized_operator(graph.toarray()).toarray())
    np.testing.assert_allclose(spectrum.values, values[::-1][:k], atol=1e-12)
    assert spectrum.following == pytest.approx(values[-k - 1], abs=1e-6)
    overlap = np.abs(vectors[:, ::-1][:, :k].T @ spectrum.vectors)
    np.testing.assert_allclose(overlap, np.eye(k), atol=1e-6)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(k), atol=1e-10)
    assert spectrum.residual <= 1e-8


def test_small_gaps_converge():
    A = normalized_operator(knn(make_moons(1000, noise=0.08, random_state=0)[0]))
    spectrum = leading_eigenvectors(A, 3)
    residual = A @ spectrum.vectors - spectrum.vectors * spectrum.values
    assert np.linalg.norm(residual, axis=0).max() <= 1e-8
    np.testing.assert_allclose(
        spectrum.values, np.linalg.eigvalsh(A.toarray())[::-1][:3], atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_narrow_graphs_by_way_of_an_inverse(dtype, monkeypatch):
    """A chain of neighbours with two breaks: three eigenvalues equal, the others close to them."""
    place = np.sort(np.random.default_rng(0).normal(size=600)) + np.repeat([0, 9, 30], 200)
    W = knn(place[:, None]).astype(dtype)
    asked = []
    monkeypatch.setattr(
        eigen, "_inverted", lambda *a, inverted=eigen._inverted: asked.append(a) or inverted(*a)
    )
    for A in (normalized_operator(W), W / W.sum(axis=1).max()):
        found, exact = (
            leading_eigenvectors(A, 5),
            np.linalg.eigvalsh((A @ np.eye(600)).astype(np.float64))[::-1],
        )
        np.testing.assert_allclose(
            found.values, exact[:5], atol=1e-11 if dtype is np.float64 else 1e-5
        )
        assert found.residual <= (1e-8 if dtype is np.float64 else 2e-5)
    assert len(asked) == 2


def test_noise_without_a_gap_goes_to_lapack(rng, monkeypatch):
    W = rng.random((500, 500))
    A = normalized_operator(W + W.T)
    ours = leading_eigenvectors(A, 20)
    monkeypatch.setattr(eigen, "DENSE", 0)
    iterated = leading_eigenvectors(A, 20)
    assert ours.residual == 0.0 < iterated.residual  # LAPACK reports none
    np.testing.assert_allclose(ours.values, iterated.values, atol=1e-10)
    np.testing.assert_allclose(ours.following, iterated.following, atol=1e-10)
    overlap = np.linalg.svd(ours.vectors.T @ iterated.vectors, compute_uv=False)
    np.testing.assert_allclose(overlap, 1.0, atol=1e-8)


def test_single_precision_stays(graph):
    spectrum = leading_eigenvectors(normalized_operator(graph.astype(np.float32)), 4)
    assert spectrum.vectors.dtype == np.float32
    np.testing.assert_allclose(
        spectrum.values, leading_eigenvectors(normalized_operator(graph), 4).values, atol=1e-5
    )


@pytest.mark.parametrize(
    "W",
    [
        np.eye(600),
        np.ones((600, 600)),
        np.zeros((600, 600)),
        np.kron(np.eye(40), np.ones((15, 15))),
    ],
)
@pytest.mark.parametrize("k", [1, 5])
def test_degenerate_spectra(W, k):
    spectrum = leading_eigenvectors(normalized_operator(W), k)
    A = normalized_operator(W).toarray()
    np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(A)[::-1][:k], atol=1e-9)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(A @ spectrum.vectors, spectrum.vectors * spectrum.values, atol=1e-7)


def test_a_large_negative_eigenvalue_is_not_leading():
    rng = np.random.default_rng(0)
    B = np.zeros((500, 500))
    B[:250, 250:] = rng.random((250, 250))
    B += B.T
    values = leading_eigenvectors(normalized_operator(B), 3).values
    np.testing.assert_allclose(
        values, np.linalg.eigvalsh(normalized_operator(B).toarray())[::-1][:3], atol=1e-9
    )


@pytest.mark.parametrize("n", [1, 2, 7, 420])
def test_all_eigenvectors(n, rng):
    W = rng.random((n, n))
    W += W.T
    spectrum = leading_eigenvectors(W, n)
    assert spectrum.vectors.shape == (n, n)
    assert spectrum.following == -np.inf
    np.testing.assert_allclose(
        (spectrum.vectors * spectrum.values) @ spectrum.vectors.T, W, atol=1e-9
    )


def test_signs_are_canonical_and_answers_repeat(graph):
    A = normalized_operator(graph)
    one, two = leading_eigenvectors(A, 5), leading_eigenvectors(A, 5)
    np.testing.assert_array_equal(one.vectors, two.vectors)
    largest = np.abs(one.vectors).argmax(axis=0)
    assert (one.vectors[largest, np.arange(5)] > 0).all()


def test_scaled_and_shifted_are_the_matrices_they_stand_for(rng):
    W = rng.random((8, 8))
    W += W.T
    s, V = rng.random(8), rng.random((8, 3))
    for form in (W, sp.csr_array(W), aslinearoperator(W), OnlyProduct(W)):
        scaled, shifted = Scaled(form, s), Shifted(form, s)
        np.testing.assert_allclose(scaled @ V, np.diag(s) @ W @ np.diag(s) @ V)
        np.testing.assert_allclose(scaled.toarray(), np.diag(s) @ W @ np.diag(s))
        np.testing.assert_allclose(scaled.diagonal(), s**2 * W.diagonal())
        np.testing.assert_allclose(scaled.T @ V, scaled @ V)
        np.testing.assert_allclose(scaled.matvec(s), scaled @ s)
        np.testing.assert_allclose(shifted @ V, (W + np.diag(s)) @ V)
        np.testing.assert_allclose(shifted.diagonal(), W.diagonal() + s)
        np.testing.assert_allclose(degrees(form), W.sum(axis=1))
        np.testing.assert_allclose(diagonal_of(form), W.diagonal())


def test_torch(graph):
    torch = pytest.importorskip("torch")
    W = graph.toarray()
    ours = leading_eigenvectors(normalized_operator(torch.asarray(W)), 5)
    np.testing.assert_allclose(
        ours.vectors.numpy(), leading_eigenvectors(normalized_operator(W), 5).vectors, atol=1e-7
    )
    small = leading_eigenvectors(normalized_operator(torch.asarray(W[:50, :50])), 5)
    np.testing.assert_allclose(
        small.values.numpy(),
        leading_eigenvectors(normalized_operator(W[:50, :50]), 5).values,
        atol=1e-10,
    )


def copies_of_a_graph(rng, n=160, copies=3):
    """A connected graph whose eigenvalues are, all but a few, equal in pairs: copies of a random
    graph, each object joined to its copies.
    """
    G = sp.random_array((n, n), density=0.06, rng=rng, data_sampler=lambda size: np.ones(size))
    ring = sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n))
    G = G + G.T + ring + ring.T
    between = 0.4 * (np.ones((copies, copies)) - np.eye(copies))
    return sp.csr_array(sp.kron(sp.eye_array(copies), G) + sp.kron(between, sp.eye_array(n)))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_equal_eigenvalues_of_few_objects_are_all_found(rng, k):
    A = normalized_operator(copies_of_a_graph(rng))
    expected = np.linalg.eigvalsh(A.toarray())[::-1]
    found = leading_eigenvectors(A, k)
    np.testing.assert_allclose(found.values, expected[:k], atol=1e-9)
    # The iteration ends when the leading ones stand; the next has had no test of its own.
    assert found.following == pytest.approx(expected[k], abs=1e-3)
    V = found.vectors
    np.testing.assert_allclose(A @ V, V * found.values, atol=1e-7)
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-9)


def test_eigenvalues_that_lapack_loses_are_found_by_its_other_driver(rng, monkeypatch):
    """Of many equal eigenvalues, the driver for a part of them may return fewer than asked for."""
    whole = eigen.eigh

    def losing(M, **settings):
        values, vectors = whole(M, **settings)
        return values[:1], vectors[:, :1]

    monkeypatch.setattr(eigen, "eigh", losing)
    M = np.full((17, 17), 0.08)
    found = leading_eigenvectors(M, 2)
    np.testing.assert_allclose(found.values, [17 * 0.08, 0.0], atol=1e-12)
    assert found.following == pytest.approx(0.0, abs=1e-12)
