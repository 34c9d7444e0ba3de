"""A minute of the fuzz run, the same cases everywhere, and what longer runs found, shrunk."""

import contextlib
import io
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from fuzz.__main__ import run_case
from sfumato import ClusteringEnsemble, EvidenceAccumulation, MixtureEnsemble
from sfumato.similarity import cosine, doubly_stochastic, gaussian, knn, self_tuning

SEED, CHUNKS, SIZE = 20_000_000, 8, 20


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_calls_keep_the_contract(chunk):
    for seed in range(SEED + chunk * SIZE, SEED + (chunk + 1) * SIZE):
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                run_case(seed)
        except AssertionError as finding:
            raise AssertionError(f"python -m fuzz --case {seed}: {finding}") from finding


def test_cosine_of_subnormal_sparse_rows():
    X = sp.lil_array(np.array([[1e-310, 0.0, 2e-310], [3.0, 0.0, 6.0], [0.0, 0.0, 0.0]]))
    product = cosine(X) @ np.eye(3)
    np.testing.assert_allclose(product[:2, :2], 1.0, rtol=1e-12)
    np.testing.assert_array_equal(product[2], 0.0)


@pytest.mark.parametrize("kind", [ClusteringEnsemble, MixtureEnsemble, EvidenceAccumulation])
@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_subnormal_features_are_refused_by_name(kind, form):
    model = kind(random_state=0)
    with pytest.raises(ValueError, match="X has no value larger than 1e-309.*change units"):
        model.fit(form(np.linspace(1e-310, 1e-309, 20).reshape(10, 2)))


@pytest.mark.parametrize("function", [knn, gaussian, self_tuning])
def test_distances_that_overflow_are_refused_by_name(function):
    with pytest.raises(ValueError, match="X has values as large as 1e\\+301.*change units"):
        function(sp.csr_array(np.array([[1e301, 1.0], [0.0, 1e300]])))


def test_a_scaling_that_ends_in_nothing_is_refused_by_name():
    """The pattern has total support, but no matrix with these weights as its row sums."""
    W = np.array([[0.0, 2.6, 0.4], [2.6, 0.2, 0.3], [0.4, 0.3, 0.0]])
    with pytest.raises(ValueError, match="cannot be made doubly stochastic"):
        doubly_stochastic(sp.csr_array(W), sample_weight=[0.02, 0.3, 0.9])


def test_a_consensus_with_as_many_clusters_as_seen_objects_and_pairs_that_nobody_saw():
    """No eigenvalue follows the last one, and none is minus infinity."""
    L = np.full((5, 4), -1)
    L[0, 0], L[1, 1:3], L[3, 2:], L[4, 3] = 0, (1, 2), (2, 2), 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EvidenceAccumulation("auto", ensemble="precomputed", random_state=0).fit(L)
    together, apart = [1, 3], 4  # what the two columns that see pairs say
    np.testing.assert_allclose(model.memberships_[together], [[1, 0], [1, 0]], atol=1e-9)
    np.testing.assert_allclose(model.memberships_[apart], [0, 1], atol=1e-9)
    np.testing.assert_allclose(model.memberships_[[0, 2]], 0.5)  # seen with nobody
