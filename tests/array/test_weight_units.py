"""Similarity models of features do not depend on the scale of the weights, nor on copies of all."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato import (
    CompletelyPositiveFactorization,
    DirichletProcessMixture,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.similarity import gaussian
from tolerances import settled, stopped

MODELS = [
    SpectralClustering,
    PairwiseProbabilisticClustering,
    CompletelyPositiveFactorization,
]
X = load_iris().data[::5]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weight", [0.01, 0.5, 3.0])
def test_equal_weights_change_nothing(model, weight):
    fitter = settled(model(3, random_state=0))
    plain = fitter.fit(np.repeat(X, 2, axis=0)).memberships_[::2]
    found = fitter.fit(X, sample_weight=np.full(30, weight)).memberships_
    np.testing.assert_allclose(found, plain, atol=stopped(fitter))


@pytest.mark.parametrize("model", MODELS)
def test_the_scale_of_unequal_weights_does_not_matter(model):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 30)
    fitter = settled(model(3, random_state=0))
    one = fitter.fit(X, sample_weight=weights).memberships_
    other = fitter.fit(X, sample_weight=weights / weights.sum()).memberships_
    np.testing.assert_allclose(other, one, atol=stopped(fitter))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_copies_of_every_row_change_nothing(model):
    plain = model(3, random_state=0).fit(X).labels_
    copies = model(3, random_state=0).fit(np.repeat(X, 10, axis=0)).labels_
    np.testing.assert_array_equal(
        copies[:, None] == copies, np.repeat(plain, 10)[:, None] == np.repeat(plain, 10)
    )


@pytest.mark.parametrize("model", MODELS)
def test_weights_of_a_given_similarity_may_sum_to_one(model):
    W = gaussian(X)
    fitter = settled(model(3, similarity="precomputed", random_state=0))
    plain = fitter.fit(W).memberships_
    found = fitter.fit(W, sample_weight=np.full(30, 1 / 30)).memberships_
    np.testing.assert_allclose(found, plain, atol=stopped(fitter))


@pytest.mark.parametrize("model", MODELS[:2])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equal_rows_have_equal_memberships_where_clusters_outnumber_them(model):
    rows = np.repeat([[0.0, 1.0], [4.0, 4.0]], [20, 10], axis=0)
    U = model(3, random_state=0).fit(rows).memberships_
    np.testing.assert_allclose(U[:20], np.tile(U[0], (20, 1)), atol=1e-12)
    np.testing.assert_allclose(U[20:], np.tile(U[-1], (10, 1)), atol=1e-12)
    np.testing.assert_allclose(U.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore:one cluster explains")
def test_a_dirichlet_process_warns_of_weights_that_are_shares():
    with pytest.warns(UserWarning, match="sample_weight adds up to 1,"):
        DirichletProcessMixture(random_state=0).fit(X, sample_weight=np.full(30, 1 / 30))
