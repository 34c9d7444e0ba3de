"""CSPA, HGPA, MCLA and HBGF."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering

from sfumato import EvidenceAccumulation
from sfumato.metrics import adjusted_rand_index
from sfumato.models.consensus import solvers
from sfumato.numerics.label_table import encode
from sfumato.similarity import coassociation

NAMES = pytest.mark.parametrize("name", solvers.HYPERGRAPHS)


def labelings(n=90, m=20, noise=0.1, gaps=0.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(3), n // 3)
    L = np.stack([rng.permutation(6)[2 * truth + rng.integers(0, 2, n)] for _ in range(m)], axis=1)
    wrong = rng.random(L.shape) < noise
    L[wrong] = rng.integers(0, 6, wrong.sum())
    L[rng.random(L.shape) < gaps] = -1
    return L, truth


@NAMES
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_noisy_partitions_lead_back_to_the_truth(name, gaps):
    L, truth = labelings(gaps=gaps)
    model = EvidenceAccumulation(3, ensemble="precomputed", consensus=name, random_state=0).fit(L)
    assert adjusted_rand_index(truth, model.labels_) > 0.9
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(L), model.memberships_, atol=1e-6)


@NAMES
def test_names_of_clusters_do_not_matter(name):
    L, _ = labelings(noise=0.0)
    other = np.stack(
        [np.random.default_rng(b).permutation(6)[c] for b, c in enumerate(L.T)], axis=1
    )
    first, second = (
        EvidenceAccumulation(3, ensemble="precomputed", consensus=name, random_state=0).fit(each)
        for each in (L, other)
    )
    assert adjusted_rand_index(first.labels_, second.labels_) == 1.0


def test_cspa_is_the_normalised_cut_of_the_coassociation():
    L, _ = labelings(noise=0.4, seed=2)
    model = EvidenceAccumulation(3, ensemble="precomputed", consensus="cspa", random_state=0).fit(L)
    C = coassociation(L).toarray()
    cut = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(C)
    assert adjusted_rand_index(cut, model.labels_) > 0.9


def test_hyperedges_are_weighed_by_their_size():
    L, _ = labelings(n=12, m=3)
    table = encode(L)
    H = solvers.incidence(table).toarray()
    found = solvers.ByCut("hgpa", table, 3, solvers.Settings(4, 100, 1e-6, 0))
    W = sum(np.outer(h, h) / h.sum() for h in H.T if h.sum())
    root = 1 / np.sqrt(W.sum(axis=1))
    values = np.linalg.eigvalsh(root[:, None] * W * root)[::-1][:3]
    np.testing.assert_allclose(found.eigenvalues, values, atol=1e-6)


def test_jaccard_by_a_slow_loop(rng):
    D = (rng.random((15, 5)) < 0.4).astype(float)
    D[0] = 1
    J = solvers.jaccard(sp.csr_array(D))
    for a in range(5):
        for b in range(5):
            both, either = (D[:, a] * D[:, b]).sum(), np.maximum(D[:, a], D[:, b]).sum()
            assert J[a, b] == pytest.approx(both / either)


@NAMES
def test_weights_are_copies(name):
    L, _ = labelings()
    counts = np.random.default_rng(0).integers(0, 3, 90)
    rows = np.repeat(np.arange(90), counts)
    model = EvidenceAccumulation(3, ensemble="precomputed", consensus=name, random_state=0)
    weighted = model.fit(L, sample_weight=counts).memberships_[counts > 0]
    copied = model.fit(L[rows]).memberships_[np.unique(rows, return_index=True)[1]]
    np.testing.assert_allclose(weighted, copied, atol=1e-12)


def test_fewer_clusters_than_groups_leave_groups_empty():
    L = np.array([[0, 0], [0, 0], [1, 0], [1, 0], [1, 0]])
    model = EvidenceAccumulation(4, ensemble="precomputed", consensus="mcla", random_state=0)
    with pytest.warns(UserWarning, match="the partitions have 3 clusters, fewer than n_clusters=4"):
        U = model.fit(L).memberships_
    np.testing.assert_allclose(U.sum(axis=1), 1.0)
    assert (U.sum(axis=0) > 0).sum() == 3
