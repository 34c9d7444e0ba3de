"""The information bottleneck as an estimator.

Brute force, the curve, and the membership contract.
"""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import check_estimator

from sfumato import EvidenceWarning, InformationBottleneck
from sfumato.models import bottleneck as kernel
from sfumato.numerics.contingency import mutual_information
from tolerances import settled, stopped

EXPECTED = {
    "check_clustering": "gives negative features, and these are counts",
    "check_estimator_sparse_array": "takes whatever has predict_proba for a classifier",
    "check_estimator_sparse_matrix": "takes whatever has predict_proba for a classifier",
}


def topics(seed=0, n=60, total=60):
    rng = np.random.default_rng(seed)
    profiles = rng.dirichlet(np.full(8, 0.4), 3)
    return rng.multinomial(total, profiles[np.arange(n) % 3]).astype(float)


def small_table(seed):
    counts = np.random.default_rng(seed).integers(0, 12, size=(6, 3))
    counts[counts.sum(axis=1) == 0] += 1
    return counts


@pytest.mark.parametrize("beta", [pytest.param(20.0, marks=pytest.mark.slow), np.inf])
def test_passes_the_checks_of_scikit_learn(beta):
    expected = (
        EXPECTED
        if np.isfinite(beta)
        else EXPECTED
        | dict.fromkeys(
            (
                "check_sample_weight_equivalence_on_dense_data",
                "check_sample_weight_equivalence_on_sparse_data",
                "check_methods_subset_invariance",
            ),
            "copies move one by one, and ties go by rounding",
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        check_estimator(
            InformationBottleneck(3, beta=beta, n_init=1, random_state=0),
            expected_failed_checks=expected,
            on_skip=None,
        )


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("k", [2, 3])
def test_hard_clusters_are_the_best_of_all_partitions(seed, k):
    counts = small_table(seed)
    p = counts / counts.sum()
    best = 0.0
    for labels in itertools.product(range(k), repeat=6):
        best = max(
            best,
            mutual_information(np.stack([p[np.array(labels) == v].sum(axis=0) for v in range(k)])),
        )
    model = InformationBottleneck(k, beta=np.inf, n_init=8, random_state=0).fit(counts)
    assert model.relevance_ == pytest.approx(best, abs=1e-10)
    assert model.objective_ == -model.relevance_
    assert set(np.unique(model.memberships_)) <= {0.0, 1.0}


def reference_optimum(counts, k, beta, starts=6):
    """Minimum of I(X;V) - beta I(C;V) over memberships by a general-purpose optimiser."""
    p = counts / counts.sum()
    mass = p.sum(axis=1)
    Q = p / mass[:, None]

    def functional(logits):
        Y = np.exp(logits.reshape(6, k))
        Y /= Y.sum(axis=1, keepdims=True)
        joint = kernel.joint(Y, Q, mass)
        return kernel.compression(Y, mass, joint.sum(axis=1)) - beta * mutual_information(joint)

    rng = np.random.default_rng(0)
    return min(
        minimize(functional, rng.normal(size=6 * k) * 2, method="BFGS", options={"gtol": 1e-7}).fun
        for _ in range(starts)
    )


@pytest.mark.parametrize("seed, beta", [(0, 3.0), (1, 6.0), (2, 15.0), (3, 40.0)])
def test_soft_clusters_reach_the_minimum_of_the_functional(seed, beta):
    counts = small_table(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = InformationBottleneck(2, beta=beta, n_init=8, random_state=0).fit(counts)
        reference = reference_optimum(counts, 2, beta)
    assert model.objective_ <= reference + 1e-5
    assert model.objective_ == pytest.approx(model.compression_ - beta * model.relevance_)


@pytest.mark.parametrize("anneal", [True, False])
@pytest.mark.parametrize("beta", [5.0, 20.0, 100.0])
def test_objective_never_rises(anneal, beta):
    model = InformationBottleneck(4, beta=beta, anneal=anneal, random_state=0).fit(topics())
    assert (np.diff(model.history_) <= 1e-11).all()
    assert model.history_[-1] == model.objective_
    assert model.converged_
    assert 0 <= model.relevance_ <= model.information_ + 1e-12
    assert model.relevance_ <= model.compression_


@pytest.mark.parametrize("seed", range(5))
def test_the_information_curve_is_concave(seed):
    beta, compression, relevance = (
        InformationBottleneck(4, beta=60.0, random_state=0).fit(topics(seed)).information_curve_.T
    )
    assert (np.diff(beta) > 0).all()
    assert (np.diff(compression) >= 0).all()
    assert (np.diff(relevance) >= 0).all()
    steps = np.diff(compression) > 1e-9
    slopes = np.diff(relevance)[steps] / np.diff(compression)[steps]
    assert steps.sum() >= 3
    assert (np.diff(slopes) <= 1e-9).all()
    assert (slopes <= 1 / beta[:-1][steps] + 1e-9).all()


@pytest.mark.parametrize("beta", [10.0, np.inf])
def test_memberships_keep_their_word(beta):
    counts = topics()
    model = InformationBottleneck(3, beta=beta, random_state=0).fit(counts)
    U = model.memberships_
    np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.labels_, U.argmax(axis=1))
    np.testing.assert_array_equal(model.predict_proba(counts), U)
    np.testing.assert_allclose(model.predict_proba(7.0 * counts[:4]), U[:4], atol=1e-9)
    assert model.score(counts) == pytest.approx(-model.objective_, abs=1e-6)
    assert all(len(set(model.labels_[np.arange(60) % 3 == v])) == 1 for v in range(3))
    np.testing.assert_allclose(
        model.weights_ @ model.class_distributions_, counts.sum(axis=0) / counts.sum(), atol=1e-6
    )


def test_weights_scale_order_type_and_layout_do_not_matter():
    counts, rng = topics(1), np.random.default_rng(0)
    model = settled(InformationBottleneck(3, random_state=0))
    U, atol = model.fit(counts).memberships_.copy(), stopped(model)
    w = rng.integers(1, 4, size=60)
    by_weight = model.fit(counts, sample_weight=w).memberships_
    np.testing.assert_allclose(
        model.fit(np.repeat(counts, w, axis=0)).memberships_[np.cumsum(w) - w], by_weight, atol=atol
    )
    for same in (counts * 1e12, counts * 1e-12, sp.csr_array(counts)):
        np.testing.assert_allclose(model.fit(same).memberships_, U, atol=atol)
    order = rng.permutation(60)
    np.testing.assert_allclose(model.fit(counts[order]).memberships_, U[order], atol=atol)
    single = model.fit(counts.astype(np.float32)).memberships_
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, U, atol=1e-5)


def test_rows_without_counts_and_columns_never_seen():
    counts = topics()
    counts[:, 7] = 0.0
    counts[0] = 0.0
    model = InformationBottleneck(3, random_state=0).fit(counts)
    np.testing.assert_allclose(model.memberships_[0], model.weights_, atol=1e-9)
    unseen = np.zeros((1, 8))
    unseen[0, 7] = 5.0
    np.testing.assert_allclose(model.predict_proba(unseen).sum(), 1.0)


def test_rows_that_are_alike_stay_together():
    with pytest.warns(EvidenceWarning, match="rows are alike"):
        model = InformationBottleneck(3, random_state=0).fit(
            np.outer(np.arange(1, 9), [3.0, 2.0, 1.0])
        )
    np.testing.assert_allclose(model.memberships_, 1 / 3, atol=1e-6)


@pytest.mark.parametrize(
    "parameters, X, message",
    [
        ({"beta": -1.0}, [[1, 2]], "beta must lie"),
        ({}, [[1, -2]], "Negative values"),
        ({}, [[0, 0]], "no counts"),
        ({"n_clusters": 3}, [[1, 2]], "n_clusters=3"),
    ],
)
def test_errors_name_the_fix(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        InformationBottleneck(**{"n_clusters": 1} | parameters).fit(X)


@pytest.mark.parametrize("beta", [20.0, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_units_of_counts_and_weights_do_not_matter(form, beta):
    X = topics()
    model = settled(InformationBottleneck(3, beta=beta, random_state=0))
    expected = model.fit(form(X)).memberships_
    for scale, weight in [(1e-100, None), (1e100, None), (1.0, 1e308), (1.0, 1e-320)]:
        weights = None if weight is None else np.full(len(X), weight)
        model.fit(form(X * scale), sample_weight=weights)
        np.testing.assert_allclose(model.memberships_, expected, atol=stopped(model))
        assert np.isfinite(model.score(form(X * scale), sample_weight=weights))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_row_without_counts_gets_the_weights_also_when_alone(form):
    X = topics()
    model = InformationBottleneck(3, random_state=0).fit(X)
    alone = model.predict_proba(form(np.zeros((1, X.shape[1]))))
    np.testing.assert_allclose(alone[0], model.weights_, atol=1e-12)
    np.testing.assert_array_equal(
        alone[0], model.predict_proba(form(np.vstack([X, 0 * X[:1]])))[-1]
    )
    with pytest.raises(ValueError, match="X holds no counts"):
        model.fit(form(0 * X))


def test_a_refused_fit_leaves_nothing_behind():
    model = InformationBottleneck(3, random_state=0).fit(topics())
    with pytest.raises(ValueError, match="Negative values"):
        model.fit(-topics())
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("beta", [5.0, 40.0, np.inf])
def test_the_distortion_is_the_expected_divergence(beta):
    counts = topics(n=30)
    model = InformationBottleneck(3, beta=beta, random_state=0).fit(sp.csr_array(counts))
    expected = 0.0
    for row, u in zip(counts, model.memberships_, strict=True):
        q = row / row.sum()
        for v in range(3):
            if u[v] > 0:
                kl = sum(
                    q[c] * np.log(q[c] / model.class_distributions_[v, c]) for c in q.nonzero()[0]
                )
                expected += row.sum() / counts.sum() * u[v] * kl
    assert model.distortion_ == pytest.approx(expected, rel=1e-9)
    assert model.distortion_ == pytest.approx(model.information_ - model.relevance_, abs=1e-5)
