import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.preprocessing import StandardScaler

from sfumato import (
    EvidenceAccumulation,
    EvidenceWarning,
    FuzzyCMeans,
    GaussianMixture,
    SpectralClustering,
)
from sfumato.datasets import make_block_similarity, make_gaussians, make_labelings, make_noise
from sfumato.selection import CRITERIA, choose_n_clusters
from sfumato.selection._evidence import Features, Labelings, Similarity, as_evidence

QUICK = {"n_splits": 2, "n_references": 3, "random_state": 0}


def blobs(k=3, seed=0):
    return make_gaussians(150, k, separation=6, random_state=seed).evidence


@pytest.mark.parametrize(
    "estimator",
    [FuzzyCMeans(n_init=2), GaussianMixture(n_init=1), KMeans(n_init=3), PeerMixture()],
    ids=["fuzzy", "mixture", "k-means", "scikit-learn mixture"],
)
def test_finds_the_blobs(estimator):
    choice = choose_n_clusters(estimator, blobs(), range(1, 5), **QUICK)
    assert choice.n_clusters == choice.preferred == 3
    assert choice.supported
    assert choice.criterion == ("bic" if hasattr(estimator, "bic") else "held-out")
    assert len(np.unique(choice.estimator.predict(blobs()))) == 3
    assert "supported" in str(choice)


def test_similarities_and_labelings():
    simulated = make_block_similarity(120, 4, stay=0.8, noise=0.3, random_state=0)
    estimator = SpectralClustering(similarity="precomputed", n_init=3)
    dense = choose_n_clusters(estimator, simulated.evidence, [1, 3, 4, 5], **QUICK)
    assert dense.n_clusters == 4
    sparse = choose_n_clusters(estimator, sp.csr_array(simulated.evidence), range(3, 6), **QUICK)
    assert sparse.n_clusters == 4
    labelings = make_labelings(
        80, 3, n_partitions=30, noise=0.2, missing=0.1, random_state=0
    ).evidence
    estimator = EvidenceAccumulation(ensemble="precomputed", n_init=1)
    assert choose_n_clusters(estimator, labelings, [2, 3, 4], **QUICK).n_clusters == 3


@pytest.mark.parametrize("criterion", ["held-out", "silhouette", "eigengap", "lifetime", "pac"])
def test_noise_has_one_cluster_whatever_the_criterion(criterion):
    X = make_noise(150, random_state=0).evidence
    with pytest.warns(EvidenceWarning, match="structureless"):
        choice = choose_n_clusters(
            KMeans(n_init=2),
            X,
            [1, 2, 4],
            criterion=criterion,
            n_splits=2,
            n_references=6,
            random_state=1,
        )
    assert choice.n_clusters == 1
    assert not choice.supported
    assert choice.preferred > 1


def test_noise_without_one_among_the_candidates_is_warned_about():
    X = make_noise(150, random_state=0).evidence
    with pytest.warns(EvidenceWarning, match="too little"):
        choice = choose_n_clusters(
            KMeans(n_init=2), X, [2, 4], n_splits=2, n_references=6, random_state=1
        )
    assert choice.n_clusters == choice.preferred > 1


@pytest.mark.parametrize("criterion", ["bic", "icl", "silhouette", "eigengap", "lifetime"])
def test_criteria_find_well_separated_blobs(criterion):
    choice = choose_n_clusters(
        GaussianMixture(n_init=1), blobs(), range(1, 6), criterion=criterion, **QUICK
    )
    assert choice.n_clusters == 3
    assert choice.criterion == criterion


@pytest.mark.parametrize("criterion", ["eigengap", "lifetime", "pac"])
def test_criteria_on_labelings(criterion):
    L = make_labelings(60, 3, n_partitions=30, noise=0.05, random_state=0).evidence
    estimator = EvidenceAccumulation(ensemble="precomputed", n_init=1)
    choice = choose_n_clusters(
        estimator, L, range(2, 5), criterion=criterion, n_splits=2, n_references=0, random_state=0
    )
    assert choice.preferred == 3 or criterion == "pac"
    assert all(row.failure is None for row in choice.table)


def test_a_criterion_of_your_own_and_weights():
    X = blobs()
    own = choose_n_clusters(
        KMeans(n_init=2),
        X,
        [2, 3, 4],
        criterion=lambda trial, k: -abs(k - 3),
        n_references=0,
        random_state=0,
    )
    assert own.n_clusters == 3
    plain = choose_n_clusters(GaussianMixture(n_init=1), X, [2, 3, 4], **QUICK)
    weighted = choose_n_clusters(
        GaussianMixture(n_init=1), X, [2, 3, 4], sample_weight=np.ones(150), **QUICK
    )
    np.testing.assert_allclose(
        [row.score for row in weighted.table], [row.score for row in plain.table]
    )
    with pytest.raises(ValueError, match="sample_weight goes with features"):
        choose_n_clusters(
            SpectralClustering(similarity="precomputed"), np.eye(4), [2], sample_weight=np.ones(4)
        )


def test_failures_are_kept_with_their_reason():
    class Fragile(KMeans):
        def fit(self, X, y=None, sample_weight=None):
            if self.n_clusters == 4:
                raise ValueError("four is too many")
            return super().fit(X, y, sample_weight)

    choice = choose_n_clusters(Fragile(n_init=2), blobs(), [2, 3, 4], **QUICK)
    assert choice.n_clusters == 3
    assert choice.table[2].failure == "ValueError: four is too many"
    assert np.isnan(choice.table[2].score)
    assert "four is too many" in str(choice)
    with pytest.raises(ValueError, match="every candidate failed: ValueError: four"):
        choose_n_clusters(Fragile(n_init=2), blobs(), [4], **QUICK)


def test_same_seed_same_answer_whatever_n_jobs_and_progress():
    X = blobs()
    seen = []
    one = choose_n_clusters(
        KMeans(n_init=1),
        X,
        [2, 3],
        progress=lambda done, total: seen.append((done, total)),
        **QUICK,
    )
    two = choose_n_clusters(KMeans(n_init=1), X, [2, 3], n_jobs=2, **QUICK)
    assert one.table == two.table
    np.testing.assert_array_equal(one.reference, two.reference)
    assert seen == [(i, 6) for i in range(1, 7)]


def test_bad_questions_are_named():
    X = blobs()
    with pytest.raises(ValueError, match="criterion must be .*'held-out'.*got 'gap'"):
        choose_n_clusters(KMeans(), X, [2], criterion="gap")
    with pytest.raises(ValueError, match="candidates is empty"):
        choose_n_clusters(KMeans(), X, [])
    with pytest.raises(ValueError, match=r"candidates must lie in \[1, 150\]"):
        choose_n_clusters(KMeans(), X, [0])
    with pytest.raises(TypeError, match="no parameter n_clusters"):
        choose_n_clusters(StandardScaler(), X, [2])
    with pytest.raises(ValueError, match="cannot be tested"):
        choose_n_clusters(AgglomerativeClustering(), X, [2], criterion="silhouette", **QUICK)
    with pytest.raises(ValueError, match="bic"):
        choose_n_clusters(KMeans(), X, [2], criterion="bic")


def test_structureless_evidence_keeps_its_outer_shape():
    rng = np.random.default_rng(0)
    X = blobs(4) @ np.array([[5.0, 1.0], [0.0, 0.2]])
    null = Features(X).structureless(rng).data
    np.testing.assert_allclose(null.mean(0), X.mean(0), atol=3 * np.abs(X).max() / np.sqrt(150))
    gaps = Features(np.where(rng.random(X.shape) < 0.1, np.nan, X))
    assert np.isnan(gaps.structureless(rng).data).sum() == np.isnan(gaps.data).sum()
    sparse = Features(sp.random_array((50, 4), density=0.3, rng=rng, format="csr"))
    assert sparse.structureless(rng).data.nnz == sparse.data.nnz

    W = make_block_similarity(random_state=0).evidence
    null = Similarity(W).structureless(rng).data
    np.testing.assert_allclose(null, null.T)
    assert np.corrcoef(np.log(null.sum(1)), np.log(W.sum(1)))[0, 1] > 0.9

    L = make_labelings(60, 3, missing=0.2, random_state=0).evidence
    null = Labelings(L).structureless(rng).data
    np.testing.assert_array_equal(np.sort(null, axis=0), np.sort(L, axis=0))
    np.testing.assert_array_equal(null == -1, L == -1)


def test_kinds_of_evidence():
    assert isinstance(as_evidence(FuzzyCMeans(), np.ones((3, 2))), Features)
    assert isinstance(
        as_evidence(SpectralClustering(similarity="precomputed"), np.eye(3)), Similarity
    )
    assert isinstance(
        as_evidence(EvidenceAccumulation(ensemble="precomputed"), [["a", "b"], ["a", "c"]]),
        Labelings,
    )
    with pytest.raises(TypeError, match="rows can be taken"):
        as_evidence(
            SpectralClustering(similarity="precomputed"), sp.linalg.aslinearoperator(np.eye(3))
        )


def test_every_criterion_has_a_name_and_a_docstring():
    assert all(function.__doc__ for function in CRITERIA.values())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["blobs", "anisotropic", "block-stochastic", "ensemble"])
def test_default_finds_the_true_number_in_eight_of_ten_draws(family):
    hits = 0
    for seed in range(10):
        k = (2, 3, 4, 5, 6)[seed % 5]
        if family == "block-stochastic":
            k, data = 5, make_block_similarity(random_state=seed).evidence
            estimator = SpectralClustering(similarity="precomputed", n_init=5)
        elif family == "ensemble":
            data = make_labelings(100, k, n_partitions=40, noise=0.4, random_state=seed).evidence
            estimator = EvidenceAccumulation(ensemble="precomputed", consensus="average")
        else:
            data = make_gaussians(
                300,
                k,
                separation=5,
                elongation=5 if family == "anisotropic" else 1,
                random_state=seed,
            ).evidence
            estimator = GaussianMixture(n_init=2)
        hits += choose_n_clusters(estimator, data, range(1, 9), random_state=seed).n_clusters == k
    assert hits >= 8
