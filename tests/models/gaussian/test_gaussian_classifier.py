"""MixtureClassifier against discriminant analysis and densities by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score

from sfumato import GaussianMixture, MixtureClassifier

X, Y = load_iris(return_X_y=True)


def test_one_common_covariance_is_linear_discriminant_analysis():
    peer = LinearDiscriminantAnalysis(solver="lsqr").fit(X, Y)
    model = MixtureClassifier(covariance_type="tied").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-10)


def test_full_covariances_are_quadratic_discriminant_analysis_by_maximum_likelihood():
    model = MixtureClassifier(covariance_type="full").fit(X, Y)
    L = np.stack(
        [
            multivariate_normal(own.mean(axis=0), np.cov(own.T, bias=True)).logpdf(X)
            for own in (X[:50], X[50:100], X[100:])
        ],
        axis=1,
    )
    P = np.exp(L - L.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-9)
    joint = L[np.arange(150), Y].sum() + 150 * np.log(1 / 3)
    assert model.bic(X, Y) == pytest.approx(-2 * joint + 44 * np.log(150), rel=1e-9)


def test_the_family_is_chosen_with_the_labels_known():
    model = MixtureClassifier(random_state=0).fit(X, Y)
    values = {
        name: MixtureClassifier(covariance_type=name).fit(X, Y).bic(X, Y)
        for name in ("VEV", "VVV", "EEE", "EEV")
    }
    assert model.covariance_type_ == "VEV" == min(values, key=values.get)
    assert model.bic(X, Y) == pytest.approx(values["VEV"], rel=1e-9)
    # The log-likelihood that the documentation of R's mclust reports for this analysis.
    assert model.score_samples(X).sum() == pytest.approx(-187.7097, abs=1e-4)
    assert cross_val_score(clone(model), X, Y, cv=5).mean() > 0.96


@pytest.mark.filterwarnings("ignore:one cluster describes:UserWarning")
@pytest.mark.filterwarnings("ignore:structure test:UserWarning")
def test_every_class_may_have_a_mixture_of_its_own():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 0.0]])
    Z = centers[np.repeat([0, 1, 2], 80)] + rng.normal(size=(240, 2))
    names = np.repeat(["outside", "outside", "inside"], 80)
    one = MixtureClassifier(covariance_type="EII", random_state=0).fit(Z, names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MixtureClassifier(2, covariance_type="EII", random_state=0).fit(Z, names)
    assert model.classes_.tolist() == ["inside", "outside"]
    assert model.score(Z, names) > 0.97 > one.score(Z, names)
    by_hand = [
        np.log(share) + GaussianMixture(2, covariance_type="EII", random_state=0)
        .fit(Z[names == name]).score_samples(Z)
        for name, share in zip(model.classes_, model.class_prior_, strict=True)
    ]  # fmt: skip
    expected = np.logaddexp(*by_hand)
    np.testing.assert_allclose(model.score_samples(Z), expected, atol=1e-6)
    chosen = MixtureClassifier("auto", random_state=0).fit(Z, names)
    assert [len(mixture.weights_) for mixture in chosen.mixtures_] == [1, 2]


def test_weights_are_copies_and_missing_values_are_integrated_out():
    holes = X.copy()
    holes[::7, 1] = np.nan
    weights = np.where(Y == 0, 2.0, 1.0)
    copies = np.concatenate([np.arange(150), np.flatnonzero(Y == 0)])
    model = MixtureClassifier(covariance_type="full").fit(holes, Y, sample_weight=weights)
    other = MixtureClassifier(covariance_type="full").fit(holes[copies], Y[copies])
    np.testing.assert_allclose(model.predict_proba(holes), other.predict_proba(holes), atol=1e-6)
    assert model.score(holes, Y) > 0.95
    assert model.class_prior_[0] == pytest.approx(0.5)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="y must give the class"):
        MixtureClassifier().fit(X, None)
    with pytest.raises(ValueError, match="149 labels for 150"):
        MixtureClassifier().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="no object of positive weight"):
        MixtureClassifier().fit(X, Y, sample_weight=(Y > 0).astype(float))
    with pytest.raises(ValueError, match="n_components"):
        MixtureClassifier(0).fit(X, Y)
    with pytest.raises(ValueError, match="the class 9"):
        MixtureClassifier(covariance_type="EII").fit(X, Y).bic(X, np.full(150, 9))


@pytest.mark.parametrize("unknown", [-1, -1.0, np.nan, None])
def test_unknown_classes_are_refused(unknown):
    partial = np.array([unknown if i % 5 else c for i, c in enumerate(Y.tolist())])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"for 120 objects \(first: row 1\), which means"):
            MixtureClassifier().fit(X, partial)


def test_minus_one_is_one_of_two_classes():
    model = MixtureClassifier(random_state=0).fit(X, np.where(Y == 0, -1, 1))
    np.testing.assert_array_equal(model.classes_, [-1, 1])
