"""Missing values in soft evidence: marginal densities as the oracle, and what a user sees."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from sfumato import ClusteringEnsemble, EvidenceAccumulation, MixtureEnsemble
from sfumato.array.warn import EvidenceWarning
from sfumato.components import gaussian as kernel
from sfumato.components.gaussian import incomplete_logits
from sfumato.components.incomplete import expected_sums
from sfumato.models.consensus import evidence
from sfumato.models.consensus import mixtures as em
from sfumato.numerics import missing
from sfumato.numerics.axes import fit_axes


def with_holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def blobs(n=200, p=4, centers=3):
    return make_blobs(n, centers=centers, n_features=p, cluster_std=1.0, random_state=3)


def marginal_posteriors(ensemble, axes, S, X):
    """Posteriors by the densities of what was seen: x = shift + B y + rest, one member by one."""
    d = axes.projection.shape[1]
    B = S @ axes.projection
    rest = S - B @ B.T
    mixtures = ensemble.members_
    means, covariances, weights = [], [], []
    for rows in mixtures.rows:
        quadratic = np.zeros((d, d))
        quadratic[np.triu_indices(d)] = -rows[d + 1 :]
        precision = quadratic + quadratic.T
        covariance = np.linalg.inv(precision)
        mean = covariance @ rows[1 : d + 1]
        level = multivariate_normal(mean, covariance).logpdf(np.zeros(d))
        weights.append(np.exp(rows[0] - level))
        means.append(axes.shift + B @ (mean + axes.offset))
        covariances.append(B @ covariance @ B.T + rest + 1e-11 * np.diag(np.diag(S)))
    H = np.empty((len(X), len(weights)))
    for i, x in enumerate(X):
        o = np.flatnonzero(~np.isnan(x))
        for j, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
            seen = multivariate_normal(mean[o], covariance[np.ix_(o, o)])
            H[i, j] = np.log(weights[j]) + seen.logpdf(x[o])
    for first, last in zip(mixtures.offsets[:-1], mixtures.offsets[1:], strict=True):
        own = np.exp(H[:, first:last] - H[:, first:last].max(axis=1, keepdims=True))
        H[:, first:last] = own / own.sum(axis=1, keepdims=True)
    return H


@pytest.mark.parametrize("n_axes", [20, 2])
def test_posteriors_are_those_of_what_was_seen(n_axes, monkeypatch):
    monkeypatch.setattr(missing, "SMALLEST_VARIANCE", 0.0)
    X, _ = blobs(150, 4)
    X = X @ np.random.default_rng(1).normal(size=(4, 4))
    ensemble = MixtureEnsemble(2, n_clusters=3, n_axes=n_axes, random_state=0).fit(X)
    new = with_holes(X[:30], 0.3)
    new = new[~np.isnan(new).all(axis=1)]
    expected = marginal_posteriors(ensemble, ensemble.axes_, np.cov(X.T, bias=True), new)
    assert np.abs(ensemble.transform(new) - expected).max() < 1e-4


def test_expected_sums_are_those_of_a_gaussian_mixture_with_holes():
    rng = np.random.default_rng(0)
    X = with_holes(rng.normal(size=(60, 3)), 0.3)
    X = X[~np.isnan(X).all(axis=1)]
    means = rng.normal(size=(2, 3))
    A = rng.normal(size=(2, 3, 3))
    covariances = A @ np.swapaxes(A, 1, 2) + np.eye(3)
    shares = np.array([0.3, 0.7])
    rows = -0.5 * em.distances.coefficients(means, np.linalg.inv(covariances), "full")
    rows[:, 0] += np.log(shares) - 0.5 * np.linalg.slogdet(covariances)[1]
    rows[:, 0] -= 1.5 * np.log(2 * np.pi)
    background = missing.Background(np.ones(3), np.eye(3))
    filled, gaps = background.complete(X, np.eye(3))
    weights = rng.uniform(0.5, 2.0, size=len(X))
    sums, level = em.expect(em.Seen.of(filled, weights, gaps), rows)
    state = kernel.State(shares, means, covariances, "VVV", 1e-6)
    L, parts = incomplete_logits(X, state)
    R, density = em.distances.softmax_columns(L)
    assert np.allclose(sums, expected_sums(X, parts, R * weights), atol=1e-9)
    # Densities are relative to the Gaussian of all objects, plus its mean log-density.
    seen = ~np.isnan(X)
    apart = -0.5 * (seen.sum(axis=1) * np.log(2 * np.pi) + np.nansum(X**2, axis=1))
    apart = np.where(seen.all(axis=1), 0.0, apart + 1.5 * (1 + np.log(2 * np.pi)))
    assert level == pytest.approx((weights @ density - weights @ apart) / weights.sum())


def test_no_hole_is_no_change():
    X, _ = blobs(80, 3)
    axes = fit_axes(X, 20)
    Y, gaps = axes.seen(X)
    assert gaps is None
    assert np.array_equal(Y, (X - axes.shift) @ axes.projection - axes.offset)


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_missing_at_random_costs_little(share):
    X, y = blobs(300, 4)
    whole = EvidenceAccumulation(3, random_state=0).fit(X)
    model = EvidenceAccumulation(3, random_state=0).fit(with_holes(X, share))
    reached = adjusted_rand_score(y, whole.labels_)
    assert adjusted_rand_score(y, model.labels_) > reached - 0.05


@pytest.mark.parametrize("ensemble", [None, MixtureEnsemble(6)])
def test_fitted_rows_are_placed_as_new_ones_are(ensemble):
    X, _ = blobs(120, 3)
    X = with_holes(X, 0.15)
    kept = X.copy()
    X.flags.writeable = False
    model = EvidenceAccumulation(3, ensemble=ensemble, random_state=0).fit(X)
    assert np.abs(model.predict_proba(X) - model.memberships_).max() < 1e-10
    assert np.allclose(model.memberships_.sum(axis=1), 1)
    assert np.array_equal(X, kept, equal_nan=True)


def test_holes_in_new_rows_of_a_model_of_complete_ones():
    X, y = blobs(200, 4)
    model = EvidenceAccumulation(3, random_state=0).fit(X)
    labels = model.predict_proba(with_holes(X, 0.1)).argmax(axis=1)
    assert adjusted_rand_score(model.labels_, labels) > 0.95


def test_a_row_without_any_value_gets_the_mean():
    X, _ = blobs(90, 3)
    X = with_holes(X, 0.1)
    X[[4, 50]] = np.nan
    with pytest.warns(EvidenceWarning, match=r"2 objects have no observed value \(first: row 4\)"):
        model = EvidenceAccumulation(3, random_state=0).fit(X)
    rest = np.delete(X, [4, 50], axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvidenceWarning)
        without = EvidenceAccumulation(3, random_state=0).fit(rest)
    assert (
        np.abs(np.delete(model.memberships_, [4, 50], axis=0) - without.memberships_).max() < 1e-5
    )
    assert np.allclose(model.memberships_[[4, 50]], without.memberships_.mean(axis=0))
    with pytest.warns(EvidenceWarning, match="1 object has no observed value"):
        new = without.predict_proba(np.full((1, 3), np.nan))
    assert np.allclose(new, without.memberships_.mean(axis=0))


def test_weights_are_copies_where_values_are_missing():
    X, _ = blobs(60, 3)
    X = with_holes(X, 0.15)
    w = np.random.default_rng(2).integers(0, 3, size=len(X))
    weighted = EvidenceAccumulation(3, random_state=0).fit(X, sample_weight=w)
    copied = EvidenceAccumulation(3, random_state=0).fit(np.repeat(X, w, axis=0))
    new = np.repeat(weighted.memberships_, w, axis=0)
    assert np.abs(new - copied.memberships_).max() < 1e-10


def test_the_order_of_the_rows_does_not_matter():
    X, _ = blobs(100, 3)
    X = with_holes(X, 0.15)
    order = np.random.default_rng(0).permutation(len(X))
    model = EvidenceAccumulation(3, random_state=0).fit(X)
    other = EvidenceAccumulation(3, random_state=0).fit(X[order])
    assert np.abs(model.memberships_[order] - other.memberships_).max() < 1e-8


def test_auto_finds_the_clusters_through_holes():
    X, y = blobs(240, 3)
    model = EvidenceAccumulation(random_state=0).fit(with_holes(X, 0.08))
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_batches_with_holes():
    X, y = blobs(240, 3)
    X = with_holes(X, 0.1)
    model = EvidenceAccumulation(3, ensemble=MixtureEnsemble(6), random_state=0)
    model.partial_fit(X[:120]).partial_fit(X[120:])
    assert adjusted_rand_score(y[120:], model.labels_) > 0.9


@pytest.mark.parametrize("model", [EvidenceAccumulation(2), MixtureEnsemble(3)])
def test_refusals_name_the_way_out(model):
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="no value at all in feature 1"):
        model.fit(X)
    with pytest.raises(ValueError, match=r"X\.toarray\(\)"):
        model.fit(sp.csr_array(with_holes(X[:, :1], 0.2)))
    wide = with_holes(np.random.default_rng(0).normal(size=(30, 1001)), 0.2)
    with pytest.raises(ValueError, match="at most 1000 features"):
        model.fit(wide)
    with pytest.raises(ValueError, match=r"EvidenceAccumulation\(\)"):
        ClusteringEnsemble(3).fit(with_holes(X[:, :1], 0.2))


def test_cells_read_guesses_of_what_is_missing():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, size=300)
    y = np.arange(300) % 2
    X = (1.0 + 2.0 * y)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X += np.random.default_rng(1).normal(scale=0.05, size=X.shape)
    X[3, 0] = np.nan
    model = EvidenceAccumulation(2, random_state=0).fit(X)
    assert adjusted_rand_score(np.delete(y, 3), np.delete(model.labels_, 3)) > 0.97
    assert np.abs(model.predict_proba(X) - model.memberships_).max() < 1e-10
    made = evidence.FeatureEvidence(X, None, None, None, 2, np.random.default_rng(0))
    cells = made.kinds(2)["cells"]
    n_members = len(cells.offsets) - 1
    assert np.array_equal(cells(X).sum(axis=1), np.full(300, n_members))
    alike = cells(X) @ cells(X[3:4]).T.toarray()
    assert y[alike[:, 0] > 0.1 * n_members].tolist().count(y[3]) > 0
