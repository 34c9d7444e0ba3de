import numpy as np
import pytest

from sfumato import FuzzyCMeans, GaussianMixture
from sfumato.datasets import make_gaussians, make_memberships
from sfumato.memberships import cooccurrence, harden
from sfumato.metrics import brier_score
from sfumato.selection import calibration_report, fit_temperature, temper


def test_temper():
    U = make_memberships(20, 3, random_state=0)
    np.testing.assert_allclose(temper(U, 1.0), U, atol=1e-12)
    powered = U**2 / (U**2).sum(1, keepdims=True)
    np.testing.assert_allclose(temper(U, 0.5), powered, atol=1e-12)
    np.testing.assert_allclose(temper(temper(U, 3.0), 1 / 3), U, atol=1e-12)
    np.testing.assert_array_equal(harden(temper(U, 7.0)), harden(U))
    assert temper(U.astype(np.float32), 2.0).dtype == np.float32
    np.testing.assert_array_equal(temper(np.eye(3), 5.0), np.eye(3))
    with pytest.raises(ValueError, match="temperature"):
        temper(U, 0)


@pytest.mark.parametrize("wrong", [0.2, 1.0, 3.0])
def test_fit_temperature_undoes_a_wrong_temperature(wrong):
    simulated = make_gaussians(2000, 3, separation=2, random_state=0)
    U = temper(simulated.memberships, wrong)
    assert fit_temperature(U, simulated.labels) * wrong == pytest.approx(1, abs=0.15)
    rng = np.random.default_rng(0)
    pairs = rng.integers(2000, size=(20_000, 2))
    together = simulated.labels[pairs[:, 0]] == simulated.labels[pairs[:, 1]]
    assert fit_temperature(U, pairs=pairs, together=together) * wrong == pytest.approx(1, abs=0.2)


def test_fit_temperature_has_the_least_brier_score_and_pairs_equal_the_reference():
    simulated = make_gaussians(150, 3, separation=2, random_state=1)
    U = temper(simulated.memberships, 0.3)
    best = fit_temperature(U, simulated.labels)
    score = brier_score(simulated.labels, temper(U, best))
    assert all(
        score <= brier_score(simulated.labels, temper(U, best * factor))
        for factor in (0.2, 0.9, 1.1, 5)
    )
    pairs = np.stack(np.triu_indices(150, 1), axis=1)
    together = simulated.labels[pairs[:, 0]] == simulated.labels[pairs[:, 1]]
    assert np.mean((cooccurrence(temper(U, best), pairs) - together) ** 2) == pytest.approx(score)
    assert fit_temperature(U, pairs=pairs, together=together) == pytest.approx(best, rel=1e-3)


def test_fit_temperature_asks_for_one_truth():
    U = make_memberships(20, 3, random_state=0)
    for arguments in ({}, {"reference": [0] * 20, "pairs": [(0, 1)]}, {"pairs": [(0, 1)]}):
        with pytest.raises(ValueError, match="either reference, or pairs with together"):
            fit_temperature(U, **arguments)
    with pytest.raises(ValueError, match="a value for 1 pairs"):
        fit_temperature(U, pairs=[(0, 1)], together=[1, 0])


def test_report_tells_the_honest_from_the_vague():
    models = {
        "mixture": GaussianMixture(covariance_type="spherical", n_init=1),
        "fuzzy": FuzzyCMeans(n_init=1),
    }
    rows = calibration_report(models, separations=[3.0], n_draws=3, n_objects=300)
    mixture, fuzzy = rows
    assert [row.model for row in rows] == ["mixture", "fuzzy"]
    assert abs(mixture.overconfidence) < 0.05
    assert fuzzy.overconfidence < -0.1
    assert mixture.distance < fuzzy.distance
    assert mixture.calibration_error < fuzzy.calibration_error
    assert fuzzy.temperature < 1


def test_the_report_wants_names():
    with pytest.raises(TypeError, match="estimators must map names"):
        calibration_report(GaussianMixture())
