"""Cluster kernels against their definition, new objects, and use in a support vector machine."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from sfumato import EvidenceWarning, MemoryBudgetError
from sfumato.similarity import cluster_kernel, knn, self_tuning


@pytest.fixture(scope="module")
def K():
    return rbf_kernel(load_digits().data[:120], gamma=1e-3)


PHI = {
    "linear": lambda lam, rank: lam,
    "step": lambda lam, rank: (rank < 10) * 1.0,
    "linear-step": lambda lam, rank: lam * (rank < 10),
    "polynomial": lambda lam, rank: lam**3,
    "poly-step": lambda lam, rank: np.where(rank < 10, np.sqrt(lam), lam**2),
}


def by_definition(K, phi):
    d = K.sum(axis=1)
    lam, V = np.linalg.eigh(K / np.sqrt(np.outer(d, d)))
    lam, V = np.clip(lam[::-1], 0, None), V[:, ::-1]
    L = (V * phi(lam, np.arange(len(lam)))) @ V.T
    return L / np.sqrt(np.outer(L.diagonal(), L.diagonal()))


@pytest.mark.parametrize("transfer", PHI)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, aslinearoperator])
def test_transfers_follow_the_definition(K, transfer, form):
    n_components = 10 if "step" in transfer else None
    kernel = cluster_kernel(form(K), n_components, transfer=transfer)
    expected = by_definition(K, PHI[transfer])
    np.testing.assert_allclose(kernel.toarray(), expected, atol=1e-8)
    np.testing.assert_allclose(kernel @ np.eye(120), expected, atol=1e-8)
    np.testing.assert_allclose(kernel.matvec(np.ones(120)), expected.sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(kernel.diagonal(), 1, atol=1e-12)


@pytest.mark.parametrize("transfer", PHI)
def test_known_objects_are_extended_to_themselves(K, transfer):
    kernel = cluster_kernel(K, 10, transfer=transfer)
    for rows in (K[:7], sp.csr_array(K[:7]), 3 * K[:7]):
        np.testing.assert_allclose(
            kernel.extend(rows) @ kernel.factor.T, kernel.toarray()[:7], atol=1e-6
        )


def test_moons_become_blocks():
    X, y = make_moons(300, noise=0.06, random_state=0)
    kernel = cluster_kernel(knn(X), 2)
    blocks = kernel.toarray()
    assert blocks[y[:, None] == y].mean() > 0.9
    assert np.abs(blocks[y[:, None] != y]).mean() < 0.3


def test_few_labels_do_better_with_the_cluster_kernel():
    X, y = make_moons(400, noise=0.08, random_state=0)
    plain = self_tuning(X)
    accuracy = {"plain": [], "bent": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        known = np.concatenate(
            [rng.choice(np.flatnonzero(y == c), 3, replace=False) for c in (0, 1)]
        )
        for name, K in (
            ("plain", plain),
            ("bent", cluster_kernel(plain, 4, transfer="linear-step").toarray()),
        ):
            machine = SVC(kernel="precomputed", C=10).fit(K[np.ix_(known, known)], y[known])
            accuracy[name].append(machine.score(K[:, known], y))
    assert np.mean(accuracy["bent"]) > np.mean(accuracy["plain"]) + 0.1


def test_precision_and_input_stay(K):
    single = K.astype(np.float32)
    single.flags.writeable = False
    kernel = cluster_kernel(single, 5)
    assert (
        kernel.factor.dtype
        == kernel.dtype
        == kernel.extend(single[:2]).dtype
        == (kernel @ single).dtype
        == np.float32
    )
    np.testing.assert_allclose(kernel.toarray(), cluster_kernel(K, 5).toarray(), atol=1e-3)


def test_isolated_objects_are_named_and_stay_apart():
    K = np.zeros((7, 7))
    K[:3, :3] = K[3:6, 3:6] = 1
    with pytest.warns(EvidenceWarning, match="1 of 7 objects"):
        kernel = cluster_kernel(K, 2)
    assert kernel.diagonal().tolist() == pytest.approx([1] * 6 + [0])
    np.testing.assert_array_equal(kernel.extend(np.zeros((1, 7))), [[0, 0]])


@pytest.mark.parametrize("K", [np.eye(8), np.ones((8, 8)), np.kron(np.eye(4), np.ones((2, 2)))])
def test_an_arbitrary_choice_is_named(K):
    with pytest.warns(EvidenceWarning, match="arbitrary"):
        cluster_kernel(K, 3)


def test_errors_name_the_parameter(K):
    with pytest.raises(ValueError, match="zero everywhere"):
        cluster_kernel(np.zeros((4, 4)), 2)
    with pytest.raises(ValueError, match="negative degrees"):
        cluster_kernel(aslinearoperator(-np.ones((4, 4))), 2)
    with pytest.raises(ValueError, match="transfer must be one of"):
        cluster_kernel(K, 2, transfer="cubic")
    with pytest.raises(ValueError, match="needs n_components"):
        cluster_kernel(K)
    with pytest.raises(ValueError, match="n_components must lie"):
        cluster_kernel(K, 121)
    with pytest.raises(ValueError, match="similarities of new objects"):
        cluster_kernel(K, 2).extend(K[:, :5])


def test_memory_is_asked_for_before_it_is_taken(K, monkeypatch):
    kernel = cluster_kernel(K, 2)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "10000")
    with pytest.raises(MemoryBudgetError, match="similarity matrix"):
        kernel.toarray()
