"""The estimator: what it finds, what it promises, and what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import BayesianGaussianMixture
from sklearn.utils.estimator_checks import check_estimator

from sfumato import DirichletProcessMixture, EvidenceWarning
from sfumato.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from sfumato.datasets import make_gaussians
from sfumato.metrics import adjusted_rand_index
from sfumato.models.dirichlet_process import kernel as variational
from sfumato.models.dirichlet_process import sampling
from tolerances import LAST, settled, stopped

INFERENCES = ("variational", "gibbs")
COMPONENTS = (NormalInverseWishart, NormalInverseGamma, BetaBinomial, DirichletMultinomial)


def blobs(n=150, seed=0, distance=6.0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    centers = distance * np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 1.0]])
    return centers[labels] + rng.normal(size=(n, 2)), labels


def evidence(component, n=120, seed=0):
    """Three clusters of the right kind of data."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    if component is BetaBinomial:
        return (
            rng.random((n, 12)) < np.array([0.05, 0.95])[rng.integers(0, 2, (3, 12))][labels]
        ).astype(float), labels
    if component is DirichletMultinomial:
        return np.stack(
            [rng.multinomial(40, p) for p in rng.dirichlet(np.full(6, 0.4), 3)[labels]]
        ).astype(float), labels
    return blobs(n, seed)


def matched(labels, truth):
    """Share of objects whose cluster's most frequent class is theirs."""
    return np.sum([np.bincount(truth[labels == k]).max() for k in np.unique(labels)]) / len(truth)


def make(inference="variational", **parameters):
    return DirichletProcessMixture(
        inference=inference,
        **{
            "random_state": 0,
            "n_init": 2,
            "burn_in": 20,
            "n_draws": 25,
            **parameters,
        },
    )


def fit(X, inference="variational", **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(inference, **parameters).fit(X)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("component", COMPONENTS)
def test_finds_three_clusters_and_keeps_the_contract(component, inference):
    X, truth = evidence(component)
    X.flags.writeable = False
    model = fit(X, inference, component=component)
    U = model.memberships_
    assert model.n_clusters_ == U.shape[1] == 3
    assert matched(model.labels_, truth) > 0.97
    assert U.min() >= 0
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.labels_, U.argmax(axis=1))
    np.testing.assert_array_equal(model.predict_proba(X), U)
    np.testing.assert_allclose(model.predict_proba(X[5:9]), U[5:9], atol=1e-12)
    assert model.n_clusters_posterior_.sum() == pytest.approx(1.0)
    assert model.n_clusters_posterior_.argmax() == 3
    assert np.diff(model.history_).min() >= -1e-8 * np.abs(model.history_).max()
    assert model.objective_ == model.history_[-1]
    assert model.weights_.sum() == pytest.approx(1.0)
    again = fit(X, inference, component=component)
    np.testing.assert_array_equal(again.memberships_, U)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("component", COMPONENTS)
def test_sparse_equals_dense(component, inference):
    X, _ = evidence(component, n=60)
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    dense, sparse = (
        fit(X, inference, component=component, tol=LAST),
        fit(sp.csr_array(X), inference, component=component, tol=LAST),
    )
    atol = stopped(dense)
    np.testing.assert_allclose(dense.memberships_, sparse.memberships_, atol=atol)
    np.testing.assert_allclose(
        dense.score_samples(X), sparse.score_samples(sp.csr_array(X)), atol=atol
    )


@pytest.mark.parametrize("inference", INFERENCES)
def test_units_origin_and_order_change_nothing(inference):
    X, _ = blobs(90, distance=3.5)
    reference = fit(X, inference, tol=LAST)
    atol = stopped(reference)
    for Y in (X * 1e12, X * 1e-12, X + 1e4, X * [1e6, 1e-6]):
        found = fit(Y, inference, tol=LAST).memberships_
        np.testing.assert_allclose(found, reference.memberships_, atol=atol)
    order = np.random.default_rng(0).permutation(len(X))
    found = fit(X[order], inference, tol=LAST).memberships_
    np.testing.assert_allclose(found, reference.memberships_[order], atol=atol)
    single = fit(X.astype(np.float32), inference).memberships_
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.sum(axis=1), 1, atol=1e-6)


def test_densities_change_with_units_by_the_jacobian():
    X, _ = blobs(60)
    a, b = fit(X, tol=LAST), fit(X * [10.0, 0.1] + 3.0, tol=LAST)
    np.testing.assert_allclose(
        a.score_samples(X), b.score_samples(X * [10.0, 0.1] + 3.0), atol=stopped(a)
    )
    c = fit(X * 10.0, tol=LAST)
    assert c.score(X * 10.0) == pytest.approx(a.score(X) - 2 * np.log(10.0), abs=1e-9)
    assert c.objective_ == pytest.approx(a.objective_ - 60 * 2 * np.log(10.0), rel=1e-9)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_weight_of_w_equals_w_copies(component):
    X, _ = evidence(component, n=60)
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    weighted, copied = settled(make(component=component)), settled(make(component=component))
    weighted.fit(X, sample_weight=weights)
    copied.fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(
        np.repeat(weighted.memberships_, weights, axis=0),
        copied.memberships_,
        atol=stopped(copied),
    )
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-10)
    assert weighted.score(X, sample_weight=weights) == pytest.approx(
        copied.score(np.repeat(X, weights, axis=0)), rel=1e-9
    )


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("component", [NormalInverseGamma, BetaBinomial])
def test_missing_numbers_are_left_out(component, inference):
    X, truth = evidence(component)
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    holes[0] = np.nan
    model = fit(holes, inference, component=component)
    assert model.n_clusters_ == 3
    complete = ~np.isnan(holes).any(axis=1)
    assert matched(model.labels_[complete], truth[complete]) > 0.97
    assert (
        model.memberships_[0].max() < 0.6
    )  # nothing is known about it but the sizes of the clusters
    assert model.score_samples(holes)[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("inference", INFERENCES)
def test_predictive_density_integrates_to_one(inference):
    X, _ = blobs(60)
    model = fit(X[:, :1], inference)
    grid = np.linspace(-300, 300, 30_001)
    assert np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid) == pytest.approx(
        1.0, abs=2e-3
    )
    votes, _ = evidence(BetaBinomial)
    model = fit(votes[:, :5], inference, component=BetaBinomial)
    every = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
    assert logsumexp(model.score_samples(every)) == pytest.approx(0.0, abs=1e-9)


def test_given_prior_is_used_as_it_is():
    X, _ = blobs(60)
    prior = NormalInverseWishart([2.0, 2.0], 0.5, 6.0, np.eye(2))
    model = fit(X, component=prior)
    assert model.prior_ is prior
    one = make(component=prior, n_clusters=1)
    with pytest.warns(EvidenceWarning, match="one cluster"):
        one.fit(X)
    posterior = prior.posterior(X)
    np.testing.assert_allclose(one.components_.scale[0], posterior.scale, rtol=1e-10)
    np.testing.assert_allclose(one.score_samples(X), posterior.log_predictive(X), rtol=1e-10)
    assert one.objective_ == pytest.approx(
        float(prior.log_marginal_likelihood(X)), rel=1e-10
    )  # one cluster: the bound is the evidence


def test_learnt_posteriors_are_conjugate_objects():
    for component in COMPONENTS:
        X, _ = evidence(component)
        model = fit(X, component=component)
        assert isinstance(model.components_, component)
        assert model.components_.batch_shape[0] == 3
        centers = np.stack([X[model.labels_ == k].mean(axis=0) for k in range(3)])
        means = model.components_.mean * (X[0].sum() if component is DirichletMultinomial else 1.0)
        np.testing.assert_allclose(means, centers, atol=0.06 * np.ptp(X))


def test_more_clusters_when_alpha_is_larger():
    X, _ = blobs(80, distance=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        few, many = (
            fit(X, "gibbs", concentration=alpha).n_clusters_posterior_ for alpha in (0.01, 20.0)
        )
    assert few @ np.arange(len(few)) < many @ np.arange(len(many))


def test_concentration_is_learnt():
    X, _ = blobs(90)
    for inference in INFERENCES:
        assert fit(X, inference, concentration=2.5).concentration_ == 2.5
        assert 0.1 < fit(X, inference).concentration_ < 1.5


def test_one_cloud_gives_one_cluster_and_a_warning():
    X = np.random.default_rng(0).normal(size=(150, 3))
    for inference in INFERENCES:
        with pytest.warns(EvidenceWarning, match="one cluster"):
            model = make(inference).fit(X)
        assert model.n_clusters_ == 1


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(
    "X",
    [
        np.ones((10, 2)),
        np.zeros((1, 2)),
        np.full((5, 3), 1e5),
        np.repeat([[0.0, 0.0], [1.0, 1.0]], 8, axis=0),
        np.eye(4, 12),
    ],
)
def test_odd_data_never_crash(X, inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make(inference, n_init=1).fit(X)
    U = model.memberships_
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    places, first, which = np.unique(X, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_allclose(U, U[first][which], atol=0.01)  # equal rows, equal memberships
    assert len(np.unique(model.labels_)) == len(places)
    assert np.isfinite(model.score(X))


def test_a_far_object_still_gets_a_membership():
    X, _ = blobs(60)
    for inference in INFERENCES:
        U = fit(X, inference).predict_proba([[1e9, -1e9], [1e130, 0.0]])
        np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)


def test_memberships_of_overlapping_clusters_are_calibrated():
    X, truth = blobs(400, seed=3, distance=3.5)
    for inference in INFERENCES:
        model = fit(X, inference, n_draws=50)
        assert abs(model.memberships_.max(axis=1).mean() - matched(model.labels_, truth)) < 0.09


def test_held_out_density_beats_the_peer():
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [
            rng.multivariate_normal(m, np.cov(rng.normal(size=(3, 9))), 150)
            for m in rng.normal(size=(4, 3)) * 4
        ]
    )
    order = rng.permutation(len(X))
    train, test = X[order[::2]], X[order[1::2]]
    peer = BayesianGaussianMixture(n_components=10, max_iter=500, random_state=0).fit(train)
    assert fit(train).score(test) > peer.score(test)


def test_starts_that_compete_on_a_sample_end_where_the_others_do(monkeypatch):
    X, truth = blobs(600)
    monkeypatch.setattr(variational, "TUNING", variational.TUNING._replace(screen=100))
    model = fit(X)
    assert model.n_clusters_ == 3
    assert matched(model.labels_, truth) > 0.99


def test_r_hat():
    rng = np.random.default_rng(0)
    assert sampling.split_r_hat(rng.normal(size=(4, 500))) == pytest.approx(1.0, abs=0.02)
    assert sampling.split_r_hat(rng.normal(size=(4, 500)) + np.arange(4)[:, None]) > 1.3
    assert sampling.split_r_hat(np.ones((2, 10))) == 1.0
    assert np.isinf(sampling.split_r_hat(np.ones((2, 2))))


def test_chains_that_disagree_are_reported():
    X, _ = blobs(60)
    with pytest.warns(ConvergenceWarning, match="r_hat_"):
        make("gibbs", burn_in=0, n_draws=3).fit(X)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("component", COMPONENTS)
def test_tensors_in_tensors_out(component, inference):
    torch = pytest.importorskip("torch")
    X, _ = evidence(component, n=60)
    model, tensor = (
        fit(X, inference, component=component, tol=LAST),
        fit(torch.asarray(X), inference, component=component, tol=LAST),
    )
    assert isinstance(tensor.memberships_, torch.Tensor)
    np.testing.assert_allclose(tensor.memberships_.numpy(), model.memberships_, atol=stopped(model))
    assert tensor.score(torch.asarray(X)) == pytest.approx(model.score(X), rel=1e-9)


def test_clone_pickle_and_unfitted():
    X, _ = blobs(60)
    model = make(component=NormalInverseGamma(shape=2.0))
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(X)
    fitted = pickle.loads(pickle.dumps(fit(X, "gibbs")))
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.memberships_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 10**6}, "n_clusters"),
        ({"inference": "exact"}, "inference must be one of"),
        ({"component": "normal"}, "component must be one of"),
        ({"component": NormalInverseWishart([0.0], 1, 3, [[1.0]])}, "single prior for 2 features"),
        ({"component": NormalInverseGamma(np.zeros(5))}, "each of 2 features"),
        ({"component": DirichletMultinomial(np.ones(5))}, "single prior for 2 features"),
        ({"component": BetaBinomial}, "0 or 1"),
        ({"component": DirichletMultinomial}, "nonnegative whole numbers"),
        ({"concentration": 0.0}, "concentration"),
        ({"concentration": (1.0, 2.0, 3.0)}, "pair"),
        ({"n_draws": 0}, "n_draws"),
        ({"max_clusters": 0}, "max_clusters"),
        ({"burn_in": -1}, "burn_in"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        make(**parameters).fit(blobs(30)[0])


def test_weights_and_missing_numbers_are_refused_where_they_make_no_sense():
    X, _ = blobs(30)
    with pytest.raises(ValueError, match="sample_weight needs"):
        make("gibbs").fit(X, sample_weight=np.ones(30))
    with pytest.raises(ValueError, match="NaN"):
        make("gibbs").fit(np.where(X > 2, np.nan, X))
    for component in (NormalInverseWishart, NormalInverseGamma, BetaBinomial):
        with pytest.raises(ValueError, match="only NaN"):
            make(component=component).fit(np.full((4, 2), np.nan))


@pytest.mark.slow  # as in tests/test_scikit_learn.py, with more clusters than there are
def test_scikit_learn_checks():
    # these two take any predict_proba for a classifier's and ask for its tags
    reason = "scikit-learn reads classifier tags of everything that has predict_proba"
    expected = {"check_estimator_sparse_array": reason, "check_estimator_sparse_matrix": reason}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(
            DirichletProcessMixture(n_clusters=5, n_init=1), expected_failed_checks=expected
        )


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("concentration", [(1e-300, 1e300), (1e300, 1e-300), 1e-320, 1e300])
def test_a_concentration_without_a_sensible_mean_is_refused(concentration, inference):
    with pytest.raises(ValueError, match="concentration=.* between 1e-100 and 1e10"):
        make(inference, concentration=concentration).fit(blobs(30)[0])


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(
    ("concentration", "n_clusters"),
    [((1e100, 1e100), 3), ((1e-100, 1e-100), 3), (1e-100, 1), (1e10, None)],
)
def test_extreme_concentrations_give_finite_answers(concentration, n_clusters, inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        model = fit(blobs(30)[0], inference, concentration=concentration)
    assert np.isfinite(model.memberships_).all()
    assert np.isfinite(model.objective_)
    assert n_clusters in (None, model.n_clusters_)  # three with the mean one, known or learnt


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(
    "component",
    [
        NormalInverseGamma(1e200, 1, 1, 1),
        NormalInverseWishart(np.full(2, 1e160), 1, 6, np.eye(2)),
        NormalInverseWishart(np.full(2, 1e12), 1, 6, np.eye(2)),
        NormalInverseWishart(np.zeros(2), 1, 6, 1e-20 * np.eye(2)),
        NormalInverseGamma(0, 1, 1, 1e-20),
        NormalInverseGamma(0, 1e200, 1, 1),
    ],
)
def test_a_prior_in_other_units_is_refused(component, inference):
    with pytest.raises(ValueError, match="component has a .*units of X"):
        make(inference, component=component).fit(blobs(30)[0])


@pytest.mark.parametrize("inference", INFERENCES)
def test_objects_far_away_have_memberships(inference):
    X, _ = blobs(60)
    model = fit(X, inference)
    for far in (1e20, 1e120):
        np.testing.assert_allclose(model.predict_proba(X * far).sum(axis=1), 1, atol=1e-12)
        assert np.isfinite(model.score(X * far))
    with pytest.raises(ValueError, match="X has values as large as"):
        make(inference).fit(X * 1e155)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("component", COMPONENTS)
def test_clusters_come_by_size_whatever_the_order_of_the_objects(component, inference):
    X, _ = evidence(component, n=90)
    keep = np.r_[:30, 30:90:3]  # sizes differ
    shuffle = np.random.default_rng(1).permutation(len(keep))
    model = fit(X[keep], inference, component=component)
    again = fit(X[keep][shuffle], inference, component=component)
    sizes = model.memberships_.sum(axis=0)
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_allclose(model.weights_, sizes / sizes.sum())
    np.testing.assert_allclose(again.memberships_, model.memberships_[shuffle], atol=1e-6)


def test_links_are_kept_and_move_the_clusters():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 2)) + 1.6 * truth[:, None]
    pairs = rng.integers(120, size=(80, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    links = {"must_link": pairs[same], "cannot_link": pairs[~same]}
    model = make().fit(X, **links)
    a, b = model.labels_[pairs].T
    np.testing.assert_array_equal(a == b, same)
    assert adjusted_rand_index(truth, model.labels_) > 0.5  # one cluster without links
    few = make().fit(X, cannot_link=[[0, 70], [1, 71]], must_link=[[2, 3]])
    assert np.diff(few.history_).min() >= -1e-8 * np.abs(few.history_).max()


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_one_link_apart_divides_one_cloud_and_drawn_sets_of_links_are_kept():
    X, _ = blobs(60, distance=1.0)
    one, other = make().fit(X, cannot_link=[[0, 3]]).labels_[[0, 3]]
    assert one != other
    rng = np.random.default_rng(2)
    for _ in range(10):
        groups = rng.integers(3, size=60)
        pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(6)])
        same = groups[pairs[:, 0]] == groups[pairs[:, 1]]
        model = make(n_init=1).fit(X, must_link=pairs[same], cannot_link=pairs[~same])
        np.testing.assert_array_equal(np.equal(*model.labels_[pairs].T), same)


def test_links_of_sparse_rows_are_those_of_dense_ones():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.poisson([5, 1, 1], (40, 3)), rng.poisson([1, 5, 1], (40, 3))])
    links = {"must_link": [[0, 41], [2, 3]], "cannot_link": [[0, 1]]}
    dense, sparse = (
        make(component=DirichletMultinomial).fit(rows, **links)
        for rows in (X.astype(float), sp.csr_array(X.astype(float)))
    )
    np.testing.assert_allclose(sparse.memberships_, dense.memberships_, atol=1e-9)
    assert sparse.labels_[0] == sparse.labels_[41] != sparse.labels_[1]


def test_links_need_the_variational_form():
    with pytest.raises(ValueError, match="links need inference='variational'"):
        make("gibbs").fit(blobs(30)[0], must_link=[[0, 1]])


@pytest.mark.parametrize("n_clusters", [4, (2, 4), range(1, 5)])
def test_a_number_or_the_largest_of_several_is_the_most_that_is_used(n_clusters):
    X, _, _ = make_gaussians(300, 8, n_features=3, separation=9, random_state=0)
    assert make(n_clusters=n_clusters).fit(X).n_clusters_ <= 4


@pytest.mark.parametrize("component", [NormalInverseWishart, NormalInverseGamma])
@pytest.mark.parametrize("weight", [1e20, 1e308])
def test_weights_that_drown_the_prior_are_refused(component, weight):
    X, _ = blobs(30)
    with pytest.raises(ValueError, match="sample_weight (adds up to|is too)"):
        make(component=component).fit(X, sample_weight=np.full(30, weight))


def test_too_few_draws_cannot_tell_whether_chains_agree():
    with pytest.warns(ConvergenceWarning, match="n_draws=1 cannot tell.* needs 4"):
        model = make("gibbs", n_init=1, n_draws=1).fit(blobs(30)[0])
    assert np.isinf(model.r_hat_)


def test_a_refused_fit_leaves_nothing_behind():
    model = make(component=DirichletMultinomial)
    with pytest.raises(ValueError, match="X must hold nonnegative whole numbers"):
        model.fit(-np.ones((10, 3)))
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "prior_")


def test_the_default_limit_grows_where_all_clusters_are_used():
    X, _, labels = make_gaussians(1000, 26, n_features=8, separation=9, random_state=0)
    model = DirichletProcessMixture(random_state=0).fit(X)
    assert model.n_clusters_ == 26
    assert adjusted_rand_index(labels, model.labels_) > 0.99
    assert DirichletProcessMixture(20, random_state=0).fit(X).n_clusters_ <= 20
