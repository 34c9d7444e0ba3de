import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

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
from sfumato.datasets import make_block_similarity, make_gaussians, make_labelings
from sfumato.engine.structure import LEVEL, PREFIX, Structure, assess, warn_about_structure
from sfumato.memberships import one_hot
from sfumato.similarity import coassociation

FEATURE_MODELS = [
    FuzzyCMeans(3, random_state=0),
    GaussianMixture(3, n_init=1, random_state=0),
    DirichletProcessMixture(random_state=0, n_init=1),
    SpectralClustering(3, random_state=0),
    CompletelyPositiveFactorization(3, n_init=1, random_state=0),
    PairwiseProbabilisticClustering(3, random_state=0),
    EvidenceAccumulation(3, random_state=0),
    EvidenceAccumulation(3, consensus="average", random_state=0),
]


def heard(model, evidence):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(evidence)
    return [str(w.message) for w in caught if str(w.message).startswith(PREFIX)]


@pytest.mark.parametrize("model", FEATURE_MODELS, ids=lambda model: str(model)[:40])
def test_every_model_says_whether_there_are_clusters(model):
    noise = np.random.default_rng(1).exponential(size=(150, 3))
    said = heard(model, noise)
    if model.n_clusters_ > 1:
        assert bool(said) == (model.memberships_.max(axis=1).mean() > 0.75)
        assert not model.structure_.supported
        assert model.structure_.p_value > 0.05
    blobs = make_gaussians(150, 3, separation=7, random_state=0).evidence
    assert heard(model, blobs) == []
    assert model.structure_.supported
    assert model.structure_.n_apart == 3
    assert model.structure_.statistic > model.structure_.threshold
    assert model.structure_.p_value < 0.05


def test_too_many_and_too_few_clusters_are_named():
    X = make_gaussians(300, 3, separation=9, random_state=0).evidence
    assert (
        "of 6 clusters, the data separate only 3 groups"
        in heard(GaussianMixture(6, n_init=1, random_state=0), X)[0]
    )
    with pytest.warns(EvidenceWarning, match="falls into pieces"):
        model = GaussianMixture(2, n_init=1, random_state=0).fit(X)
    assert model.structure_.split is not None


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_similarities(form):
    rng = np.random.default_rng(0)
    random = rng.random((120, 120))
    random += random.T
    blocks = make_block_similarity(120, 3, stay=0.9, noise=0.1, random_state=0)
    for model in (SpectralClustering, CompletelyPositiveFactorization):
        estimator = model(3, similarity="precomputed", random_state=0)
        assert heard(estimator, form(blocks.evidence)) == []
        assert estimator.structure_.supported
        assert estimator.structure_.p_value < LEVEL
        heard(estimator, form(random))
        assert not estimator.structure_.supported
        assert estimator.structure_.p_value > LEVEL
        assert estimator.structure_.statistic > estimator.structure_.threshold


def test_too_many_clusters_of_a_similarity_are_counted():
    W = make_block_similarity(150, 3, stay=0.9, noise=0.1, random_state=0).evidence
    truth = SpectralClustering(3, similarity="precomputed", random_state=0).fit(W).labels_
    labels = 2 * truth + np.arange(150) % 2  # every block is cut in two
    found = assess(W, one_hot(labels), kind="similarity")
    assert not found.supported
    assert found.n_apart == 3


def test_labelings():
    model = EvidenceAccumulation(3, ensemble="precomputed", consensus="average")
    good = make_labelings(120, 3, n_members=30, label_noise=0.1, random_state=0).evidence
    assert heard(model, good) == []
    assert model.structure_.supported
    random = np.random.default_rng(0).integers(4, size=(120, 30))
    assert heard(model, random)
    many = np.tile(good, (20, 1))
    U = one_hot(np.tile(model.fit(good).labels_, 20))
    assert assess(coassociation(many), U, kind="similarity").supported


def test_counts_and_noise_columns():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(6, 0.3), size=3)
    counts = np.array([rng.multinomial(200, shares[i % 3]) for i in range(120)])
    model = InformationBottleneck(3, beta=50, random_state=0)
    assert heard(model, counts) == []
    assert model.structure_.supported
    X = make_gaussians(150, 2, separation=8, random_state=0).evidence
    noisy = GaussianMixture(2, noise_cluster=0.05, n_init=1, random_state=0).fit(
        np.concatenate([X, rng.uniform(-15, 15, size=(10, 2))])
    )
    assert noisy.structure_.supported


def test_nothing_is_said_of_one_cluster_or_few_objects():
    X = np.random.default_rng(0).normal(size=(60, 2))
    assert FuzzyCMeans(1).fit(X).structure_ is None
    assert FuzzyCMeans(2).fit(X[:40]).structure_ is None
    assert assess(np.full((60, 2), np.nan), one_hot(np.arange(60) % 2), kind="features") is None
    same = assess(np.ones((60, 2)), one_hot(np.arange(60) % 2), kind="features")
    assert not same.supported


def test_large_values_missing_ones_and_many_objects():
    rng = np.random.default_rng(0)
    X = make_gaussians(5000, 2, separation=7, random_state=0).evidence
    U = one_hot((X[:, 0] > X[:, 0].mean()).astype(int))
    plain = assess(X, U, kind="features")
    huge = assess(X * 1e150, U, kind="features")
    np.testing.assert_allclose(huge[:3], plain[:3], rtol=1e-6)
    holes = X.copy()
    holes[rng.random(5000) < 0.3, 0] = np.nan
    assert assess(holes, U, kind="features").supported == plain.supported
    np.testing.assert_allclose(assess(sp.csr_array(X), U, kind="features")[:3], plain[:3])


def test_many_groups_in_several_dimensions_are_told_apart():
    simulated = make_gaussians(420, 12, n_features=6, separation=8, random_state=0)
    found = assess(simulated.evidence, one_hot(simulated.labels), kind="features")
    assert found.supported
    noise = np.random.default_rng(0).random((420, 6))
    cells = KMeans(12, n_init=1, random_state=0).fit_predict(noise)
    assert not assess(noise, one_hot(cells), kind="features").supported


@pytest.mark.parametrize(("n", "k", "p"), [(1000, 20, 16), (1600, 16, 48)])
def test_pairs_of_many_groups_are_looked_at_along_axes_of_their_own(n, k, p):
    simulated = make_gaussians(n, k, n_features=p, separation=6, random_state=0)
    assert assess(simulated.evidence, one_hot(simulated.labels), kind="features").supported
    halves = simulated.labels + k * ((simulated.labels == 0) & (simulated.evidence[:, 0] > 0))
    split = assess(simulated.evidence, one_hot(halves), kind="features")
    assert (split.supported, split.n_apart) == (False, k)
    noise = np.random.default_rng(0).normal(size=(n, p))
    cells = KMeans(k, n_init=1, random_state=0).fit_predict(noise)
    assert assess(noise, one_hot(cells), kind="features").n_apart == 1


def test_rounded_numbers_and_strays_are_read_as_numbers():
    rng = np.random.default_rng(0)
    group = np.arange(200) % 2
    counts = rng.poisson(np.array([5, 100])[group])[:, None]
    found = assess(np.sqrt(counts), one_hot(group), kind="features")
    assert found.supported
    assert found.split is None
    strays = group.copy()
    strays[:4:2] = 1
    assert assess(np.sqrt(counts), one_hot(strays), kind="features").supported


def test_every_pair_of_clusters_must_stand_apart():
    X = make_gaussians(240, 4, separation=9, random_state=0)
    halves = X.labels + 4 * ((X.labels == 0) & (np.arange(240) % 2 == 0))
    found = assess(X.evidence, one_hot(halves), kind="features")
    assert not found.supported
    assert found.n_apart == 4
    assert found.p_value > 0.05


def test_nothing_is_said_of_clusters_that_stand_apart_beside_empty_ones():
    found = Structure(9.0, 1.0, 0.0, 2, False, None)
    U = np.repeat([[0.97, 0.0, 0.03], [0.0, 0.97, 0.03]], 5, axis=0)
    warn_about_structure(found, U, 3)  # the fit says that one of them is empty
    with pytest.warns(EvidenceWarning, match="of 4 clusters, the data separate only 2 groups"):
        warn_about_structure(found, np.eye(4)[[0, 1, 2, 3]], 4)


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_clear_groups_are_seen_in_many_features_whatever_the_coordinates(kind):
    X, _ = make_blobs(2500, 20, centers=5, random_state=0)
    model = GaussianMixture(5, covariance_type=kind, n_init=1, random_state=0)
    assert heard(model, X) == []
    assert model.structure_.n_apart == 5
    whitened = X @ np.linalg.inv(np.linalg.cholesky(np.cov(X.T))).T
    assert assess(whitened, model.memberships_, kind="features").supported


def test_what_labels_leave_of_a_similarity_is_that_of_a_projection_by_lstsq():
    rng, truth = np.random.default_rng(0), np.repeat([0, 1, 2], (20, 15, 30))
    W = np.where(truth[:, None] == truth, 1.0, 0.3) * rng.uniform(0.5, 1.0, (65, 65))
    W += W.T
    labels = np.random.default_rng(1).integers(3, size=65)
    root = np.sqrt(W.sum(axis=1))
    V = np.linalg.eigh(W / np.outer(root, root))[1][:, ::-1][:, :3]
    indicators = (labels[:, None] == np.arange(3)) * root[:, None]
    fitted = indicators @ np.linalg.lstsq(indicators, V, rcond=None)[0]
    worst = np.linalg.eigvalsh(V.T @ (V - fitted))[-1]
    found = assess(W, one_hot(labels), kind="similarity")
    assert found.statistic == pytest.approx(worst, abs=1e-3)
    assert found.n_apart == 1
    assert assess(W, one_hot(truth), kind="similarity").n_apart == 3
