"""Families that a clear partition rules out: the choice is that of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import GaussianMixture
from sfumato.models.gaussian import clear
from sfumato.numerics.families import FAMILIES, n_covariance_parameters


def clusters(shape, seed, n=240, d=3, k=3):
    """Clear clusters whose covariances are round, common or free."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    turns = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(k)])
    widths = np.exp(rng.normal(size=(k, d)))
    if shape == "round":
        turns, widths = np.stack([np.eye(d)] * k), np.ones((k, d))
    elif shape == "common":
        turns, widths = np.stack([turns[0]] * k), np.stack([widths[0]] * k)
    noise = np.einsum("nij,nj->ni", (turns * widths[:, None, :])[labels], rng.normal(size=(n, d)))
    return 15.0 * np.eye(k, d)[labels] + noise


@pytest.mark.parametrize("criterion", ["bic", "icl", "aic"])
@pytest.mark.parametrize("shape", ["round", "common", "free"])
def test_what_is_passed_over_could_not_have_been_chosen(shape, criterion, monkeypatch):
    X = clusters(shape, seed=len(shape))
    settings = {"criterion": criterion, "random_state": 0}
    few = GaussianMixture(3, **settings).fit(X)
    averaged = GaussianMixture(3, average=True, **settings).fit(X)
    monkeypatch.setattr(clear, "BEHIND", np.inf)
    every = GaussianMixture(3, **settings).fit(X)
    assert all(np.isfinite(row.bic) for row in every.search_)
    assert [row.covariance_type for row in few.search_] == list(FAMILIES)
    assert few.covariance_type_ == every.covariance_type_
    np.testing.assert_allclose(few.memberships_, every.memberships_, atol=1e-9)
    passed = 0
    for row, full in zip(few.search_, every.search_, strict=True):
        assert row.n_parameters == full.n_parameters
        if row.reason:
            bound = float(row.reason.split(" at least")[0].split()[-1])
            assert getattr(full, criterion) >= bound - 0.1
            passed += 1
        else:
            assert row.bic == pytest.approx(full.bic, abs=0.05)
    assert passed >= 4 or criterion == "aic"  # whose cost for a parameter rules out little
    other = GaussianMixture(3, average=True, **settings).fit(X)
    np.testing.assert_allclose(averaged.memberships_, other.memberships_, atol=2e-3)


def test_a_family_lies_within_those_whose_letters_are_freer():
    assert clear._lies_within("EII", "VVV")
    assert clear._lies_within("tied", "EVE")
    assert not clear._lies_within("VVI", "EEE")
    for name in FAMILIES:
        for other in FAMILIES:
            if name != other and clear._lies_within(name, other):
                assert n_covariance_parameters(name, 3, 4) < n_covariance_parameters(other, 3, 4)


def test_a_search_over_numbers_keeps_the_rows_of_families_that_are_passed_over():
    model = GaussianMixture(random_state=0, max_clusters=4).fit(clusters("round", 0))
    assert model.n_clusters_ == 3
    rows = [row for row in model.search_ if row.n_clusters == 3]
    assert len(rows) == 14
    assert all(np.isfinite(row.bic) for row in rows)
