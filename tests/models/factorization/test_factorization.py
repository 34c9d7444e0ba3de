"""CompletelyPositiveFactorization.

Both solvers, every form of similarity, rows that vanish, new objects.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_iris

from sfumato import CompletelyPositiveFactorization, EvidenceWarning
from sfumato.metrics import matched_accuracy
from sfumato.numerics.operators import as_dense
from sfumato.similarity import Factored, coassociation, doubly_stochastic, gaussian


def precomputed(k, **parameters):
    return CompletelyPositiveFactorization(
        k, similarity="precomputed", **{"random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def iris():
    return gaussian(load_iris().data, bandwidth=0.5)


def test_both_solvers_reach_the_same_objective(iris):
    exact = precomputed(3).fit(iris)
    published = precomputed(3, solver="multiplicative", max_iter=3000).fit(iris)
    assert exact.objective_ == pytest.approx(published.objective_, rel=1e-4)
    assert exact.objective_ <= published.objective_ * (1 + 1e-9)
    assert exact.n_iter_ < published.n_iter_
    for model in (exact, published):
        assert np.diff(model.history_).max() <= 0
        F, G = doubly_stochastic(iris).toarray(), model.factor_
        off = ~np.eye(150, dtype=bool)
        assert model.objective_ == pytest.approx(0.5 * ((F - G @ G.T)[off] ** 2).sum(), rel=1e-8)
        assert matched_accuracy(load_iris().target, model.labels_) > 0.85


# The Frobenius norm sets objects apart whose similarities are small.
apart = pytest.mark.filterwarnings("ignore:.* share nothing with any cluster")


@apart
@pytest.mark.parametrize("normalization", ["relative-entropy", "frobenius", "l1"])
def test_all_nearest_doubly_stochastic_matrices_are_factored(iris, normalization):
    """As by hand before the fit; in the L1 norm only the diagonal differs, which is left out."""
    model = precomputed(3, normalization=normalization).fit(iris)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the diagonal of W - D")
        F = as_dense(doubly_stochastic(iris, divergence=normalization))
    G, off = model.factor_, ~np.eye(150, dtype=bool)
    assert model.objective_ == pytest.approx(0.5 * ((F - G @ G.T)[off] ** 2).sum(), rel=1e-8)
    assert (model.predict(iris) == model.labels_).mean() > 0.95
    assert model.score(iris) > 0.0


@apart
def test_weights_are_copies_in_the_frobenius_norm(iris):
    W = iris[::5, ::5]
    counts = np.where(np.arange(30) % 3 == 0, 2, 1)
    index = np.repeat(np.arange(30), counts)
    weighted = precomputed(2, normalization="frobenius").fit(W, sample_weight=counts)
    copies = precomputed(2, normalization="frobenius").fit(W[np.ix_(index, index)])
    np.testing.assert_allclose(weighted.shift_[index], copies.shift_, atol=1e-8)
    F = doubly_stochastic(W[np.ix_(index, index)], divergence="frobenius")
    G, off = weighted.factor_[index], ~np.eye(len(index), dtype=bool)
    assert weighted.objective_ == pytest.approx(0.5 * ((F - G @ G.T)[off] ** 2).sum(), rel=1e-8)


@apart
@pytest.mark.parametrize("normalization", ["relative-entropy", "frobenius", None])
def test_every_form_gives_the_same_answer(iris, normalization):
    reference = precomputed(3, normalization=normalization).fit(iris)
    for form in (sp.csr_array(iris), aslinearoperator(iris)):
        model = precomputed(3, normalization=normalization).fit(form)
        np.testing.assert_allclose(model.memberships_, reference.memberships_, atol=1e-3)


def test_a_factored_similarity_equals_the_matrix(rng):
    B = rng.random((60, 4)) ** 3
    for form in (Factored(B), Factored(sp.csr_array(B))):
        np.testing.assert_allclose(
            precomputed(3).fit(form).memberships_,
            precomputed(3).fit(B @ B.T).memberships_,
            atol=1e-3,
        )


def test_an_implicit_coassociation(rng):
    truth = np.arange(120) % 3
    L = np.stack(
        [rng.permutation(6)[2 * truth + rng.integers(0, 2, 120)] for _ in range(20)], axis=1
    )
    assert matched_accuracy(truth, precomputed(3).fit(coassociation(L)).labels_) > 0.98


def test_an_exact_factor_is_found(rng):
    G = np.eye(3)[np.arange(45) % 3] * rng.uniform(0.5, 1.5, (45, 1))
    model = precomputed(3, normalization=None, tol=1e-12).fit(G @ G.T)
    assert model.objective_ < 1e-8
    np.testing.assert_allclose(model.memberships_.max(axis=1), 1, atol=1e-5)


def test_new_objects(iris):
    rng = np.random.default_rng(0)
    order = rng.permutation(150)
    X, y = load_iris().data[order], load_iris().target[order]
    model = CompletelyPositiveFactorization(3, random_state=0).fit(X[:110])
    assert matched_accuracy(y[110:], model.predict(X[110:])) > 0.8
    assert (model.predict(X[:110]) == model.labels_).mean() > 0.98
    np.testing.assert_array_equal(
        precomputed(3).fit(iris).predict_proba(np.zeros((1, 150))), np.full((1, 3), 1 / 3)
    )


def test_vanishing_rows_are_reported():
    W = np.zeros((9, 9))
    W[:4, :4] = W[4:8, 4:8] = 1
    for normalization in (None, "relative-entropy"):
        with pytest.warns(EvidenceWarning, match="1 of 9 objects are similar to no other"):
            model = precomputed(2, normalization=normalization).fit(W)
        np.testing.assert_array_equal(model.memberships_[8], [0.5, 0.5])


def test_odd_similarities_are_named(iris):
    with pytest.raises(ValueError, match="no similarity to any object"):
        precomputed(2).fit(np.zeros((5, 5)))
    with pytest.raises(ValueError, match="zero off the diagonal"):
        precomputed(2).fit(np.eye(5))
    with pytest.raises(ValueError, match="negative"):
        precomputed(2).fit(-iris)
    for parameters in ({"solver": "gradient"}, {"normalization": "l2"}, {"similarity": "rbf"}):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            CompletelyPositiveFactorization(3, **parameters).fit(load_iris().data)


@pytest.mark.parametrize("W", [np.ones((20, 20)), np.outer(np.arange(1, 21), np.arange(1, 21)) / 7])
def test_a_similarity_without_structure_is_named(W):
    with pytest.warns(EvidenceWarning, match="equally similar"):
        model = precomputed(3).fit(W)
    np.testing.assert_allclose(model.memberships_, 1 / 3, atol=1e-6)
    assert model.objective_ == pytest.approx(0.0, abs=1e-12)


def test_one_cluster_and_as_many_as_objects(iris):
    np.testing.assert_array_equal(precomputed(1).fit(iris).memberships_, np.ones((150, 1)))
    with pytest.warns(EvidenceWarning, match="of the 8 clusters are the main cluster"):
        model = precomputed(8, max_iter=3000).fit(iris[::20, ::20])
    assert model.memberships_.shape == (8, 8)


def test_torch_similarities_are_read(iris):
    torch = pytest.importorskip("torch")
    model = precomputed(3).fit(torch.asarray(iris))
    np.testing.assert_array_equal(model.memberships_, precomputed(3).fit(iris).memberships_)
    assert model.predict(torch.asarray(iris[:5])).shape == (5,)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_score_is_of_the_objects_given(form):
    rng = np.random.default_rng(0)
    group = np.arange(80) % 2
    W = np.where(group[:, None] == group, 1.0, 0.05) + 0.02 * rng.random((80, 80))
    W = (W + W.T) / 2
    fitted, new = np.arange(60), np.arange(60, 80)
    model = CompletelyPositiveFactorization(2, similarity="precomputed", random_state=0)
    model.fit(form(W[np.ix_(fitted, fitted)]))
    rows = form(W[np.ix_(new, fitted)])
    F = W[np.ix_(new, fitted)] * model.scaling_
    G = model.factor_
    best = [nnls(G, f)[0] for f in F]
    expected = 1 - np.square(F - np.array(best) @ G.T).sum() / np.square(F).sum()
    assert model.score(rows) == pytest.approx(expected, abs=1e-6)
    shuffled = form(rng.permutation(W[np.ix_(new, fitted)].T).T)
    assert model.score(shuffled) < model.score(rows)
