"""Must-links, cannot-links and labels in mixtures."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

from sfumato import (
    EvidenceWarning,
    FactorMixture,
    GaussianMixture,
    MixedMixture,
    StudentMixture,
)
from sfumato.metrics import adjusted_rand_index

MAKERS = {
    "student": lambda k: StudentMixture(k, covariance_type="full", random_state=0),
    "student-diagonal": lambda k: StudentMixture(k, covariance_type="EEI", random_state=0),
    "factor": lambda k: FactorMixture(k, n_factors=1, random_state=0),
    "mixed": lambda k: MixedMixture(k, random_state=0),
    "gaussian": lambda k: GaussianMixture(k, covariance_type="full", random_state=0),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def overlapping(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    X = rng.normal(size=(n, 2)) * [1.0, 3.0] + np.where(y, 1.2, -1.2)[:, None] * [1.0, 0.0]
    return X, y


def some_pairs(y, n, seed=1):
    pairs = np.random.default_rng(seed).integers(0, len(y), (n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def quietly(model, *evidence, **known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*evidence, **known)


@every
def test_a_few_dozen_links_raise_the_agreement_and_are_honoured(make):
    X, y = overlapping(seed=2)
    must, cannot = some_pairs(y, 60)
    blind, told = make(2), make(2)
    quietly(blind, X)
    quietly(told, X, must_link=must, cannot_link=cannot)
    U, labels = told.memberships_, told.labels_
    np.testing.assert_allclose(U[must[:, 0]], U[must[:, 1]], atol=1e-12)
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    assert adjusted_rand_index(y, labels) > adjusted_rand_index(y, blind.labels_) + 0.1
    steps = np.diff(told.history_)
    assert steps.min(initial=0) >= -1e-9 * abs(told.history_[-1])


@every
def test_memberships_and_objective_are_sums_over_all_allowed_labellings(make):
    X, _ = overlapping(40)
    weights = np.random.default_rng(0).integers(1, 3, 40).astype(float)
    must, cannot, soft = [[0, 1]], [[2, 30]], [[0, 2, 1.3]]
    y = np.full(40, -1)
    y[[5, 35]] = [0, 1]
    links = {"must_link": [[0, 1]], "cannot_link": [[2, 30, 1e3], *soft]}
    model = quietly(make(2), X, y, sample_weight=weights, **links)
    L = weights[:, None] * (np.log(model.predict_proba(X)) + model.score_samples(X)[:, None])
    rows = [0, 1, 2, 30]
    values, labels = [], list(itertools.product(range(2), repeat=4))
    for z in labels:
        of = dict(zip(rows, z, strict=True))
        value = sum(L[i, of[i]] for i in rows)
        value -= sum(np.inf for a, b in must if of[a] != of[b])
        value -= sum(1e3 for a, b in cannot if of[a] == of[b])
        value -= sum(w for a, b, w in soft if of[a] == of[b])
        values.append(value)
    chance = np.exp(np.array(values) - logsumexp(values))
    expected = np.array(
        [[chance[[z[i] == j for z in labels]].sum() for j in (0, 1)] for i in range(4)]
    )
    np.testing.assert_allclose(model.memberships_[rows], expected, atol=1e-9)
    np.testing.assert_array_equal(model.labels_[[5, 35]], [0, 1])
    free = np.setdiff1d(np.arange(40), [*rows, 5, 35])
    # Rows of no links have the logarithm of their density, once for each copy.
    total = weights[free] @ model.score_samples(X[free]) + L[5, 0] + L[35, 1] + logsumexp(values)
    assert model.log_likelihood_ == pytest.approx(total, rel=1e-9)


@every
def test_weights_of_links_equal_copies_of_linked_rows(make):
    X, _ = overlapping(60)
    weights = np.ones(60)
    weights[[3, 40]] = 2.0
    copied = np.vstack([X, X[[3, 40]]])
    one, two = make(2).set_params(tol=1e-12), make(2).set_params(tol=1e-12)
    quietly(one, X, sample_weight=weights, must_link=[[3, 40]], cannot_link=[[3, 50]])
    links = {"must_link": [[3, 40], [3, 60], [40, 61]], "cannot_link": [[3, 50]]}
    quietly(two, copied, **links)
    np.testing.assert_allclose(one.memberships_, two.memberships_[:60], atol=1e-6)


@every
def test_labels_number_the_clusters(make, blobs):
    X, truth = blobs
    y = np.full(90, -1)
    y[[5, 40, 41, 80]] = [9, 4, 4, 7]
    model = make(3).fit(X, y)
    np.testing.assert_array_equal(model.labels_[[5, 40, 41, 80]], [2, 0, 0, 1])
    np.testing.assert_array_equal(model.labels_, np.array([2, 0, 1])[truth])
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    # Without any -1 they are the classes of a pipeline, which no clusterer reads.
    plain, ignored = make(3).fit(X), make(3).fit(X, truth)
    np.testing.assert_array_equal(plain.memberships_, ignored.memberships_)


@every
def test_the_number_is_searched_for_among_those_with_room_for_the_labels(make, blobs):
    X, truth = blobs
    y = np.where(np.arange(90) % 12 == 0, truth, -1)
    model = make("auto").set_params(max_clusters=4).fit(X, y, cannot_link=[[0, 89]])
    tried = {row.n_clusters for row in model.search_}
    assert min(tried) == 3
    assert {3, 4} <= tried
    assert model.n_clusters_ == 3
    np.testing.assert_array_equal(model.labels_, truth)


@every
def test_starts_that_compete_on_a_sample_know_the_links(make, blobs, monkeypatch):
    X, truth = blobs
    model = make(3)
    monkeypatch.setattr("sfumato.engine.search.SCREEN", 40)
    y = np.where(np.arange(90) % 12 == 0, truth, -1)
    model.fit(X, y, must_link=[[1, 2]], cannot_link=[[3, 50]])
    np.testing.assert_array_equal(model.labels_, truth)
    np.testing.assert_array_equal(model.memberships_[1], model.memberships_[2])


@every
def test_contradictions_and_broken_links_are_named(make, blobs):
    X, truth = blobs
    with pytest.raises(ValueError, match="rows 0 and 2"):
        make(3).fit(X, must_link=[[0, 1], [1, 2]], cannot_link=[[0, 2]])
    with pytest.raises(ValueError, match="n_clusters=2"):
        make(2).fit(X, np.where(np.arange(90) % 7 == 0, truth, -1))
    model = make(3)
    with pytest.warns(EvidenceWarning, match="for 1 pair, such as rows 0 and 1"):
        model.fit(X, cannot_link=[[0, 1, 0.01]])
    with pytest.raises(ValueError, match="row number 90"):
        model.fit(X, must_link=[[0, 90]])
    assert not hasattr(model, "labels_")


def test_links_in_a_table_with_missing_values():
    pd = pytest.importorskip("pandas")
    X, y = overlapping(80)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(y, "u", "v")})
    table.loc[::9, "a"] = None
    model = quietly(
        MixedMixture(2, random_state=0), table, must_link=[[0, 9]], cannot_link=[[9, 79]]
    )
    np.testing.assert_array_equal(model.memberships_[0], model.memberships_[9])
    assert model.labels_[9] != model.labels_[79]
