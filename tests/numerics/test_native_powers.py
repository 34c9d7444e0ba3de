"""Logarithms, powers of two and whole powers by polynomials beside those of NumPy."""

import numpy as np
import pytest

from sfumato.native.powers import functions, powers_of_float32


def logarithms(x):
    return functions(x)[1]


def powers_of_two(x):
    return functions(x)[2]


def numbers():
    """Normal numbers of every size, those beside powers of two and beside the root of two."""
    rng = np.random.default_rng(0)
    around = np.concatenate([2.0 ** np.arange(-990, 990), 2.0 ** (np.arange(-990, 990) + 0.5)])
    sides = [np.nextafter(around, 0.0), around, np.nextafter(around, np.inf)]
    return np.concatenate(
        [10.0 ** rng.uniform(-300, 300, 20_000), 1 + rng.normal(size=999) / 1e3, *sides]
    )


def test_logarithms_of_every_size():
    x = numbers()
    found = logarithms(x)
    # Near one the error is relative to the logarithm itself, elsewhere to its whole part
    np.testing.assert_allclose(found, np.log2(x), rtol=4e-16, atol=4e-16)


def test_powers_of_two_of_every_size():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-1020, 1000, 20_000), np.arange(-1020, 1000.0), np.arange(-9, 9) / 2]
    )
    np.testing.assert_allclose(powers_of_two(x), np.exp2(x), rtol=1e-15)


def test_powers_that_vanish_stay_positive():
    """A share is never zero, infinite or a subnormal number, which would be slow."""
    found = powers_of_two(np.array([-1e300, -5000.0, -1020.5, -1020.0]))
    np.testing.assert_array_equal(found, np.full(4, 2.0**-1020))


@pytest.mark.parametrize("power", [0.03, 0.5, 0.7, 1.4, 5.0, 10.0])
def test_powers_of_ratios(power):
    rng = np.random.default_rng(2)
    x = 10.0 ** rng.uniform(-25, 0, 20_000)
    np.testing.assert_allclose(powers_of_two(power * logarithms(x)), x**power, rtol=1e-13)


@pytest.mark.parametrize("power", [0.01, 0.3, 1.0, 2.5, 10.0, 60.0, -0.5])
def test_powers_of_float32(power):
    rng = np.random.default_rng(0)
    around = 2.0 ** np.arange(-60, 1)
    ratios = [10.0 ** rng.uniform(-17, 0, 20_000), 1.0 - rng.random(2000) / 1e4, around]
    ratios += [np.nextafter(around.astype(np.float32), np.float32(0)), around[:-1] * np.sqrt(2.0)]
    x = np.concatenate(ratios).astype(np.float32)
    out = powers_of_float32(x, power)
    exponent = float(np.float32(power)) * np.log2(x.astype(float))
    expected = 2.0 ** np.maximum(exponent, -125.0)
    # Units of the last place: of the result, and of the exponent that it is a power of
    units = np.abs(out - expected) / expected / np.finfo(np.float32).eps / (1 + np.abs(exponent))
    assert units[exponent > -124].max() < 2.0
    np.testing.assert_allclose(out[exponent <= -125.1], 2.0**-125, rtol=1e-6)


def test_exponentials():
    x = np.concatenate([np.linspace(-700.0, 700.0, 20_001), [-1e300, -701.0, 0.0]])
    np.testing.assert_allclose(functions(x)[0], np.exp(np.maximum(x, -700.0)), rtol=1e-15)
    assert np.isnan(functions(np.array([0.0, np.nan]))[0]).tolist() == [False, True]
