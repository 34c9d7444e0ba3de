"""The membership contract, over every estimator and every kind of evidence it takes."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import sfumato
from cases import CASES
from sfumato import memberships as ms
from sfumato.array import rows
from sfumato.metrics import adjusted_rand_index
from tolerances import settled, stopped

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@functools.cache
def fitted(case):
    """The case as users fit it."""
    return case.fit()


def exact(case):
    """The estimator, made to go on until only rounding is left, where its steps get there."""
    model = case.make(0)
    if "baum-eagon" in case.name:
        return model
    return settled(model) if case.inductive else settled(model, last=1e-15)


def to_the_end(case, evidence=None, y=None, **given):
    if evidence is None:
        evidence, y = case.evidence, case.y
    return exact(case).fit(evidence, y, **given)


@functools.cache
def reference(case):
    return to_the_end(case)


def assert_same(case, found, expected, atol=None):
    """Equal memberships, as far as ``tol`` promises.

    The loss on co-association counts knows products of rows alone. Where none of them touches the
    border of the simplex they may turn together: the products are what the evidence determines.
    """
    atol = stopped(exact(case)) if atol is None else atol
    if case.name == "consensus-coassociation":
        found, expected, atol = found @ found.T, expected @ expected.T, 2 * atol
    else:
        found = ms.align(found, expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def features(case):
    return case.kind == "features" and isinstance(case.evidence, np.ndarray)


def subset(kind):
    chosen = [case for case in CASES if kind(case)]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


@every
def test_rows_lie_on_the_simplex_and_labels_are_their_largest_entry(case):
    model = fitted(case)
    U = model.memberships_
    assert U.shape == (case.evidence.shape[0], model.n_clusters_)
    assert np.isfinite(U).all()
    assert U.min() >= 0
    assert U.max() <= 1
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.labels_, U.argmax(axis=1))


@every
def test_published_attributes(case):
    model = fitted(case)
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.history_).all()
    assert model.n_iter_ >= 1
    assert model.converged_
    assert model.objective_ == pytest.approx(model.history_[-1])
    # Numbers are Python's, so that they print and serialise as such.
    scalars = {name: value for name, value in vars(model).items() if isinstance(value, np.generic)}
    assert not {name for name in scalars if name[-1] == "_"}


@every
def test_clusters_come_largest_first(case):
    size = fitted(case).memberships_.sum(axis=0)
    assert np.diff(size).max(initial=0) <= 1e-9 * size.sum()


@every
def test_the_objective_never_gets_worse(case):
    history = fitted(case).history_
    changes = np.diff(history) * (1 if case.larger else -1)
    assert changes.min(initial=0) >= -1e-9 * np.abs(history).max()


@every
def test_same_seed_same_answer(case):
    np.testing.assert_array_equal(case.fit(0).memberships_, fitted(case).memberships_)


@subset(features)
def test_the_number_of_threads_does_not_matter(case, monkeypatch):
    def small_blocks(data):
        n = data.shape[0]
        return [slice(start, min(start + 16, n)) for start in range(0, n, 16)]

    monkeypatch.setattr(rows.Rows, "slices", property(small_blocks))
    found = []
    for number in (1, 3):
        monkeypatch.setattr(rows, "cpu_count", lambda number=number: number)
        found.append(case.fit(0).memberships_)
    np.testing.assert_array_equal(*found)


@every
def test_predictions_of_the_fitted_objects(case):
    model = fitted(case)
    evidence = case.evidence
    if case.kind == "operator":
        evidence = evidence @ np.eye(evidence.shape[0])
    U = model.predict_proba(evidence)
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    if case.inductive:
        np.testing.assert_allclose(U, model.memberships_, atol=1e-12)
    else:
        np.testing.assert_allclose(U, model.memberships_, atol=0.25)
        clear = ms.margin(model.memberships_) > 0.25
        np.testing.assert_array_equal(U.argmax(axis=1)[clear], model.labels_[clear])
    np.testing.assert_array_equal(model.predict(evidence), U.argmax(axis=1))
    np.testing.assert_array_equal(model.transform(evidence), U)


@every
def test_new_objects_are_judged_one_by_one(case):
    model = fitted(case)
    evidence = case.evidence
    if case.kind == "operator":
        evidence = evidence @ np.eye(evidence.shape[0])
    whole = model.predict_proba(evidence)
    np.testing.assert_allclose(model.predict_proba(evidence[5:9]), whole[5:9], atol=1e-9)


def take(evidence, rows, kind):
    """Rows of the evidence, and their columns where it is a similarity."""
    return evidence[rows][:, rows] if kind == "similarity" else evidence[rows]


def repeated(case, index):
    """The evidence of objects that are chosen by their numbers, in their order."""
    if case.kind == "operator":
        whole = case.evidence @ np.eye(case.evidence.shape[0])
        return aslinearoperator(take(whole, index, "similarity"))
    return take(case.evidence, index, case.kind)


@every
def test_permuting_objects_permutes_rows(case):
    order = np.random.default_rng(0).permutation(case.evidence.shape[0])
    model = to_the_end(case, repeated(case, order), None if case.y is None else case.y[order])
    # Other subsamples are drawn.
    drawn = {"consensus-features": 0.2, "consensus-ensemble": 0.3}.get(case.name)
    assert_same(case, model.memberships_, reference(case).memberships_[order], drawn)


@subset(features)
def test_scaling_and_shifting_features_changes_nothing(case):
    if "cosine" in case.name or "counts" in case.name:
        pytest.skip("angles and counts are not invariant to a shift")
    for scale, shift in ((1e-12, 0.0), (1e12, 0.0), (1.0, 1e4)):
        model = to_the_end(case, case.evidence * scale + shift, case.y)
        assert_same(case, model.memberships_, reference(case).memberships_)


@subset(lambda case: case.kind == "similarity")
def test_scaling_a_similarity_changes_nothing(case):
    for scale in (1e-12, 1e12):
        model = to_the_end(case, case.evidence * scale)
        assert_same(case, model.memberships_, reference(case).memberships_)


def in_single(case, index):
    """The evidence of these objects in float32."""
    evidence = repeated(case, index)
    if case.kind == "operator":
        return aslinearoperator((evidence @ np.eye(len(index))).astype(np.float32))
    return evidence.astype(np.float32)


@every
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize("copies", [0, 2])
def test_float32_in_float32_out(case, copies):
    n = case.evidence.shape[0]
    index = np.r_[np.arange(n), np.arange(copies) * (n // 2)]  # the copies are equal rows
    evidence = in_single(case, index)
    model = case.make(0).fit(evidence, None if case.y is None else case.y[index])
    # Labels are names, so their precision says nothing about the answer.
    dtype = np.float64 if case.kind == "labelings" else np.float32
    assert model.memberships_.dtype == dtype
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1, atol=1e-6)
    new = evidence if case.kind == "operator" else evidence[:5]
    assert model.predict_proba(new).dtype == dtype
    if not copies:  # the same clusters as in double precision, wherever those are clear
        double = fitted(case).memberships_
        found = ms.align(model.memberships_, double)
        clear = ms.margin(double) > 0.25
        np.testing.assert_array_equal(found[clear].argmax(axis=1), double[clear].argmax(axis=1))


@subset(lambda case: case.kind == "similarity" and isinstance(case.evidence, np.ndarray))
def test_a_sparse_similarity_equals_the_dense_one(case):
    for index in (np.int32, np.int64):
        sparse = sp.csr_array(case.evidence)
        sparse.indices, sparse.indptr = sparse.indices.astype(index), sparse.indptr.astype(index)
        assert_same(case, to_the_end(case, sparse).memberships_, reference(case).memberships_)


@every
def test_input_is_never_written_to(case):
    if sp.issparse(case.evidence):
        frozen = case.evidence.copy()
        frozen.data.flags.writeable = False
    elif case.kind == "operator":
        frozen = case.evidence
    else:
        frozen = case.evidence.copy()
        frozen.flags.writeable = False
    model = case.fit(evidence=frozen)
    np.testing.assert_array_equal(model.memberships_, fitted(case).memberships_)


@subset(lambda case: case.weights and "baum-eagon" not in case.name)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_a_weight_of_w_equals_w_copies(case):
    weights = np.random.default_rng(0).integers(1, 4, case.evidence.shape[0])
    rows = np.repeat(np.arange(weights.size), weights)
    weighted = to_the_end(case, sample_weight=weights.astype(float))
    y = None if case.y is None else case.y[rows]
    copied = to_the_end(case, take(case.evidence, rows, case.kind), y)
    first = np.cumsum(weights) - weights
    assert_same(case, weighted.memberships_, copied.memberships_[first])


@every
def test_a_score_counts_a_weight_of_w_as_w_copies(case):
    weights = np.random.default_rng(2).integers(1, 4, case.evidence.shape[0])
    rows = np.repeat(np.arange(weights.size), weights)
    evidence = case.evidence @ np.eye(weights.size) if case.kind == "operator" else case.evidence
    y = case.y
    weighted = fitted(case).score(evidence, y, weights)  # positional, as in scikit-learn
    copied = fitted(case).score(evidence[rows], None if y is None else y[rows])
    assert weighted == pytest.approx(copied, rel=1e-7, abs=1e-9)
    assert abs(weighted - fitted(case).score(evidence, y)) > 1e-9


@subset(lambda case: case.weights and "baum-eagon" not in case.name)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_a_weight_of_zero_equals_absence(case):
    weights = np.random.default_rng(1).integers(0, 3, case.evidence.shape[0]).astype(float)
    rows = np.flatnonzero(weights)
    weighted = to_the_end(case, sample_weight=weights)
    y = None if case.y is None else case.y[rows]
    evidence = take(case.evidence, rows, case.kind)
    alone = to_the_end(case, evidence, y, sample_weight=weights[rows])
    assert_same(case, weighted.memberships_[rows], alone.memberships_)
    np.testing.assert_allclose(weighted.memberships_.sum(axis=1), 1, atol=1e-12)


def takes_links(case):
    refused = ("operator", "baum-eagon", "coassociation", "average-linkage", "gibbs")
    named = "must_link" in inspect.signature(case.make(0).fit).parameters
    return named and not any(setting in case.name for setting in refused)


@subset(takes_links)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_linked_objects_share_memberships_and_those_apart_share_no_label(case):
    order = np.argsort(fitted(case).memberships_[:, 0])
    must, cannot = order[[[0, 1], [-1, -2]]], order[[[0, -1]]]
    model = case.fit(must_link=must, cannot_link=cannot)
    U = model.memberships_
    np.testing.assert_allclose(U[must[:, 0]], U[must[:, 1]], atol=1e-12)
    assert model.labels_[cannot[0, 0]] != model.labels_[cannot[0, 1]]
    with pytest.raises(ValueError, match=f"rows {order[0]} and {order[1]}"):
        case.fit(must_link=must, cannot_link=must)


@subset(takes_links)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_labelled_objects_belong_to_the_cluster_of_their_label(case):
    U = fitted(case).memberships_
    sure, k = np.argsort(-U, axis=0)[:2], U.shape[1]
    y = np.full(len(U), -1)
    y[sure] = (np.arange(k) + 1) % k  # clusters of the fit, numbered anew
    model = case.make(0).fit(case.evidence, y)
    np.testing.assert_array_equal(model.labels_[sure], np.tile((np.arange(k) + 1) % k, (2, 1)))


@subset(lambda case: case.kind == "similarity")
def test_an_object_without_evidence_belongs_everywhere_alike(case):
    W = case.evidence.toarray() if sp.issparse(case.evidence) else case.evidence.copy()
    W[5] = W[:, 5] = 0.0
    with pytest.warns(UserWarning, match="similar to no other"):
        model = to_the_end(case, W)
    np.testing.assert_allclose(model.memberships_[5], 1 / model.n_clusters_)
    rest = np.delete(np.arange(len(W)), 5)
    alone = to_the_end(case, W[np.ix_(rest, rest)])
    assert_same(case, model.memberships_[rest], alone.memberships_)


def takes_holes(case):
    tags = case.make(0).__sklearn_tags__()
    return features(case) and case.inductive and tags.input_tags.allow_nan


@subset(takes_holes)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_missing_values_are_left_out_and_objects_without_any_are_as_good_as_absent(case):
    full = fitted(case)
    evidence = case.evidence.copy()
    evidence[::9, 1] = np.nan
    some = to_the_end(case, evidence, case.y)
    np.testing.assert_allclose(some.memberships_.sum(axis=1), 1, atol=1e-12)
    same = some.labels_ == ms.align(full.memberships_, some.memberships_).argmax(axis=1)
    # Without some values the likelihood of independent columns has another, higher maximum.
    assert same.mean() > (0.8 if case.name == "mixed-normal" else 0.9)
    if case.y is None:
        more = np.vstack([evidence, np.full((1, evidence.shape[1]), np.nan)])
        assert_same(case, to_the_end(case, more).memberships_[:-1], some.memberships_)


@subset(lambda case: case.kind == "similarity" and case.name.startswith(("pairwise", "spectral")))
def test_an_object_of_which_nothing_is_measured_is_as_good_as_absent(case):
    if "baum-eagon" in case.name:
        pytest.skip("reads every pair")
    W = case.evidence.toarray() if sp.issparse(case.evidence) else case.evidence.copy()
    W[5] = W[:, 5] = np.nan
    with pytest.warns(UserWarning, match="similar to no other"):
        model = to_the_end(case, W)
    np.testing.assert_allclose(model.memberships_[5], 1 / model.n_clusters_)
    rest = np.delete(np.arange(len(W)), 5)
    alone = to_the_end(case, W[np.ix_(rest, rest)])
    assert_same(case, model.memberships_[rest], alone.memberships_)


@every
def test_a_failed_fit_leaves_an_unfitted_estimator(case):
    model = copy.deepcopy(fitted(case))
    bad = np.full((4, 4), np.nan) if case.kind != "labelings" else np.empty((0, 3))
    with pytest.raises((ValueError, TypeError)):
        model.fit(bad, None if case.y is None else case.y[:4])
    with pytest.raises(NotFittedError):
        model.predict_proba(case.evidence)


@every
def test_bad_parameters_are_named(case):
    for name, value in (
        ("n_clusters", 0),
        ("n_clusters", 10**6),
        ("n_clusters", 2.5),
        ("n_init", 0),
        ("max_iter", 0),
        ("tol", -1.0),
        ("random_state", "x"),
    ):
        model = case.make(0)
        if name not in model.get_params():
            continue
        model.set_params(**{name: value})
        with pytest.raises((ValueError, TypeError), match=name):
            model.fit(case.evidence, case.y)


@every
def test_estimators_survive_clone_and_pickle(case):
    model = clone(case.make(0))
    assert str(model) == str(case.make(0))
    if case.kind != "operator":
        found = pickle.loads(pickle.dumps(fitted(case)))
        np.testing.assert_array_equal(found.memberships_, fitted(case).memberships_)


@subset(features)
def test_one_object_and_identical_objects(case):
    if case.y is not None:
        pytest.skip("needs classes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = case.make(0)
        if "n_clusters" in model.get_params():
            model.set_params(n_clusters=1)
        model.fit(np.ones((1, 3)))
        np.testing.assert_allclose(model.memberships_, [[1.0]])
        same = case.fit(evidence=np.ones((12, 3)))
    np.testing.assert_allclose(same.memberships_.sum(axis=1), 1, atol=1e-12)
    if case.name != "consensus-ensemble":  # hard labelings have to part what is equal
        np.testing.assert_allclose(same.memberships_, same.memberships_[[0] * 12], atol=1e-9)


@every
def test_levels_nest(case):
    model = fitted(case)
    levels = model.levels_
    assert [level.n_clusters for level in levels] == list(range(1, len(levels) + 1))
    assert any(level.shown for level in levels)
    np.testing.assert_array_equal(model.at(model.n_clusters_), model.memberships_)
    finest = model.at(len(levels))
    for level in levels:
        U = model.at(level.n_clusters)
        np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
        assert U.min() >= 0
        sums = np.zeros((len(U), level.n_clusters))
        np.add.at(sums.T, list(level.parents), finest.T)
        np.testing.assert_allclose(U, sums, atol=1e-12)


@every
def test_predictions_at_a_level(case):
    model, evidence = fitted(case), case.evidence
    if case.kind == "operator":
        evidence = evidence @ np.eye(evidence.shape[0])
    for n_clusters in (1, 2, len(model.levels_)):
        U = model.predict_proba(evidence, n_clusters=n_clusters)
        if case.inductive:
            np.testing.assert_allclose(U, model.at(n_clusters), atol=1e-9)
        assert U.shape == (evidence.shape[0], n_clusters)
        np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_array_equal(
            model.predict(evidence, n_clusters=n_clusters), U.argmax(axis=1)
        )
        np.testing.assert_array_equal(model.transform(evidence, n_clusters=n_clusters), U)


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize(
    ("make", "least"),
    [
        (sfumato.GaussianMixture, 0.999),
        pytest.param(sfumato.FuzzyCMeans, 0.999, marks=pytest.mark.slow),
        pytest.param(sfumato.EvidenceAccumulation, 0.98, marks=pytest.mark.slow),
    ],
)
def test_a_chosen_number_depends_on_neither_order_nor_precision(make, least):
    """Where the search looks at a sample of the objects."""
    X, y = make_blobs(12_000, 6, centers=5, cluster_std=2.5, random_state=1)
    order = np.random.default_rng(0).permutation(len(X))
    whole, shuffled, single = (
        make(random_state=0).fit(evidence) for evidence in (X, X[order], X.astype(np.float32))
    )
    assert whole.n_clusters_ == shuffled.n_clusters_ == single.n_clusters_ == 5
    assert single.memberships_.dtype == np.float32
    assert adjusted_rand_index(y, whole.labels_) > 0.95
    assert adjusted_rand_index(whole.labels_[order], shuffled.labels_) >= least
    assert adjusted_rand_index(whole.labels_, single.labels_) >= least


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        sfumato.FuzzyCMeans(6, random_state=0),
        sfumato.MixedMixture(6, random_state=0),
        sfumato.DirichletProcessMixture(random_state=0),
        sfumato.InformationMaximization(4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_starts_of_many_objects_do_not_depend_on_their_order(model):
    """Where starts compete on a sample, and every start would give other clusters."""
    X = np.random.default_rng(0).normal(size=(9000, 4))
    order = np.random.default_rng(1).permutation(len(X))
    labels, found = model.fit(X).labels_, model.structure_
    shuffled = model.fit(X[order])
    assert adjusted_rand_index(labels[order], shuffled.labels_) > 0.98
    if found is not None:  # the test looks at a sample, too
        assert shuffled.structure_.statistic == pytest.approx(found.statistic, abs=0.1)
