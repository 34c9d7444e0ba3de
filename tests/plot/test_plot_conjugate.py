"""The picture of a conjugate update."""

import numpy as np
import pytest

from sfumato.conjugate import (
    BetaBinomial,
    NormalInverseWishart,
    NormalKnownMean,
    NormalKnownVariance,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.mark.parametrize(
    ("prior", "data"),
    [
        (BetaBinomial(2, 3), [1, 0, 1]),
        (NormalKnownVariance(0.0, 2.0, 1.0), [0.5, 1.0]),
        (NormalKnownMean(shape=3.0, scale=1.0), [0.5, 1.0]),
    ],
)
def test_curves_are_the_densities(prior, data):
    from sfumato import plot

    ax = plot.conjugate(prior, data)
    lines = {line.get_label(): line for line in ax.get_lines()}
    grid, after = lines["posterior"].get_data()
    np.testing.assert_allclose(after, prior.posterior(data).distribution.pdf(grid))
    likelihood = lines["likelihood"].get_ydata()
    assert np.trapezoid(likelihood, grid) == pytest.approx(1)
    matplotlib.pyplot.close(ax.figure)


def test_a_prior_on_several_numbers_is_refused():
    from sfumato import plot

    with pytest.raises(ValueError, match="one number"):
        plot.conjugate(
            NormalInverseWishart(mean=[0.0, 0.0], kappa=1.0, df=4.0, scale=np.eye(2)),
            np.zeros((3, 2)),
        )
