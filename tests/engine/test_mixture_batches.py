"""Every mixture learns from batches and reads sparse rows."""

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato
from sfumato.metrics import adjusted_rand_index

MODELS = {
    "gaussian": lambda **more: sfumato.GaussianMixture(3, covariance_type="VVI", **more),
    "student": lambda **more: sfumato.StudentMixture(3, covariance_type="VVI", **more),
    "factor": lambda **more: sfumato.FactorMixture(3, n_factors=1, **more),
    # A prior would count half as much beside twice as many objects.
    "mixed": lambda **more: sfumato.MixedMixture(3, smoothing=1e-9, **more),
    "directional": lambda **more: sfumato.DirectionalMixture(3, **more),
}
every = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def groups(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 4)) + 3.5 * np.eye(4)[y], y


@every
def test_a_fit_is_a_fixed_point_of_learning_from_the_same_objects_again(make):
    X, _ = groups(150)
    model = make(tol=1e-11, max_iter=20_000, random_state=0).partial_fit(X)
    U, value = model.memberships_, model.score(X)
    model.partial_fit(X)
    np.testing.assert_allclose(model.memberships_, U, atol=1e-4)
    assert model.score(X) == pytest.approx(value, abs=1e-8)


@every
def test_shares_are_averages_of_the_batches_with_a_falling_rate(make):
    X, _ = groups(400)
    model = make(random_state=0).partial_fit(X[:200])
    first, second = model.memberships_.mean(axis=0), model.predict_proba(X[200:]).mean(axis=0)
    model.partial_fit(X[200:])
    rate = 2**-0.6
    expected = (1 - rate) * first + rate * second
    np.testing.assert_allclose(model.weights_, expected, atol=1e-6)
    assert model.memberships_.shape == (200, 3)


@every
def test_many_batches_go_most_of_the_way_to_a_fit_of_all_objects(make):
    X, _ = groups(1500)
    new, y = groups(500, seed=1)
    whole, model = make(random_state=0).fit(X), make(random_state=0)
    scores = [model.partial_fit(batch).score(new) for batch in np.array_split(X, 15)]
    assert scores[-1] > scores[0] + 0.5 * (whole.score(new) - scores[0])
    found = adjusted_rand_index(y, model.predict(new))
    assert found > adjusted_rand_index(y, whole.predict(new)) - 0.02


@every
def test_sparse_rows_are_those_of_the_dense_array(make):
    X, _ = groups(120)
    dense, sparse = (make(random_state=0).fit(form) for form in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.memberships_, dense.memberships_, atol=1e-9)
    placed = sparse.predict_proba(sp.csr_array(X[:9]))
    np.testing.assert_allclose(placed, dense.memberships_[:9], atol=1e-9)


def test_holes_in_a_later_batch_are_integrated_out_or_refused_by_name():
    X, _ = groups(120)
    holes = X.copy()
    holes[::9, 1] = np.nan
    model = sfumato.FactorMixture(3, n_factors=1, random_state=0).partial_fit(X)
    assert np.isfinite(model.partial_fit(holes).memberships_).all()
    plain = sfumato.StudentMixture(3, covariance_type="VVI", random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="missing values"):
        plain.partial_fit(holes)
