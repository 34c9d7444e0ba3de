"""The search over families: as good as a whole fit of each, also from a sample and with links."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato import EvidenceWarning, StudentMixture
from sfumato.components import gaussian as families
from sfumato.engine import search

quiet = pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")


def groups(n=200, d=3, seed=0):
    """Three groups of one elongated shape with heavy tails."""
    rng = np.random.default_rng(seed)
    g = rng.integers(3, size=n)
    noise = rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(4, size=n) / 4)[:, None]
    shape = np.linalg.qr(rng.normal(size=(d, d)))[0] * [3.0, 1.0, 0.5]
    return 8.0 * np.eye(3, d)[g] + noise @ shape.T, g


@quiet
@pytest.mark.parametrize(("X", "k"), [(groups()[0], 3), (load_iris().data, 3)], ids=["t", "iris"])
def test_no_family_fitted_by_itself_is_better(X, k):
    model = StudentMixture(k, random_state=0).fit(X)
    assert [row.covariance_type for row in model.search_] == list(families.FAMILIES)
    best = model.search_.best(1)[0]
    assert best.covariance_type == model.covariance_type_
    assert model.bic(X) == pytest.approx(best.bic)
    for name in ("EEE", "VEE", "EEV", "VEV", "VVV"):
        alone = StudentMixture(k, covariance_type=name, random_state=0).fit(X)
        assert best.bic <= alone.bic(X) + 0.1


@quiet
def test_six_irises_on_a_plane_are_no_solution():
    """A cluster without width is told apart in families that depend on units too."""
    X = load_iris().data
    alone = StudentMixture(4, covariance_type="VVE", random_state=0).fit(X)
    assert np.linalg.eigvalsh(alone.scale_matrices_).min() > 1e-6
    assert StudentMixture(4, random_state=0).fit(X).bic(X) <= alone.bic(X) + 0.1


def test_many_objects_compete_on_a_sample_and_the_best_go_on_with_all(monkeypatch):
    X, g = groups(900)
    monkeypatch.setattr(search, "SCREEN", 300)
    model = StudentMixture(3, random_state=0).fit(X)
    assert model.search_.n_objects == 300
    monkeypatch.undo()
    whole = StudentMixture(3, random_state=0).fit(X)
    assert model.covariance_type_ == whole.covariance_type_
    assert model.log_likelihood_ == pytest.approx(whole.log_likelihood_, abs=1e-2)
    assert model.history_[-1] == pytest.approx(model.log_likelihood_)


@quiet
def test_families_know_links_and_labels():
    X, g = groups(150)
    y = np.where(np.arange(150) % 9 == 0, g, -1)
    model = StudentMixture(3, random_state=0).fit(X, y, must_link=[[1, 2]])
    np.testing.assert_array_equal(model.labels_[y >= 0], y[y >= 0])
    np.testing.assert_array_equal(model.memberships_[1], model.memberships_[2])


@pytest.mark.parametrize(("n", "d"), [(8, 10), (300, 12), (60, 3)])
def test_objects_and_features_decide_which_families_are_tried(n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    X[: n // 2] += 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StudentMixture(2, n_init=2, random_state=0).fit(X)
    assert {row.covariance_type for row in model.search_} == set(families.suited(n, d))


def test_one_cluster_of_any_simple_shape_shows_that_there_is_no_structure():
    X = np.random.default_rng(3).normal(size=(150, 2)) @ [[3.0, 2.0], [0.0, 0.5]]
    with pytest.warns(EvidenceWarning, match="one cluster describes these data better"):
        StudentMixture(2, n_init=2, random_state=0).fit(X)
