import numpy as np
import pytest

from sfumato import datasets
from sfumato.memberships import cooccurrence
from sfumato.metrics import calibration_curve

GENERATORS = [
    name for name in datasets.__all__ if name.startswith("make_") and name != "make_memberships"
]


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_give_evidence_memberships_and_labels(name):
    generator = getattr(datasets, name)
    evidence, memberships, labels = generator(120, random_state=3)
    assert len(evidence) == len(memberships) == len(labels) == 120
    assert np.isfinite(evidence).all()
    np.testing.assert_allclose(memberships.sum(1), 1, atol=1e-12)
    assert memberships.min() >= 0
    assert 0 <= labels.min() <= labels.max() < memberships.shape[1]
    np.testing.assert_array_equal(generator(120, random_state=3).evidence, evidence)
    assert not np.array_equal(generator(120, random_state=4).evidence, evidence)


@pytest.mark.parametrize("elongation", [1.0, 5.0])
def test_gaussian_posterior_is_calibrated_and_separation_is_kept(elongation):
    simulated = datasets.make_gaussians(
        3000, 3, separation=2.0, elongation=elongation, weights=[1, 2, 3], random_state=0
    )
    assert calibration_curve(simulated.labels, simulated.memberships).error < 0.02
    accuracy = np.mean(simulated.memberships.argmax(1) == simulated.labels)
    assert accuracy == pytest.approx(simulated.memberships.max(1).mean(), abs=0.02)
    far = datasets.make_gaussians(1000, 4, separation=9.0, elongation=elongation, random_state=1)
    assert np.mean(far.memberships.argmax(1) == far.labels) == 1
    shares = np.bincount(simulated.labels) / 3000
    np.testing.assert_allclose(shares, [1 / 6, 1 / 3, 1 / 2], atol=0.04)


def test_gaussian_posterior_equals_bayes_rule():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    factors = np.linalg.qr(rng.standard_normal((2, 2, 2)))[0] * [3.0**0.5, 3.0**-0.5]
    centers = datasets._centers(rng, factors, 2.0)
    X = rng.normal(size=(50, 2))
    shares = np.array([0.3, 0.7])
    density = (
        np.stack(
            [multivariate_normal(c, F @ F.T).pdf(X) for c, F in zip(centers, factors, strict=True)],
            axis=1,
        )
        * shares
    )
    np.testing.assert_allclose(
        datasets._posterior(X, centers, factors, shares), density / density.sum(1, keepdims=True)
    )


def test_labelings_have_the_cooccurrence_of_the_memberships():
    simulated = datasets.make_labelings(30, 3, n_members=4000, missing=0.2, random_state=0)
    L, U = simulated.evidence, simulated.memberships
    assert np.mean(L == -1) == pytest.approx(0.2, abs=0.01)
    pairs = np.stack(np.triu_indices(30, 1), axis=1)
    left, right = L[pairs[:, 0]], L[pairs[:, 1]]
    seen = (left >= 0) & (right >= 0)
    together = ((left == right) & seen).sum(1) / seen.sum(1)
    np.testing.assert_allclose(together, cooccurrence(U, pairs), atol=0.06)


def test_similarity_is_symmetric_and_centred_on_cooccurrence():
    W, U, _ = datasets.make_similarity(300, 3, scale=2.0, noise=0.01, random_state=0)
    np.testing.assert_array_equal(W, W.T)
    off = ~np.eye(300, dtype=bool)
    assert np.abs(W - 2 * U @ U.T)[off].mean() < 0.02


def test_block_similarity_is_block_stochastic_with_uneven_degrees():
    W, U, labels = datasets.make_block_similarity(random_state=0)
    np.testing.assert_array_equal(W, W.T)
    steps = W / W.sum(1, keepdims=True) @ U
    for r in range(5):
        np.testing.assert_allclose(
            steps[labels == r],
            np.where(np.arange(5) == r, 0.45, 0.1375) * np.ones((sum(labels == r), 1)),
            atol=1e-6,
        )
    assert W.sum(1).max() / W.sum(1).min() > 100


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("make_moons", {"n_objects": 0}, "n_objects must lie in .1, inf"),
        ("make_rings", {"n_clusters": 0}, "n_clusters must lie in"),
        ("make_spirals", {"noise": 1e300}, "noise must lie in"),
        ("make_gaussians", {"elongation": 0.0}, "elongation must lie in"),
        ("make_gaussians", {"n_clusters": 2, "weights": [1.0, -1.0]}, "weights must be"),
        ("make_gaussians", {"n_clusters": 2, "weights": [1.0]}, "weights must be"),
        ("make_labelings", {"label_noise": 2.0}, "label_noise must lie in .0.0, 1.0"),
        ("make_memberships", {"concentration": 0.0}, "concentration must lie in"),
        ("make_block_similarity", {"noise": 1e3}, "noise must lie in .0.0, 10.0"),
        ("make_block_similarity", {"n_objects": 3, "n_clusters": 30}, "ask for more objects"),
        ("make_uniform", {"n_features": 1.5}, "n_features must be an integer"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(name, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(datasets, name)(**given, random_state=0)
