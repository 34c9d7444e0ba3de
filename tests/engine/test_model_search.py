"""The table of candidates of every mixture."""

import numpy as np
import pytest

from sfumato import EvidenceWarning, FactorMixture, GaussianMixture, MixedMixture, StudentMixture
from sfumato.datasets import make_gaussians
from sfumato.engine.component import ModelCandidate, ModelSearch
from sfumato.selection import choose_n_clusters


def row(k, bic, **setting):
    return ModelCandidate({"n_clusters": k, **setting}, bic=bic)


def test_rows_are_ranked_and_laid_out():
    search = ModelSearch(
        [
            row(1, 30.0, covariance_type="EII"),
            row(1, 40.0, covariance_type="VVV"),
            row(2, 20.0, covariance_type="EII"),
            row(2, 10.0, covariance_type="VVV").failed("flat"),
        ],
        "bic",
    )
    assert [each.bic for each in search.best(2)] == [20.0, 30.0]
    sizes, shapes, values = search.table()
    assert (sizes, shapes) == ([1, 2], ["EII", "VVV"])
    np.testing.assert_array_equal(values, [[30.0, 40.0], [20.0, np.nan]])
    assert {k: each.bic for k, each in search.best_of_each().items()} == {1: 30.0, 2: 20.0}
    assert search[3].reason == "flat"
    assert "EII,2 20.000" in repr(search)
    assert "NA" in repr(search)


def test_shapes_have_names():
    assert row(1, 0.0).shape == "all"
    assert row(1, 0.0, n_factors=2).shape == "n_factors 2"
    assert ModelSearch([row(1, 5.0), row(2, np.nan)], "bic").best_of_each()[2].n_clusters == 2


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixture("auto", n_init=1, covariance_type="EII", random_state=0),
        StudentMixture("auto", n_init=1, tol=1e-4, random_state=0),
        FactorMixture("auto", n_factors=1, n_init=1, random_state=0),
        MixedMixture("auto", n_init=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_mixtures_keep_their_search_and_grow_from_max_clusters(model):
    X = make_gaussians(120, 3, separation=8, random_state=0).evidence
    fitted = model.set_params(max_clusters=2).fit(X)
    assert fitted.n_clusters_ == 3
    assert isinstance(fitted.search_, ModelSearch)
    assert [row.n_clusters for row in fitted.selection_.table] == [1, 2, 3, 4]
    assert fitted.selection_ == choose_n_clusters(model, X)._replace(estimator=None)
    with pytest.raises(ValueError, match="max_clusters"):
        model.set_params(max_clusters=1).fit(X)
    model.set_params(n_clusters=3, max_clusters=9).fit(X)
    np.testing.assert_array_equal(model.memberships_, fitted.memberships_)
    assert not hasattr(model, "selection_")


@pytest.mark.filterwarnings("ignore:structure test")
def test_numbers_beyond_the_objects_or_features_are_named():
    X = np.random.default_rng(0).normal(size=(40, 2)) + 9.0 * (np.arange(40) % 2)[:, None]
    with pytest.warns(EvidenceWarning, match="n_clusters=500 is not tried: there are only 40"):
        GaussianMixture([2, 500], covariance_type="diag", random_state=0).fit(X)
    with pytest.warns(EvidenceWarning, match="n_factors=50 is more than the 2 features"):
        FactorMixture(2, n_factors=50, n_init=1, random_state=0).fit(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_criteria_are_their_formulas(weighted):
    X = make_gaussians(120, 3, separation=6, random_state=0).evidence
    weights = 1.0 + np.arange(120) % 3 if weighted else np.ones(120)
    given = {"sample_weight": weights} if weighted else {}
    model = GaussianMixture(3, covariance_type="VVV", n_init=1, random_state=0).fit(X, **given)
    p = X.shape[1]
    parameters = 2 + 3 * p + 3 * p * (p + 1) / 2
    likelihood = weights @ model.score_samples(X)
    bic = -2 * likelihood + parameters * np.log(weights.sum())
    assert model.score(X, **given) == pytest.approx(likelihood / weights.sum(), rel=1e-10)
    assert model.aic(X, **given) == pytest.approx(-2 * likelihood + 2 * parameters, rel=1e-10)
    assert model.bic(X, **given) == pytest.approx(bic, rel=1e-10)
    sure = weights @ np.log(model.predict_proba(X).max(axis=1))
    assert model.icl(X, **given) == pytest.approx(bic - 2 * sure, rel=1e-10)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_few_objects_do_not_have_a_cluster_each(n):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(n, 2))
        assert GaussianMixture(random_state=seed).fit(X).n_clusters_ <= max(1, n // 3)


def test_rows_without_weight_are_no_objects_for_clusters():
    X, w = np.random.default_rng(0).normal(size=(30, 2)), (np.arange(30) < 5).astype(float)
    with pytest.raises(ValueError, match="n_clusters"):
        GaussianMixture(6, random_state=0).fit(X, sample_weight=w)
