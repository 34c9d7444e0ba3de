"""Pairs that no partition saw together have no say, in the default as in the published loss."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from sfumato import (
    EvidenceAccumulation,
    EvidenceWarning,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.array.warn import EvidenceWarning
from sfumato.models.consensus import solutions, solvers
from sfumato.numerics.label_table import encode, has_unseen_pairs, pair_shares
from sfumato.selection import choose_n_clusters
from sfumato.similarity import cluster_kernel, coassociation, doubly_stochastic
from sfumato.similarity.coassociation import Shares


def halves(seed=0, noise=0.05):
    """Two clusters; no partition sees both halves of the first."""
    rng = np.random.default_rng(seed)
    part = np.repeat([0, 1, 2], [20, 20, 30])
    truth = (part == 2).astype(int)
    L = np.stack([truth ^ (rng.random(70) < noise) for _ in range(40)], axis=1).astype(int)
    for column in range(40):
        L[part == column % 2, column] = -1
    return L, truth


def subsamples(share=0.05, seed=0):
    """Noisy partitions of three clusters, each of which saw a few objects."""
    rng = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], 50)
    L = np.stack([np.where(rng.random(150) < 0.1, rng.integers(0, 3, 150), truth)] * 100, axis=1)
    L = np.where(rng.random(L.shape) < 0.1, rng.integers(0, 3, L.shape), L)
    L[rng.random(L.shape) > share] = -1
    seen = (L >= 0).any(axis=1)
    return L[seen], truth[seen]


def fitted(L, k, **parameters):
    return EvidenceAccumulation(k, ensemble="precomputed", random_state=0, **parameters).fit(L)


def test_a_pair_that_one_partition_saw_is_known():
    L = np.array([[0, 0, -1], [0, 1, -1], [-1, 1, 0], [-1, -1, 0]])
    shares, counts = pair_shares(encode(L))
    for i, j in np.ndindex(4, 4):
        seen = (L[i] >= 0) & (L[j] >= 0)
        assert (counts[i, j] > 0) == seen.any()
        if seen.any():
            assert shares[i, j] == np.mean(L[i, seen] == L[j, seen])


def test_a_cluster_whose_halves_were_never_seen_together_stays_one():
    L, truth = halves()
    assert has_unseen_pairs(encode(L))
    model = fitted(L, 2)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert np.abs(model.predict_proba(L) - model.memberships_).max() < 0.05


def test_rounds_of_completion_stop_when_they_have_settled(monkeypatch):
    L, _ = subsamples(0.2)
    found = fitted(L, 3).memberships_
    monkeypatch.setattr(solutions, "FILLINGS", 50)
    assert np.abs(fitted(L, 3).memberships_ - found).max() < 2 * solutions.SETTLED


def test_the_number_of_clusters_is_that_of_seen_pairs():
    L, _ = halves()
    assert fitted(L, "auto", max_clusters=5).n_clusters_ == 2


def test_small_subsamples_are_no_worse_than_the_published_loss():
    L, truth = subsamples()
    ours = adjusted_rand_score(truth, fitted(L, 3).labels_)
    published = adjusted_rand_score(truth, fitted(L, 3, consensus="coassociation").labels_)
    assert ours >= published - 0.05


def test_tables_without_unseen_pairs_are_told_apart():
    L, _ = halves()
    assert not has_unseen_pairs(encode(np.where(L < 0, 0, L)))


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_operators_with_unseen_pairs_are_never_nan():
    L, truth = halves()
    C = coassociation(L)
    assert np.isnan(C.toarray()).any()
    assert np.isfinite(SpectralClustering(2, similarity="precomputed").fit(C).memberships_).all()
    assert np.isfinite(cluster_kernel(C, 2).factor).all()
    assert np.isfinite(np.asarray(doubly_stochastic(C, divergence="frobenius"))).all()
    choice = choose_n_clusters(
        SpectralClustering(similarity="precomputed"),
        C @ np.eye(70),
        range(2, 4),
        criterion="penalized-eigengap",
    )
    assert choice.n_clusters in (2, 3)


def test_sets_never_seen_together_are_named():
    L, _ = halves()
    L[:20, ::2], L[20:, 1::2] = -1, -1
    L[:20, 1::2], L[20:, ::2] = 1, 0
    L[15:20, 1::2], L[60:, ::2] = 0, 1
    with pytest.warns(EvidenceWarning, match="no partition saw together"):
        fitted(L, 2)


def test_linkages_say_that_they_fill_in_pairs_that_no_partition_saw():
    L = np.array([[0, -1], [0, -1], [0, 0], [1, 1], [-1, 1], [-1, 1]])
    for consensus in ("single", "average", "complete"):
        with pytest.warns(EvidenceWarning, match="seen together by no partition.*uses the mean"):
            EvidenceAccumulation(2, ensemble="precomputed", consensus=consensus).fit(L)


@pytest.mark.parametrize(("n", "room"), [(60, 2**40), (60, 0), (1100, 2**40), (1100, 0)])
def test_the_rule_of_the_source_receives_the_shares_themselves(n, room, monkeypatch):
    monkeypatch.setattr(solvers, "memory_budget", lambda: room)
    rng = np.random.default_rng(0)
    y, m = np.arange(n) % 3, 40 if n < 100 else 12
    L = np.where(rng.random((n, m)) < 0.9, y[:, None] + 3 * np.arange(m), -1)
    rule = PairwiseProbabilisticClustering(scale=1.0, diagonal="include", n_init=1)
    fitted = EvidenceAccumulation(3, ensemble="precomputed", consensus=rule, random_state=0).fit(L)
    # Pairs of a cluster were together whenever both were seen: shares of 1 and 0 leave no error.
    assert fitted.objective_ < 1e-4 * n * n
    assert adjusted_rand_score(y, fitted.labels_) == 1.0
    assert fitted.memberships_.max(axis=1).min() > 0.99
    np.testing.assert_array_equal(fitted.predict(L[:100]), fitted.labels_[:100])


def test_shares_multiply_as_the_exact_ratios_do():
    rng = np.random.default_rng(1)
    L = np.where(rng.random((30, 6)) < 0.6, rng.integers(0, 4, size=(30, 6)), -1)
    C = coassociation(L)
    ratios = np.nan_to_num(C.toarray())
    shares, V = Shares(C.table, C.table), rng.normal(size=(30, 2))
    assert np.allclose(shares @ V, ratios @ V)
    assert np.allclose(shares.T @ V[:, 0], ratios @ V[:, 0])
    assert np.allclose(shares.toarray(), ratios)
