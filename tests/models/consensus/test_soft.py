"""Soft evidence: mixtures, cells, or membership matrices that were given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import adjusted_rand_score

from sfumato import EvidenceAccumulation, MixtureEnsemble
from sfumato.datasets import make_gaussians
from sfumato.memberships import align, one_hot
from sfumato.models.consensus.evidence import GivenColumns
from sfumato.models.consensus.soft import factorize
from sfumato.numerics.axes import fit_axes


def blobs(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 5.0 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def model(k=3, **parameters):
    return EvidenceAccumulation(k, random_state=0, **parameters)


def test_rows_in_another_order_give_the_same_memberships():
    X = load_iris().data + np.random.default_rng(0).normal(scale=0.01, size=(150, 4))
    order = np.random.default_rng(1).permutation(150)
    first, second = model().fit(X).memberships_, model().fit(X[order]).memberships_
    assert np.abs(first[order] - second).max() < 1e-6


def test_features_mixed_by_any_matrix_give_the_same_labels():
    X = load_iris().data + np.random.default_rng(0).normal(scale=0.01, size=(150, 4))
    mixed = (X * [1e-3, 1.0, 1e2, 1e3]) @ np.linalg.qr(
        np.random.default_rng(1).normal(size=(4, 4))
    )[0]
    first, second = model().fit(X), model().fit(mixed)
    assert adjusted_rand_score(first.labels_, second.labels_) >= 0.99


def test_fitted_objects_are_predicted_as_they_are():
    X, y = blobs()
    fitted = model().fit(X)
    assert np.abs(fitted.predict_proba(X) - fitted.memberships_).max() < 1e-10
    assert adjusted_rand_score(y, fitted.labels_) > 0.9
    assert fitted.evidence_ in ("mixtures", "cells", "families")
    assert 0 <= fitted.misfit_ < 0.1


def test_more_objects_than_the_sample_are_summed_over(tmp_path):
    X, y = blobs(600)
    few = MixtureEnsemble(8, max_objects=200)
    fitted = model(ensemble=few).fit(X)
    assert adjusted_rand_score(y, fitted.labels_) > 0.9
    np.save(tmp_path / "x.npy", X)
    mapped = model(ensemble=few).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_allclose(mapped.memberships_, fitted.memberships_, atol=1e-12)


def test_batches_go_on_with_the_sums():
    X, y = blobs(600)
    batches = model(ensemble=MixtureEnsemble(8))
    for start in range(0, 600, 200):
        batches.partial_fit(X[start : start + 200])
    assert adjusted_rand_score(y, batches.predict(X)) > 0.9
    assert not hasattr(EvidenceAccumulation(3, ensemble="precomputed"), "partial_fit")


def test_membership_matrices_of_any_origin_are_taken():
    simulated = make_gaussians(120, 3, separation=5, random_state=0)
    hard = one_hot(simulated.labels, 3)
    fitted = model(ensemble="precomputed").fit([simulated.memberships, hard])
    assert fitted.evidence_ == "given"
    agreement = align(fitted.memberships_, hard).argmax(axis=1) == simulated.labels
    assert agreement.mean() > 0.95
    with pytest.raises(ValueError, match="same 2 membership matrices"):
        fitted.predict_proba([hard])


def test_the_factor_is_that_of_the_matrix():
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.full(4, 0.3), size=40)
    factor = factorize(GivenColumns(np.array([0, 4])), H, 3)
    Z = factor(H)
    scaled = H / np.linalg.norm(H.mean(axis=0))
    W = scaled @ scaled.T + 0.02
    degree = W.mean(axis=1)
    values, vectors = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)) / 40)
    np.testing.assert_allclose(factor.values, values[::-1][:4], atol=1e-10)
    rows = vectors[:, ::-1][:, :3]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(Z @ Z.T, rows @ rows.T, atol=1e-8)


def test_sparse_features_are_those_of_the_dense_array():
    X, _ = blobs()
    first, second = model().fit(X), model().fit(sp.csr_array(X))
    assert adjusted_rand_score(first.labels_, second.labels_) > 0.95


def test_whitened_axes_have_unit_covariance():
    X = np.random.default_rng(0).normal(size=(300, 3)) @ np.diag([1.0, 1e3, 1e-3])
    Y = fit_axes(X, 20)(X)
    np.testing.assert_allclose(np.cov(Y.T, bias=True), np.eye(3), atol=1e-8)


def test_posteriors_of_every_mixture_sum_to_one():
    ensemble = MixtureEnsemble(4, random_state=0).fit(blobs()[0])
    H = ensemble.transform(blobs(30, seed=1)[0])
    sums = np.add.reduceat(H, ensemble.members_.offsets[:-1], axis=1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-12)
    assert ensemble.failures_ == []


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_partitions_of_an_ensemble_are_evidence_for_a_consensus(dtype):
    simulated = make_gaussians(120, 3, separation=6, random_state=0)
    X = simulated.evidence.astype(dtype)
    ensemble = MixtureEnsemble(6, random_state=0).fit(X)
    parts = ensemble.partitions(X)
    assert len(parts) == 6
    np.testing.assert_array_equal(np.hstack(parts), ensemble.transform(X))
    for part in parts:
        np.testing.assert_allclose(part.sum(axis=1), 1, rtol=1e-5)
    model = EvidenceAccumulation(3, ensemble="precomputed", random_state=0).fit(parts)
    assert adjusted_rand_score(simulated.labels, model.labels_) > 0.95
    new = model.predict_proba(ensemble.partitions(X[:5]))
    np.testing.assert_allclose(new, model.memberships_[:5], atol=1e-5)


def test_posteriors_side_by_side_are_refused_with_the_way_out():
    X = make_gaussians(40, 2, separation=6, random_state=0).evidence
    H = MixtureEnsemble(3, random_state=0).fit_transform(X)
    with pytest.raises(ValueError, match=r"list of membership matrices.*partitions\(X\)"):
        EvidenceAccumulation(2, ensemble="precomputed").fit(H)


def test_a_fit_that_no_memory_is_left_for_is_refused_before_any_work(monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1e5")
    monkeypatch.setattr(MixtureEnsemble, "_fit_stock", lambda *arguments: pytest.fail("work began"))
    with pytest.raises(MemoryError, match="a mixture"):
        model().fit(np.random.default_rng(0).normal(size=(1000, 8)))


def test_intervals_of_pairs_hold_what_the_fit_says(rng):
    X, _ = make_moons(150, noise=0.08, random_state=0)
    model = EvidenceAccumulation(2, random_state=0).fit(X)
    assert model.evidence_ != "components"  # whose members are averaged, not factored again
    pairs = rng.integers(150, size=(200, 2))
    low, high = model.cooccurrence_interval(pairs, n_draws=40, confidence=0.9).T
    fitted = np.sum(model.memberships_[pairs[:, 0]] * model.memberships_[pairs[:, 1]], axis=1)
    assert np.all(low <= high)
    assert np.mean((low <= fitted) & (fitted <= high)) > 0.9
    assert np.all(high - low < 1.0)
    assert (high - low).max() > 0.01
