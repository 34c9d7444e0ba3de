import numpy as np
import pytest

from sfumato import (
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    MemoryBudgetError,
    SpectralClustering,
)
from sfumato.datasets import make_block_similarity, make_gaussians, make_labelings
from sfumato.memberships import align, cooccurrence
from sfumato.selection import bootstrap


@pytest.mark.filterwarnings("ignore:structure test")  # groups that overlap on purpose
def test_features():
    X = make_gaussians(120, 3, separation=4, random_state=0).evidence
    result = bootstrap(GaussianMixture(3, n_init=1), X, 20, random_state=0)
    assert result.draws.shape == (20, 120, 3)
    np.testing.assert_allclose(result.draws.sum(axis=2), 1, atol=1e-9)
    value, low, high = result.interval(0.9)
    np.testing.assert_array_equal(value, result.estimator.memberships_)
    assert (low <= high).all()
    assert np.mean((low <= value) & (value <= high)) > 0.8
    assert np.abs(result.draws.mean(axis=0) - value).mean() < 0.1
    assert result.standard_error.shape == (120, 3)


@pytest.mark.parametrize("kind", ["similarity", "labelings"])
def test_similarities_and_labelings(kind):
    if kind == "similarity":
        data = make_block_similarity(80, 3, stay=0.8, random_state=0).evidence
        estimator = SpectralClustering(3, similarity="precomputed", n_init=3)
    else:
        data = make_labelings(60, 3, n_members=30, label_noise=0.2, random_state=0).evidence
        estimator = EvidenceAccumulation(3, ensemble="precomputed", n_init=1)
    result = bootstrap(estimator, data, 8, random_state=0)
    assert result.draws.shape == (8, len(data), 3)
    np.testing.assert_allclose(result.draws.sum(axis=2), 1, atol=1e-9)
    assert np.mean(result.draws.argmax(axis=2) == result.memberships.argmax(axis=1)) > 0.9


@pytest.mark.filterwarnings("ignore:structure test")  # groups that overlap on purpose
def test_cooccurrence_intervals_need_no_names():
    X = make_gaussians(100, 3, separation=3, random_state=0).evidence
    result = bootstrap(FuzzyCMeans(3, n_init=1), X, 12, random_state=0)
    pairs = np.array([(0, 1), (2, 50), (7, 7)])
    shuffled = result._replace(
        draws=np.stack(
            [
                draw[:, np.random.default_rng(i).permutation(3)]
                for i, draw in enumerate(result.draws)
            ]
        )
    )
    np.testing.assert_allclose(shuffled.cooccurrence(pairs), result.cooccurrence(pairs), atol=1e-12)
    np.testing.assert_allclose(
        result.cooccurrence(pairs).value, cooccurrence(result.memberships, pairs)
    )


def test_same_seed_same_answer_whatever_n_jobs():
    X = make_gaussians(80, 2, random_state=0).evidence
    seen = []
    one = bootstrap(
        FuzzyCMeans(2, n_init=1),
        X,
        4,
        random_state=3,
        progress=lambda done, total: seen.append((done, total)),
    )
    two = bootstrap(FuzzyCMeans(2, n_init=1), X, 4, random_state=3, n_jobs=2)
    # A kernel just compiled and the same one loaded by another process differ in the last bit.
    np.testing.assert_allclose(one.draws, two.draws, rtol=0, atol=1e-12)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_refusals(monkeypatch):
    X = make_gaussians(80, 2, random_state=0).evidence
    with pytest.raises(ValueError, match="n_resamples"):
        bootstrap(FuzzyCMeans(2), X, 1)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap(FuzzyCMeans(2, n_init=1), X, 2, random_state=0).interval(95)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "10000000")
    with pytest.raises(MemoryBudgetError, match="fewer resamples"):
        bootstrap(FuzzyCMeans(2, n_init=1), X, 100_000)


@pytest.mark.filterwarnings("ignore:structure test")  # groups that overlap on purpose
@pytest.mark.slow
def test_intervals_cover_the_true_posterior():
    """Memberships of a mixture whose model is true; nominal 95 %."""
    inside, together = [], []
    for seed in range(48):
        simulated = make_gaussians(400, 2, separation=4, random_state=seed)
        estimator = GaussianMixture(2, covariance_type="spherical", n_init=1)
        result = bootstrap(estimator, simulated.evidence, 150, random_state=seed)
        truth = align(simulated.memberships, result.memberships)
        _, low, high = result.interval()
        inside.append(np.mean((low <= truth) & (truth <= high)))
        pairs = np.random.default_rng(seed).integers(400, size=(300, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        _, low, high = result.cooccurrence(pairs)
        exact = cooccurrence(truth, pairs)
        together.append(np.mean((low <= exact) & (exact <= high)))
    assert 0.90 <= np.mean(inside) <= 0.98
    assert 0.90 <= np.mean(together) <= 0.98
