"""SpectralClustering: three methods, memberships, new objects, odd similarities."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato import CompletelyPositiveFactorization, EvidenceWarning, SpectralClustering
from sfumato.metrics import matched_accuracy
from sfumato.similarity import coassociation, gaussian, knn

METHODS = ("normalized-cut", "ng-jordan-weiss", "bach-jordan")
every_method = pytest.mark.parametrize("method", METHODS)


def precomputed(k, **parameters):
    return SpectralClustering(k, similarity="precomputed", **{"random_state": 0, **parameters})


def block_stochastic(seed=0):
    """D^-1 W is constant on blocks (5 clusters), W itself is not: degrees differ a thousandfold."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(5), [10, 20, 30, 20, 20])
    strength = np.exp(rng.uniform(-3, 3.5, 100))
    between = np.full((5, 5), 0.05) + np.diag([1.0, 0.8, 0.6, 0.8, 0.9])
    return between[labels][:, labels] * np.outer(strength, strength), labels


@every_method
@pytest.mark.parametrize("seed", range(3))
def test_block_stochastic_similarities_are_solved(method, seed):
    W, labels = block_stochastic(seed)
    model = precomputed(5, method=method, random_state=seed).fit(W)
    assert matched_accuracy(labels, model.labels_) == 1
    assert model.eigenvalues_.shape == (5,)
    assert model.eigengap_ > 0.1


def test_cost_of_bach_and_jordan_is_the_weighted_distortion():
    W = knn(load_digits().data[:600])
    model = precomputed(10, method="bach-jordan").fit(W)
    assert model.cost_ == pytest.approx(model.objective_, abs=1e-10)
    degree = W.sum(axis=1)
    E = model.embedding_ * np.sqrt(degree)[:, None]
    np.testing.assert_allclose(E.T @ E, np.eye(10), atol=1e-8)
    Pi = np.zeros((600, 600))
    for r in range(10):
        q = np.where(model.labels_ == r, np.sqrt(degree), 0)
        Pi += np.outer(q, q) / (q @ q)
    assert model.cost_ == pytest.approx(0.5 * np.linalg.norm(E @ E.T - Pi) ** 2, abs=1e-8)


@pytest.mark.parametrize("name", ["moons", "circles", "digits"])
def test_accuracy_is_no_worse_than_the_peer(name):
    X, y, k = {
        "moons": (*make_moons(400, noise=0.07, random_state=0), 2),
        "circles": (*make_circles(400, noise=0.05, factor=0.5, random_state=0), 2),
        "digits": (*(part[:700] for part in load_digits(return_X_y=True)), 10),
    }[name]
    W = knn(X, n_neighbors=15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the graph is not connected
        peer = matched_accuracy(
            y, Peer(k, affinity="precomputed", random_state=0).fit(W.toarray()).labels_
        )
    assert matched_accuracy(y, precomputed(k).fit(W).labels_) >= peer - 0.002


@every_method
def test_every_form_gives_the_same_answer(method):
    W = knn(load_digits().data[:500])
    reference = precomputed(6, method=method).fit(W)
    for form in (W.toarray(), aslinearoperator(W), sp.csc_array(W), sp.coo_matrix(W)):
        np.testing.assert_allclose(
            precomputed(6, method=method).fit(form).memberships_, reference.memberships_, atol=1e-6
        )


@every_method
def test_new_objects(method):
    X, y = make_moons(700, noise=0.07, random_state=0)
    model = SpectralClustering(
        2, similarity=partial(knn, n_neighbors=12), method=method, random_state=0
    ).fit(X[:500])
    assert matched_accuracy(y[500:], model.predict(X[500:])) > 0.97
    np.testing.assert_array_equal(model.predict(X[:500]), model.labels_)


@every_method
def test_known_rows_get_their_memberships(method, blobs):
    W = gaussian(blobs[0], bandwidth=2.0)
    model = precomputed(3, method=method).fit(W)
    tolerance = 0.05 if method == "ng-jordan-weiss" else 1e-6
    np.testing.assert_allclose(model.predict_proba(W), model.memberships_, atol=tolerance)
    np.testing.assert_allclose(
        model.predict_proba(7 * sp.csr_array(W)), model.predict_proba(W), atol=1e-9
    )


def test_memberships_are_nearly_calibrated():
    rng = np.random.default_rng(0)
    for separation in (1.5, 2.2):
        y = rng.integers(3, size=900)
        X = separation * np.array([[0, 0], [2, 0], [1, 1.7]])[y] + rng.normal(size=(900, 2))
        model = SpectralClustering(3, random_state=0).fit(X)
        assert model.memberships_.max(axis=1).mean() == pytest.approx(
            matched_accuracy(y, model.labels_), abs=0.05
        )


def test_roundings_compose(blobs):
    X, y = blobs
    for rounding in ("k-means", "weighted-k-means", GaussianMixture(3, random_state=0)):
        for method in METHODS:
            model = SpectralClustering(3, method=method, rounding=rounding, random_state=0).fit(X)
            assert matched_accuracy(y, model.labels_) == 1
            assert matched_accuracy(y, model.predict(X)) == 1
    one = SpectralClustering(3, method="bach-jordan", random_state=0).fit(X)
    two = SpectralClustering(
        3, method="normalized-cut", rounding="weighted-k-means", random_state=0
    ).fit(X)
    np.testing.assert_array_equal(one.memberships_, two.memberships_)


@every_method
@pytest.mark.parametrize("n", [1, 2, 6])
def test_one_cluster_and_as_many_as_objects(method, n, rng):
    W = rng.random((n, n)) + np.eye(n)
    W += W.T
    np.testing.assert_array_equal(
        precomputed(1, method=method).fit(W).memberships_, np.ones((n, 1))
    )
    assert len(set(precomputed(n, method=method).fit(W).labels_)) == n


def test_components_are_clusters():
    W = sp.block_diag([sp.coo_array(np.ones((n, n))) for n in (4, 7, 5)], format="csr")
    model = precomputed(3).fit(W)
    assert matched_accuracy(np.repeat([0, 1, 2], [4, 7, 5]), model.labels_) == 1
    with pytest.warns(EvidenceWarning, match="more than n_clusters=2 unconnected pieces"):
        precomputed(2).fit(W)


@every_method
def test_isolated_objects_belong_everywhere(method):
    W = np.zeros((9, 9))
    W[:4, :4] = W[4:8, 4:8] = 1
    with pytest.warns(EvidenceWarning, match="1 of 9 objects"):
        model = precomputed(2, method=method).fit(W)
    np.testing.assert_array_equal(model.memberships_[8], [0.5, 0.5])
    np.testing.assert_array_equal(model.predict_proba(np.zeros((1, 9))), [[0.5, 0.5]])
    assert matched_accuracy(np.repeat([0, 1], 4), model.labels_[:8]) == 1


@every_method
@pytest.mark.parametrize("W", [np.ones((12, 12)), np.eye(12) + 1e-3])
def test_similarities_without_structure_are_named(method, W):
    with pytest.warns(EvidenceWarning, match="no eigengap"):
        precomputed(3, method=method).fit(W)


@pytest.mark.filterwarnings("ignore:the leading eigenvectors")
def test_odd_similarities_are_named(rng):
    D = rng.random((10, 3))
    D = np.linalg.norm(D[:, None] - D[None], axis=2)
    with pytest.warns(EvidenceWarning, match="distances"):
        precomputed(2).fit(D)
    with pytest.warns(EvidenceWarning, match="unconnected pieces"):
        precomputed(2).fit(np.eye(10))
    with pytest.raises(ValueError, match="negative similarities"):
        precomputed(2).fit(-D)
    with pytest.raises(ValueError, match="zero everywhere"):
        precomputed(2).fit(np.zeros((10, 10)))
    with pytest.raises(ValueError, match="negative degrees"):
        precomputed(2).fit(aslinearoperator(-D))


@every_method
@pytest.mark.parametrize(("n_features", "n_clusters"), [(2, 3), (5, 8), (10, 3)])
def test_features_without_structure_are_named(method, n_features, n_clusters):
    X = np.random.default_rng(0).uniform(size=(400, n_features))
    with pytest.warns(EvidenceWarning, match="look like a continuum"):
        SpectralClustering(n_clusters, method=method, random_state=0).fit(X)


def test_an_implicit_coassociation(rng):
    truth = np.arange(300) % 3
    L = np.stack(
        [rng.permutation(9)[3 * truth + rng.integers(0, 3, 300)] for _ in range(20)], axis=1
    )
    noisy = rng.random(L.shape) < 0.2
    L[noisy] = rng.integers(0, 9, noisy.sum())
    for method in METHODS:
        assert (
            matched_accuracy(truth, precomputed(3, method=method).fit(coassociation(L)).labels_)
            > 0.98
        )


def test_parameters_are_named(blobs):
    for parameters in (
        {"method": "ratio-cut"},
        {"rounding": "qr"},
        {"similarity": "rbf"},
        {"n_init": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            SpectralClustering(3, **parameters).fit(blobs[0])


def test_in_a_pipeline(blobs):
    X, y = blobs
    assert (
        matched_accuracy(
            y, make_pipeline(StandardScaler(), SpectralClustering(3, random_state=0)).fit_predict(X)
        )
        == 1
    )


def test_torch(blobs):
    torch = pytest.importorskip("torch")
    W = gaussian(blobs[0])
    for method in METHODS:
        model = precomputed(3, method=method).fit(torch.asarray(W))
        assert isinstance(model.memberships_, torch.Tensor)
        np.testing.assert_allclose(
            model.memberships_.numpy(), precomputed(3, method=method).fit(W).memberships_, atol=1e-6
        )
        np.testing.assert_array_equal(
            model.predict(torch.asarray(W)).numpy(), model.labels_.numpy()
        )


def test_score_is_of_the_objects_given():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 8])
    model = SpectralClustering(2, random_state=0).fit(X[::2])
    assert model.score(X[1::2]) > 0.9
    between = rng.normal(size=(40, 2)) + 4
    assert model.score(between) < model.score(X[1::2])
    assert SpectralClustering(1).fit(X).score(X) == 0.0
    Z, centers = model.embedding_, model.cluster_centers_
    left = np.square(Z[:, None] - centers[None]).sum(axis=2).min(axis=1).sum()
    assert model.score(X[::2]) == pytest.approx(
        1 - left / np.square(Z - Z.mean(axis=0)).sum(), abs=0.05
    )


def test_pairs_of_little_weight_are_filled_with_what_their_objects_have_on_average():
    """As in independence: the product of two means of rows over the mean of all."""
    W = block_stochastic()[0]
    rng = np.random.default_rng(0)
    trust = np.triu(rng.choice([0.0, 0.5, 1.0], size=W.shape), 1)
    trust += trust.T + np.eye(len(W))
    mean = np.array([np.average(row, weights=t) for row, t in zip(W, trust, strict=True)])
    expected = np.outer(mean, mean) / np.average(W, weights=trust)
    filled = trust * W + (1 - trust) * expected
    model = precomputed(5)
    found = model.fit(W, pair_weight=3 * trust).memberships_
    np.testing.assert_allclose(found, model.fit(filled).memberships_, atol=1e-9)
    factored = CompletelyPositiveFactorization(5, similarity="precomputed", random_state=0)
    found = factored.fit(W, pair_weight=3 * trust).memberships_
    np.testing.assert_allclose(found, factored.fit(filled).memberships_, atol=1e-6)
