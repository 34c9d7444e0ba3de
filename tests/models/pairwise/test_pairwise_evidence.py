"""Weights of objects and pairs, gaps, links, sweeps by rows and by panels, against slow sums."""

import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from sfumato import EvidenceWarning, PairwiseProbabilisticClustering, SpectralClustering
from sfumato.engine import loop
from sfumato.engine.similarity_evidence import Evidence
from sfumato.metrics import adjusted_rand_index
from sfumato.models.pairwise import estimator, kernel
from sfumato.models.pairwise import estimator as solve
from sfumato.models.pairwise import kernel as panels
from sfumato.models.pairwise.kernel import Pairs
from sfumato.numerics import simplex

MODELS = pytest.mark.parametrize("model", [PairwiseProbabilisticClustering, SpectralClustering])


def blocks(rng, sizes=(15, 12, 13), noise=0.1):
    y = np.repeat(np.arange(len(sizes)), sizes)
    W = np.where(y[:, None] == y, 0.8, 0.2) + noise * rng.normal(size=(y.size, y.size))
    return np.clip((W + W.T) / 2, 0, None), y


def slow(W, U, a, v, exclude, linked=None):
    """The double sum with copies counted one by one."""
    pairs = np.outer(v, v)
    if exclude:
        pairs[np.diag_indices(len(v))] = v * np.maximum(v - 1, 0)
    value = (pairs * (W - a * U @ U.T) ** 2).sum()
    return value if linked is None else value - 2 * (np.outer(v, v) * linked * (U @ U.T)).sum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("by", ["rows", "panels"])
@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse", "factor", "sparse factor"])
def test_weighted_and_linked_sweeps_go_down_and_report_the_double_sum(
    rng, kind, exclude, by, dtype
):
    if by == "panels" and "sparse" in kind:  # as arrays of other libraries go
        pytest.skip("sparse similarities are SciPy's, which go by rows")
    step = panels.panel_step if by == "panels" else kernel.coordinate_step
    factor = rng.random((25, 3))
    W = factor @ factor.T
    given, narrow = W.astype(dtype), factor.astype(dtype)
    form = {
        "dense": lambda: kernel.Explicit(given),
        "sparse": lambda: kernel.Explicit(sp.csr_array(given)),
        "factor": lambda: kernel.Low(narrow),
        "sparse factor": lambda: kernel.Low(sp.csr_array(narrow)),
    }[kind]()
    rounding = 1e-8 if dtype == np.float64 else 1e-4
    v = rng.integers(1, 4, 25).astype(float)
    v[3] = 0.4
    linked = np.zeros((25, 25))
    linked[[0, 4, 2, 7], [4, 0, 7, 2]] = [-3.0, -3.0, 2.0, 2.0]
    held = np.zeros(25, dtype=bool)
    held[9] = True
    problem = kernel.Problem(form, exclude, None, v, held, linked=sp.csr_array(linked))
    state = kernel.start(problem, simplex.draw(rng, (25, 2, 3)))
    kept, last = state.U[9].copy(), np.inf
    for _ in range(8):
        state, f = step(problem, state)
        assert (f <= last * (1 + rounding / 10)).all()
        last = f
        for run in range(2):
            expected = slow(W, state.U[:, run], state.scale[run], v, exclude, linked)
            assert f[run] == pytest.approx(expected, rel=rounding)
    np.testing.assert_allclose(state.U[9], kept, atol=1e-15)


@pytest.mark.parametrize("dense", [True, False])
def test_sweeps_by_rows_and_by_panels_reach_the_same_minimum(rng, dense):
    factor = rng.random((60, 4))
    W = kernel.Explicit(factor @ factor.T) if dense else kernel.Low(factor)
    problem = kernel.Problem(W, True, None)
    U = simplex.draw(rng, (60, 1, 4))
    found = []
    for sweep in (kernel.coordinate_step, panels.panel_step):
        step = loop.Extrapolation.accelerate(partial(sweep, problem), kernel.combine, kernel.select)
        begin = loop.Extrapolation(kernel.start(problem, U))
        found.append(loop.iterate(step, begin, max_iter=3000, tol=1e-13).objective[0])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_weights_of_pairs_against_the_double_sum(rng):
    W, _ = blocks(rng)
    Q = rng.random(W.shape)
    Q = Q + Q.T
    problem = kernel.Problem(Pairs(W, Q), False, None)
    state = kernel.start(problem, simplex.draw(rng, (len(W), 2, 3)))
    last = np.inf
    for _ in range(6):
        state, f = panels.panel_step(problem, state)
        assert (f <= last + 1e-9).all()
        last = f
        for run in range(2):
            U = state.U[:, run]
            expected = (Q * (W - state.scale[run] * U @ U.T) ** 2).sum()
            assert f[run] == pytest.approx(expected, rel=1e-9)


def test_equal_weights_of_pairs_change_nothing(rng):
    W, _ = blocks(rng)
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", tol=1e-12, random_state=0)
    plain = model.fit(W).objective_
    assert model.fit(W, pair_weight=np.full(W.shape, 2.0)).objective_ == pytest.approx(
        2 * plain, rel=1e-6
    )


@MODELS
def test_missing_similarities_cost_little_where_zeros_cost_much(model):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    W = np.where(y[:, None] == y, 0.5, 0.35) + 0.06 * rng.normal(size=(120, 120))
    W = np.clip((W + W.T) / 2, 0, None)
    gaps = np.triu(rng.random(W.shape) < 0.3, 1)
    gaps |= gaps.T
    fitted = model(4, similarity="precomputed", random_state=0)
    with _quiet():
        full, holes, zeros = (
            adjusted_rand_index(y, fitted.fit(V).labels_)
            for V in (W, np.where(gaps, np.nan, W), np.where(gaps, 0.0, W))
        )
    assert holes > full - 0.02
    assert zeros < full - 0.2


@contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_similarity_measured_on_one_side_only_stands_for_both(rng):
    W, _ = blocks(rng)
    half = W.copy()
    half[np.triu_indices(len(W), 1)] = np.nan
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", tol=1e-12, random_state=0)
    assert model.fit(half).objective_ == pytest.approx(model.fit(W).objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("pair_weight", "message"),
    [
        (np.ones((3, 3)), "shape"),
        (np.full((40, 40), -1.0), "nonnegative"),
        (np.zeros((40, 40)), "no pair"),
    ],
)
def test_bad_pair_weights_are_named(rng, pair_weight, message):
    W, _ = blocks(rng)
    model = PairwiseProbabilisticClustering(3, similarity="precomputed")
    with pytest.raises(ValueError, match=message):
        model.fit(W, pair_weight=pair_weight)
    with pytest.raises(ValueError, match="precomputed"):
        PairwiseProbabilisticClustering(3).fit(
            rng.normal(size=(40, 2)), pair_weight=np.ones((40, 40))
        )


def test_the_likelihood_is_that_of_independent_gaussian_pairs(rng):
    from scipy.stats import norm

    W, _ = blocks(rng)
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0).fit(W)
    U, upper = model.memberships_, np.triu_indices(len(W), 1)
    mean = model.scale_ * (U @ U.T)[upper]
    assert model.noise_variance_ == pytest.approx(np.mean((W[upper] - mean) ** 2), rel=1e-6)
    expected = norm.logpdf(W[upper], mean, model.noise_variance_**0.5).sum()
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-6)


def test_bic_finds_the_number_of_blocks(rng):
    W, _ = blocks(rng, (40, 40, 40))
    scores = {}
    for k in (2, 3, 4):
        with _quiet():
            model = PairwiseProbabilisticClustering(k, similarity="precomputed", random_state=0)
            scores[k] = model.fit(W).bic_
    assert min(scores, key=scores.get) == 3


@MODELS
def test_pieces_beyond_the_clusters_are_set_apart_whatever_the_seed(model):
    W = np.zeros((24, 24))
    for block in (slice(0, 10), slice(10, 19), slice(19, 24)):
        W[block, block] = 1.0
    for seed in range(4):
        with pytest.warns(EvidenceWarning, match="unconnected pieces"):
            fitted = model(2, similarity="precomputed", random_state=seed).fit(W)
        np.testing.assert_allclose(fitted.memberships_[19:], 0.5)
        assert fitted.labels_[0] != fitted.labels_[10]


@MODELS
def test_distances_as_evidence(model, blobs):
    X, y = blobs
    D = np.linalg.norm(X[:, None] - X, axis=2)
    fitted = model(3, similarity="distance", random_state=0).fit(D)
    assert adjusted_rand_index(y, fitted.labels_) > 0.95
    np.testing.assert_array_equal(fitted.predict(D[:5]), fitted.labels_[:5])
    with pytest.raises(ValueError, match="nonnegative"):
        model(3, similarity="distance").fit(-D)


@MODELS
def test_negative_similarities_by_rounding_and_by_sign(model, blobs):
    X, y = blobs
    W = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 20)
    W[0, 1] = W[1, 0] = -1e-10
    fitted = model(3, similarity="precomputed", random_state=0).fit(W)
    assert adjusted_rand_index(y, fitted.labels_) > 0.95
    X = 4.0 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert (unit @ unit.T).min() < -0.1
    signed = model(3, similarity="precomputed", random_state=0).fit(unit @ unit.T)
    assert adjusted_rand_index(y, signed.labels_) > 0.9


def test_of_objects_averages_given_starts():
    U = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]])
    found = solve.of_objects(U, np.array([0, 0, 1]), 2)
    np.testing.assert_allclose(found[:, 0], [[0.5, 0.5], [0.0, 1.0]])


@MODELS
def test_what_is_kept_does_not_change_with_the_users_data(model, blobs):
    X = blobs[0].copy()
    fitted = model(3, random_state=0).fit(X)
    new = X[:10].copy()
    before = fitted.predict_proba(new)
    X[:] = 0.0
    np.testing.assert_array_equal(fitted.predict_proba(new), before)


@MODELS
@pytest.mark.parametrize("unit", [1e100, 1e-100])
def test_the_size_of_similarities_does_not_matter(model, unit, rng):
    W, _ = blocks(rng)
    given = model(3, similarity="precomputed", random_state=0)
    expected = given.fit(W / W.max()).memberships_
    fitted = given.fit(W / W.max() * unit)
    np.testing.assert_allclose(fitted.memberships_, expected, atol=1e-6)
    np.testing.assert_allclose(
        fitted.predict_proba(W[:3] / W.max() * unit), given.predict_proba(W[:3] / W.max() * unit)
    )


def test_links_beside_missing_similarities_are_honoured(rng):
    W, y = blocks(rng)
    W[0, 5] = W[5, 0] = np.nan
    assert y[0] == y[1]
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0)
    with _quiet():
        assert model.fit(W).labels_[0] == model.labels_[1]
        model.fit(W, cannot_link=[[0, 1]])
    assert model.labels_[0] != model.labels_[1]
    assert np.isfinite(model.memberships_).all()
    assert adjusted_rand_index(y[2:], model.labels_[2:]) > 0.9


def test_a_link_becomes_a_pair_with_its_weight():
    W, pairs = np.array([[1.0, 0.4], [0.4, 2.0]]), np.array([[1.0, 0.5], [0.5, 1.0]])
    for sign, similarity in ((6.0, 2.0), (-6.0, 0.0)):
        links = sp.csr_array(np.array([[0.0, sign], [sign, 0.0]]))
        found = estimator._as_pairs(Evidence(W, None, pairs, None)._replace(extra=links))
        np.testing.assert_array_equal(found.W, [[1.0, similarity], [similarity, 2.0]])
        np.testing.assert_array_equal(found.pairs, [[1.0, 3.0], [3.0, 1.0]])  # 6 over the largest
        assert found.extra is None


def test_an_operator_takes_links_like_the_explicit_matrix(rng):
    W, y = blocks(rng)
    W, links = np.minimum(W, W.diagonal().max()), {"cannot_link": [[0, 1], [20, 21]]}
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0)
    implicit = model.fit(aslinearoperator(W), **links).memberships_
    labels, value = model.labels_, model.objective_
    assert labels[0] != labels[1]
    assert labels[20] != labels[21]
    explicit = model.set_params(init=implicit).fit(W, **links)
    np.testing.assert_allclose(explicit.memberships_, implicit, atol=1e-2)
    assert explicit.objective_ == pytest.approx(value, rel=1e-4)
