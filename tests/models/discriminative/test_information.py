"""Regularised information maximisation: its formula, its gradient, and what it finds."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine, make_moons

from sfumato import EvidenceWarning, InformationMaximization
from sfumato.array.rows import Rows
from sfumato.metrics import adjusted_rand_index
from sfumato.models.discriminative.information import Objective
from sfumato.similarity import gaussian


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_value_and_slope_by_loops_and_finite_differences(weighted, form):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(40, 3)), rng.normal(size=(4, 4))
    w = rng.integers(1, 4, 40).astype(float) if weighted else None
    v = np.full(40, 1 / 40) if w is None else w / w.sum()
    objective = Objective(Rows(form(X), w), 0.2, 40.0 if w is None else w.sum())

    def slow(V):
        P = np.array([np.exp(V[:, :3] @ x + V[:, 3]) for x in X])
        P /= P.sum(axis=1, keepdims=True)
        q = v @ P
        sizes = -np.sum(q * np.log(q))
        doubt = -np.sum(v[:, None] * P * np.log(P))
        return sizes - doubt - 0.2 * np.sum(V[:, :3] ** 2)

    value, slope = objective.value_and_slope(V)
    assert value == pytest.approx(slow(V), rel=1e-12)
    np.testing.assert_allclose(objective.sizes(V).sum(), 1.0)
    for at in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[at] = 1e-6
        numeric = (slow(V + step) - slow(V - step)) / 2e-6
        assert slope[at] == pytest.approx(numeric, abs=1e-8)


def test_finds_wines_and_publishes_a_logistic_regression():
    X, y = load_wine(return_X_y=True)
    model = InformationMaximization(3, random_state=0).fit(X)
    assert adjusted_rand_index(y, model.labels_) > 0.8
    logits = X @ model.coef_.T + model.intercept_
    U = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(U / U.sum(axis=1, keepdims=True), model.memberships_, atol=1e-9)
    np.testing.assert_allclose(model.weights_, model.memberships_.mean(axis=0))
    assert (np.diff(model.weights_) <= 0).all()
    assert model.score(X) == pytest.approx(model.objective_)
    assert 0.9 < model.information_ < np.log(3)
    again = InformationMaximization(3, random_state=0).fit(X * 10.0 ** np.arange(13) - 3)
    np.testing.assert_allclose(again.memberships_, model.memberships_, atol=1e-4)


def test_a_kernel_tells_moons_apart():
    X, y = make_moons(300, noise=0.07, random_state=0)
    model = InformationMaximization(2, kernel="gaussian", random_state=0).fit(X)
    assert adjusted_rand_index(y, model.labels_) > 0.95
    np.testing.assert_allclose(model.predict_proba(X), model.memberships_, atol=1e-9)
    own = InformationMaximization(
        2, kernel=lambda A, B: gaussian(A, B, bandwidth=0.35), random_state=0
    ).fit(X)
    assert adjusted_rand_index(y, own.labels_) > 0.95


def test_the_number_is_found_or_chosen_of_several():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 2)) + 7.0 * np.eye(3, 2)[y]
    for n_clusters in ("auto", (2, 3, 5)):
        model = InformationMaximization(n_clusters, max_clusters=5, n_init=1, random_state=0).fit(X)
        assert model.n_clusters_ == 3
        assert adjusted_rand_index(y, model.labels_) == 1.0
        assert {row.n_clusters for row in model.selection_.table} >= {2, 3, 5}


def test_a_larger_penalty_is_softer_and_empties_clusters():
    X = load_iris().data
    doubt, used = [], []
    for penalty in (1e-4, 1e-2, 0.1):
        U = InformationMaximization(6, penalty=penalty, random_state=0).fit(X).memberships_
        doubt.append(1 - U.max(axis=1).mean())
        used.append(len(np.unique(U.argmax(axis=1))))
    assert doubt[0] < doubt[1]
    assert used == sorted(used, reverse=True)
    assert used[-1] < 6


def test_noise_is_named():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    with pytest.warns(EvidenceWarning):
        InformationMaximization(3, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cubic"}, "kernel"),
        ({"penalty": -1.0}, "penalty"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": "many"}, "n_clusters"),
        ({"n_clusters": "auto", "max_clusters": 1}, "max_clusters"),
        ({"kernel": lambda A, B: np.ones((2, 2))}, r"kernel\(X, X\) must be"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        InformationMaximization(**{"n_clusters": 2, **parameters}).fit(X)
