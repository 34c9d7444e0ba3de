import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.preprocessing import StandardScaler

from sfumato import (
    CompletelyPositiveFactorization,
    DirichletProcessMixture,
    EvidenceAccumulation,
    EvidenceWarning,
    FuzzyCMeans,
    GaussianMixture,
    InformationBottleneck,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.datasets import make_block_similarity, make_gaussians, make_labelings, make_uniform
from sfumato.metrics import adjusted_rand_index
from sfumato.selection import choose_n_clusters
from sfumato.selection._evidence import Features, Labelings, Similarity, as_evidence
from sfumato.selection.criteria import CRITERIA

QUICK = {"n_splits": 2, "random_state": 0}


def blobs(k=3, seed=0, n=150):
    return make_gaussians(n, k, separation=7, random_state=seed).evidence


@pytest.mark.parametrize(
    ("estimator", "criterion"),
    [
        (FuzzyCMeans(n_init=2, random_state=0), "structure"),
        (KMeans(n_init=3, random_state=0), "structure"),
        (AgglomerativeClustering(), "structure"),
        (GaussianMixture(n_init=1, random_state=0), "bic"),
        (PeerMixture(random_state=0), "bic"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_finds_the_blobs(estimator, criterion):
    choice = choose_n_clusters(estimator, blobs(), range(1, 6), **QUICK)
    assert choice.n_clusters == choice.preferred == 3
    assert choice.supported
    assert choice.structure.p_value < 0.05
    assert choice.criterion == criterion
    assert max(choice.distribution, key=choice.distribution.get) == 3
    assert sum(choice.distribution.values()) == pytest.approx(1)
    assert "supported" in str(choice)


@pytest.mark.parametrize("criterion", ["bic", "aic", "icl", "silhouette"])
def test_the_name_of_the_score_has_its_sign(criterion):
    model = GaussianMixture(n_init=1, random_state=0)
    choice = choose_n_clusters(model, blobs(), [2, 3], criterion=criterion, **QUICK)
    found = {row.n_clusters: row.score for row in choice.table}
    assert max(found, key=found.get) == 3
    assert choice.score_name.startswith("minus") == (criterion != "silhouette")
    assert choice.score_name in str(choice).splitlines()[0]
    if criterion in ("bic", "aic", "icl"):
        own = -getattr(choice.estimator, criterion)(blobs())
        assert found[3] == pytest.approx(own, rel=0.01)  # another family may be the best


def test_similarities_and_labelings():
    simulated = make_block_similarity(120, 4, stay=0.9, noise=0.2, random_state=0)
    estimator = SpectralClustering(similarity="precomputed", n_init=3, random_state=0)
    assert choose_n_clusters(estimator, simulated.evidence, [1, 3, 4, 5]).n_clusters == 4
    sparse = sp.csr_array(simulated.evidence)
    assert choose_n_clusters(estimator, sparse, range(3, 6)).n_clusters == 4
    labelings = make_labelings(80, 3, n_members=30, label_noise=0.2, missing=0.1, random_state=0)
    estimator = EvidenceAccumulation(ensemble="precomputed", n_init=1, random_state=0)
    assert choose_n_clusters(estimator, labelings.evidence, [2, 3, 4]).n_clusters == 3


@pytest.mark.parametrize("criterion", sorted(set(CRITERIA) - {"bic", "aic", "icl"}))
def test_noise_has_one_cluster_whatever_the_criterion(criterion):
    X = make_uniform(150, random_state=0).evidence
    with pytest.warns(EvidenceWarning, match="no number of clusters|no closer in clusters"):
        choice = choose_n_clusters(
            KMeans(n_init=2, random_state=0), X, [1, 2, 4], criterion=criterion, **QUICK
        )
    assert choice.n_clusters == 1
    assert not choice.supported


def test_noise_without_one_among_the_candidates_is_warned_about():
    X = make_uniform(150, random_state=0).evidence
    with pytest.warns(EvidenceWarning, match="do not stand apart"):
        choice = choose_n_clusters(
            KMeans(n_init=2, random_state=0), X, [2, 4], criterion="silhouette", **QUICK
        )
    assert choice.n_clusters == choice.preferred > 1
    assert not choice.structure.supported


FINDERS = [
    "bic",
    "icl",
    "silhouette",
    "penalized-eigengap",
    "lifetime",
]


@pytest.mark.parametrize("criterion", [*FINDERS, "held-out", "structure"])
def test_criteria_find_well_separated_blobs(criterion):
    X = blobs()
    choice = choose_n_clusters(
        GaussianMixture(n_init=1, random_state=0), X, range(1, 5), criterion=criterion, **QUICK
    )
    assert choice.n_clusters == 3
    assert choice.criterion == criterion
    assert all(row.failure is None for row in choice.table)


def test_the_next_best_is_tried_and_more_candidates_take_nothing_away():
    X = blobs()

    def favours_many(trial, n_clusters):
        return float(n_clusters)

    settings = {"criterion": favours_many, **QUICK}
    model = FuzzyCMeans(random_state=0)
    few = choose_n_clusters(model, X, [1, 2, 3], **settings)
    many = choose_n_clusters(model, X, range(1, 9), **settings)
    assert few.n_clusters == many.n_clusters == 3
    assert many.preferred == 8
    assert many.supported


def test_grows_while_the_best_is_near_the_largest_tried():
    X = blobs(7, n=350)
    model = FuzzyCMeans(random_state=0)
    choice = choose_n_clusters(model, X, max_clusters=4)
    assert choice.n_clusters == 7
    assert [row.n_clusters for row in choice.table] == list(range(1, 10))
    line = np.repeat(np.arange(20.0) * 10, 20)[:, None] + np.random.default_rng(0).normal(
        size=(400, 1)
    )
    with pytest.warns(EvidenceWarning, match="raise max_clusters"):
        capped = choose_n_clusters(KMeans(n_init=3, random_state=0), line, max_clusters=5)
    assert capped.n_clusters == 20


def test_a_criterion_of_your_own_and_weights():
    X = blobs()
    own = choose_n_clusters(
        KMeans(n_init=2), X, [2, 3, 4], criterion=lambda trial, k: -abs(k - 3), random_state=0
    )
    assert own.n_clusters == 3
    model = FuzzyCMeans(random_state=0)
    plain = choose_n_clusters(model, X, [2, 3, 4], **QUICK)
    weighted = choose_n_clusters(model, X, [2, 3, 4], sample_weight=np.ones(150), **QUICK)
    np.testing.assert_allclose(
        [row.score for row in weighted.table], [row.score for row in plain.table], rtol=1e-6
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
    model = KMeans(n_init=1, random_state=0)
    listener = {"progress": lambda done, total: seen.append((done, total))}
    one = choose_n_clusters(model, X, [2, 3], criterion="held-out", **listener, **QUICK)
    two = choose_n_clusters(model, X, [2, 3], criterion="held-out", n_jobs=2, **QUICK)
    assert one.table == two.table
    assert seen == [(1, 2), (2, 2)]


def test_bad_questions_are_named():
    X = blobs()
    with pytest.raises(ValueError, match="criterion must be .*'held-out'.*got 'gaps'"):
        choose_n_clusters(KMeans(), X, [2], criterion="gaps")
    with pytest.raises(ValueError, match="candidates is empty"):
        choose_n_clusters(KMeans(), X, [])
    with pytest.raises(ValueError, match=r"candidates must lie in \[1, 150\]"):
        choose_n_clusters(KMeans(), X, [0])
    with pytest.raises(TypeError, match="no parameter n_clusters"):
        choose_n_clusters(StandardScaler(), X, [2])
    with pytest.raises(ValueError, match="bic"):
        choose_n_clusters(KMeans(), X, [2], criterion="bic")
    with pytest.raises(ValueError, match="n_clusters .*'auto'.*got 'many'"):
        FuzzyCMeans("many").fit(X)
    with pytest.raises(ValueError, match="max_clusters"):
        SpectralClustering("auto", max_clusters=1).fit(X)


AUTOMATIC = [
    FuzzyCMeans("auto", random_state=0),
    SpectralClustering("auto", n_init=2, random_state=0),
    PairwiseProbabilisticClustering("auto", n_init=1, random_state=0),
    CompletelyPositiveFactorization("auto", n_init=1, random_state=0),
    GaussianMixture("auto", n_init=1, random_state=0),
    EvidenceAccumulation("auto", random_state=0),
    EvidenceAccumulation("auto", consensus="average", random_state=0),
]


@pytest.mark.parametrize("model", AUTOMATIC, ids=lambda model: str(model)[:50])
@pytest.mark.parametrize("n_clusters", [3, 4])
def test_auto_and_choose_give_one_answer(model, n_clusters):
    X = blobs(n_clusters, seed=n_clusters + 1)
    chosen = choose_n_clusters(model, X)
    fitted = clone(model).fit(X)
    assert fitted.n_clusters_ == chosen.n_clusters == n_clusters
    assert fitted.memberships_.shape == (150, n_clusters)
    np.testing.assert_allclose(fitted.predict_proba(X[:3]).sum(axis=1), 1)
    assert np.isfinite(fitted.score(X))
    if hasattr(fitted, "selection_"):
        assert str(fitted.selection_) == str(chosen)


def test_auto_for_similarities_and_counts():
    W = make_block_similarity(120, 3, stay=0.9, noise=0.1, random_state=0).evidence
    for model in (SpectralClustering, CompletelyPositiveFactorization):
        estimator = model("auto", max_clusters=6, similarity="precomputed", random_state=0)
        assert estimator.fit(W).n_clusters_ == 3
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(6, 0.3), size=3)
    counts = np.array([rng.multinomial(200, shares[i % 3]) for i in range(120)])
    bottleneck = InformationBottleneck("auto", max_clusters=5, beta=50, random_state=0)
    assert bottleneck.fit(counts).n_clusters_ == 3


def test_auto_finds_one_cluster_in_noise():
    X = np.random.default_rng(0).exponential(size=(150, 2))
    with pytest.warns(EvidenceWarning, match="no number of clusters"):
        model = FuzzyCMeans("auto", max_clusters=5, random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model.selection_.distribution[1] == 1


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
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")  # some draws overlap
@pytest.mark.parametrize("family", ["blobs", "anisotropic", "block-stochastic", "ensemble"])
def test_default_finds_the_true_number_in_eight_of_ten_draws(family):
    hits = 0
    for seed in range(10):
        k = (2, 3, 4, 5, 6)[seed % 5]
        if family == "block-stochastic":
            k, data = 5, make_block_similarity(random_state=seed).evidence
            estimator = SpectralClustering(similarity="precomputed", n_init=5)
        elif family == "ensemble":
            data = make_labelings(100, k, n_members=40, label_noise=0.4, random_state=seed).evidence
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


@pytest.mark.parametrize("model", [SpectralClustering, PairwiseProbabilisticClustering])
@pytest.mark.parametrize("noise", ["walk", "edges", "background"])
def test_blocks_that_share_much_are_found(model, noise):
    """Five blocks in a similarity that all pairs have in common, or whose entries are noisy."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(5), 60)
    same = labels[:, None] == labels
    if noise == "walk":
        W = make_block_similarity(random_state=0).evidence
    elif noise == "edges":
        W = np.triu(rng.random((300, 300)) < np.where(same, 0.4, 0.07), 1).astype(float)
        W = W + W.T
    else:
        W = 0.3 * same + rng.random((300, 300))
        W = W + W.T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(similarity="precomputed", random_state=0).fit(W)
    assert fitted.n_clusters_ == 5


@pytest.mark.parametrize("model", [SpectralClustering, PairwiseProbabilisticClustering])
def test_random_graphs_are_one_cluster(model):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, share = (60, 0.3) if seed % 2 else (200, 0.1)
        W = np.triu(rng.random((n, n)) < share, 1).astype(float)
        with pytest.warns(EvidenceWarning, match="one cluster is the answer"):
            fitted = model(similarity="precomputed", random_state=0).fit(W + W.T)
        assert fitted.n_clusters_ == 1


@pytest.mark.parametrize("n_clusters", ["auto", 8])
def test_a_model_that_infers_the_number_is_fitted_once(n_clusters):
    X = blobs()
    model = DirichletProcessMixture(n_clusters, n_init=1, random_state=0)
    calls = []
    choice = choose_n_clusters(model, X, progress=lambda *counts: calls.append(counts))
    fitted = clone(model).fit(X)
    assert choice.n_clusters == choice.preferred == fitted.n_clusters_ == 3
    assert choice.criterion == "posterior"
    # One fit made twice, whose sums may be rounded by where arrays lie in memory.
    posterior = list(choice.distribution.values())
    np.testing.assert_allclose(posterior, fitted.n_clusters_posterior_[1:], rtol=1e-9)
    assert next(iter(choice.distribution)) == 1
    assert len(calls) == 1
    np.testing.assert_allclose(choice.estimator.memberships_, fitted.memberships_, atol=1e-12)
    assert choice.estimator.n_clusters == n_clusters


def test_a_model_that_infers_the_number_takes_no_candidates_and_no_criterion():
    model = DirichletProcessMixture(n_init=1, random_state=0)
    with pytest.raises(ValueError, match="candidates must be None for DirichletProcessMixture"):
        choose_n_clusters(model, blobs(), [2, 3])
    with pytest.raises(ValueError, match="'auto' or 'posterior' for DirichletProcessMixture"):
        choose_n_clusters(model, blobs(), criterion="silhouette")


@pytest.mark.parametrize("kind", ["features", "labelings"])
def test_a_consensus_keeps_the_table_that_choosing_gives(kind):
    if kind == "features":
        model, evidence = EvidenceAccumulation("auto", max_clusters=5, random_state=0), blobs()
    else:
        model = EvidenceAccumulation("auto", ensemble="precomputed", random_state=0)
        evidence = make_labelings(80, 3, n_members=30, label_noise=0.2, random_state=0).evidence
    fitted, choice = clone(model).fit(evidence), choose_n_clusters(model, evidence)
    assert fitted.selection_ == choice._replace(estimator=None)
    assert fitted.selection_.n_clusters == fitted.n_clusters_ == 3
    assert list(fitted.selection_.distribution) == fitted.candidates_.tolist()
    assert not hasattr(fitted.set_params(n_clusters=3).fit(evidence), "selection_")


@pytest.mark.parametrize("criterion", ["auto", "penalized-eigengap", "held-out"])
@pytest.mark.parametrize("kind", ["similarity", "sparse", "labelings"])
def test_weights_of_similarities_and_labelings_are_copies(kind, criterion):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 10)
    w = rng.integers(0, 3, size=30)
    rows = np.repeat(np.arange(30), w)
    if kind == "labelings":
        evidence = np.where(rng.random((30, 12)) < 0.8, y[:, None], rng.integers(0, 4, (30, 12)))
        copied = evidence[rows]
        model = EvidenceAccumulation(2, ensemble="precomputed", random_state=0)
    else:
        W = np.where(y[:, None] == y, 0.9, 0.1) + 0.05 * rng.random((30, 30))
        W = (W + W.T) / 2
        copied = W[np.ix_(rows, rows)]
        evidence = sp.csr_array(W) if kind == "sparse" else W
        copied = sp.csr_array(copied) if kind == "sparse" else copied
        model = SpectralClustering(2, similarity="precomputed", random_state=0)
    settings = {"criterion": criterion, "n_splits": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = choose_n_clusters(model, evidence, range(2, 5), sample_weight=w, **settings)
        expected = choose_n_clusters(model, copied, range(2, 5), **settings)
    assert weighted.n_clusters == expected.n_clusters
    scores = [[row.score for row in choice.table] for choice in (weighted, expected)]
    np.testing.assert_allclose(*scores, atol=1e-10)
    with pytest.raises(ValueError, match="whole numbers"):
        choose_n_clusters(model, evidence, range(2, 5), sample_weight=w + 0.5, **settings)


@pytest.mark.parametrize("wrong", [None, "a", KMeans])
def test_what_is_no_estimator_is_named(wrong):
    with pytest.raises(TypeError, match="estimator must be an estimator such as"):
        choose_n_clusters(wrong, np.ones((20, 2)))


@pytest.mark.parametrize("model", [FuzzyCMeans(), SpectralClustering()])
def test_one_object_is_one_cluster(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.fit([[1.0, 2.0]]).memberships_, [[1.0]])


@pytest.mark.parametrize("model", [FuzzyCMeans, SpectralClustering])
def test_a_search_goes_on_where_more_groups_stand_apart_than_the_best_number_has(model):
    X, _, labels = make_gaussians(1200, 24, n_features=8, separation=8, random_state=0)
    choice = choose_n_clusters(model(random_state=0), X, max_clusters=12)
    assert choice.n_clusters == 24
    assert choice.table[-1].n_clusters <= 48
    assert adjusted_rand_index(labels, choice.estimator.labels_) > 0.99
