"""The M steps of the fourteen families against numerical maximisation and mclust's counts."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from sfumato.components import gaussian as families

GOLDEN = Path(__file__).parents[1] / "models" / "gaussian" / "data" / "mclust_bic.csv"
FEATURES = {"iris": 4, "faithful": 2, "thyroid": 5}


def problem(seed=0, k=3, d=3):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d)) * np.logspace(0, 0.5, d)
    mass = rng.uniform(5.0, 20.0, k)
    return mass[:, None, None] * (factors @ factors.transpose(0, 2, 1)), mass


def m_step(family, scatter, mass, **options):
    return families.fitted_covariances(family, scatter, mass, **options)


def criterion(matrices, scatter, mass):
    """Minus twice the expected log-likelihood, by its definition."""
    return sum(
        n * np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, W))
        for S, W, n in zip(matrices, scatter, mass, strict=True)
    )


def build(family, numbers, k, d):
    """Covariances of the family from unconstrained numbers; none is left over."""
    numbers = list(numbers)

    def draw(count):
        return np.array([numbers.pop(0) for _ in range(count)])

    def volume():
        return np.exp(draw(1))[0]

    def shape():
        values = draw(d - 1)
        return np.exp(np.append(values, -values.sum()))

    def axes():
        skew = np.zeros((d, d))
        skew[np.triu_indices(d, 1)] = draw(d * (d - 1) // 2)
        return expm(skew - skew.T)

    parts = []
    for letter, make, identity in zip(
        family, (volume, shape, axes), (1.0, np.ones(d), np.eye(d)), strict=True
    ):
        if letter == "V":
            parts.append([make() for _ in range(k)])
        else:
            parts.append([make() if letter == "E" else identity] * k)
    assert not numbers
    return np.stack([v * (D * s) @ D.T for v, s, D in zip(*parts, strict=True)])


@pytest.mark.parametrize("family", families.FAMILIES)
@pytest.mark.parametrize("k, d", [(3, 2), (2, 3)])
def test_the_m_step_is_the_numerical_maximum(family, k, d):
    scatter, mass = problem(1, k, d)
    ours = families.as_matrices(m_step(family, scatter, mass), family, d)
    rng = np.random.default_rng(0)
    size = families.n_covariance_parameters(family, k, d)
    searches = [
        minimize(
            lambda x: criterion(build(family, x, k, d), scatter, mass),
            start,
            method="L-BFGS-B",
            bounds=[(-12.0, 12.0)] * size,
            options={"maxiter": 150},
        )
        for start in rng.normal(size=(2, size))
    ]
    best = min(search.fun for search in searches)
    assert criterion(ours, scatter, mass) <= best + 1e-5 * abs(best)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_covariances_have_the_structure_of_the_name(family):
    d = 4
    scatter, mass = problem(2, 3, d)
    matrices = families.as_matrices(m_step(family, scatter, mass), family, d)
    values, axes = np.linalg.eigh(matrices)
    volumes = np.exp(np.log(values).mean(axis=1))
    shapes = np.sort(values / volumes[:, None], axis=1)
    np.testing.assert_allclose(matrices, matrices.transpose(0, 2, 1), atol=1e-12)
    if family[0] == "E":
        np.testing.assert_allclose(volumes, volumes[0], rtol=1e-8)
    if family[1] in "EI":
        np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], shapes.shape), rtol=1e-8)
    if family[1] == "I":
        np.testing.assert_allclose(shapes, 1.0, rtol=1e-8)
    if family[2] == "I":
        np.testing.assert_allclose(matrices, matrices * np.eye(d), atol=1e-12)
    if family[2] == "E":
        turned = axes[0].T @ matrices @ axes[0]
        np.testing.assert_allclose(turned * (1 - np.eye(d)), 0.0, atol=1e-6 * values.max())


@pytest.mark.parametrize("family", families.FAMILIES)
def test_a_warm_start_stays_and_few_steps_never_lose(family):
    scatter, mass = problem(3, 4, 5)
    done = m_step(family, scatter, mass)
    again = m_step(family, scatter, mass, previous=done)
    values = [criterion(families.as_matrices(C, family, 5), scatter, mass) for C in (done, again)]
    assert values[1] == pytest.approx(values[0], rel=1e-8)
    other = problem(4, 4, 5)
    current, before = done, criterion(families.as_matrices(done, family, 5), *other)
    for _ in range(10):
        current = m_step(family, *other, previous=current, n_steps=1)
        after = criterion(families.as_matrices(current, family, 5), *other)
        assert after <= before + 1e-9 * abs(before)
        before = after


@pytest.mark.parametrize("family", families.FAMILIES)
def test_several_mixtures_at_once_are_each_by_itself(family):
    problems = [problem(seed, 3, 3) for seed in (5, 6, 7, 8)]
    scatter, mass = (
        np.stack(parts).reshape(2, 2, *parts[0].shape) for parts in zip(*problems, strict=True)
    )
    together = m_step(family, scatter, mass)
    alone = [m_step(family, *one) for one in problems]
    again = m_step(family, scatter, mass, previous=together, n_steps=3)
    np.testing.assert_allclose(together.reshape(4, *alone[0].shape), alone, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(again.reshape(4, *alone[0].shape), alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_flat_scatter_is_raised_to_the_floor(family):
    scatter, mass = problem(6, 3, 3)
    scatter[0] = np.diag([1.0, 0.0, 0.0])
    scatter[1] = 0.0
    matrices = families.as_matrices(m_step(family, scatter, mass, floor=1e-6), family, 3)
    assert np.isfinite(matrices).all()
    assert np.linalg.eigvalsh(matrices).min() >= 1e-6 * (1 - 1e-6)


@pytest.mark.parametrize("name, family", families.ALIASES.items())
def test_names_of_scikit_learn_stand_for_families(name, family):
    assert families.family_of(name) == family
    assert families.family_of(family) == family


def test_parameters_are_counted_as_mclust_counts_them():
    with GOLDEN.open() as file:
        for row in csv.DictReader(file):
            if row["df"] != "NA":
                count = families.n_parameters(row["model"], int(row["k"]), FEATURES[row["data"]])
                assert count == int(row["df"]), row


def test_a_family_lies_within_those_whose_letters_are_freer():
    assert families.lies_within("EII", "VVV")
    assert families.lies_within("tied", "EVE")
    assert not families.lies_within("VVI", "EEE")
    for name in families.FAMILIES:
        few = families.n_covariance_parameters(name, 3, 4)
        for other in families.FAMILIES:
            if name != other and families.lies_within(name, other):
                assert few < families.n_covariance_parameters(other, 3, 4)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_families_are_unit_free_if_units_of_features_change_the_m_step_in_the_same_way(family):
    scatter, mass = problem()
    units = np.array([1.0, 20.0, 0.3])
    both = units[:, None] * units
    before = families.as_matrices(
        m_step(family, families.reduced(scatter, family), mass), family, 3
    )
    after = families.as_matrices(
        m_step(family, families.reduced(scatter * both, family), mass), family, 3
    )
    same = np.allclose(after, before * both, rtol=1e-4)
    assert families.is_unit_free(family) == same


def test_scikit_learns_names_of_families_are_unit_free_as_the_families_are():
    assert not families.is_unit_free("spherical")
    assert all(families.is_unit_free(name) for name in ("full", "tied", "diag", "auto"))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_multiples_of_a_flat_matrix_have_a_volume():
    """Rounding may leave a matrix without volume although its eigenvalues were raised."""
    flat = np.full((6, 6), 1e30)
    found = families.fitted_covariances(
        "VEE", np.stack([np.eye(6), flat]), np.array([3.0, 2.0]), np.stack([np.eye(6), flat]), 1e-9
    )
    assert np.isfinite(found).all()
    assert np.linalg.eigvalsh(found).min() > -1e-9 * np.abs(found).max()
