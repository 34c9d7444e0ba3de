"""Distribution of co-association values: against a slow loop, and on clear clusters."""

import numpy as np
import pytest
from matplotlib import pyplot

from sfumato import metrics, plot
from sfumato.similarity import coassociation


def labelings(rng, k, n=40, m=25, noise=0.15):
    truth = np.arange(n) % 3
    L = np.stack([np.minimum(truth, k - 1)] * m, axis=1)
    wrong = rng.random(L.shape) < noise
    L[wrong] = rng.integers(0, k, wrong.sum())
    L[rng.random(L.shape) < 0.2] = -1
    return L


def slow(C):
    """The printed formulas, pair by pair."""
    n = len(C)
    x = sorted(C[i, j] for i in range(n) for j in range(i + 1, n) if not np.isnan(C[i, j]))
    area = 0.0
    for i in range(1, len(x)):
        area += (x[i] - x[i - 1]) * sum(other <= x[i] for other in x) / len(x)
    return x, area


def test_curves_and_areas_equal_the_printed_formulas(rng):
    matrices = {k: coassociation(labelings(rng, k)) for k in (4, 2, 3)}
    found = metrics.consensus_distribution(matrices)
    np.testing.assert_array_equal(found.n_clusters, [2, 3, 4])
    areas = []
    for row, k in zip(found.cdf, (2, 3, 4), strict=True):
        x, area = slow(matrices[k].toarray())
        expected = [sum(value <= at for value in x) / len(x) for at in found.values]
        np.testing.assert_allclose(row, expected, atol=1e-12)
        areas.append(area)
    np.testing.assert_allclose(found.area, areas, atol=1e-12)
    changes = [areas[0], areas[1] / areas[0] - 1, areas[2] / areas[1] - 1]
    np.testing.assert_allclose(found.change, changes, atol=1e-9)


def test_clear_clusters_have_flat_curves():
    C = np.kron(np.eye(4), np.ones((5, 5)))
    found = metrics.consensus_distribution({4: C})
    np.testing.assert_array_equal(found.values, [0.0, 1.0])
    assert found.cdf[0, 0] == pytest.approx(150 / 190)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([], TypeError),
        ({}, TypeError),
        ({2: np.ones((3, 2))}, ValueError),
        ({2: np.full((3, 3), 7.0)}, ValueError),
        ({2: np.full((3, 3), np.nan)}, ValueError),
    ],
)
def test_bad_input_is_named(given, kind):
    with pytest.raises(kind, match="coassociations"):
        metrics.consensus_distribution(given)


def test_the_plot_has_one_curve_for_each_number(rng):
    pyplot.switch_backend("Agg")
    found = metrics.consensus_distribution({k: coassociation(labelings(rng, k)) for k in (2, 3)})
    ax = plot.consensus_cdf(found)
    assert [line.get_label() for line in ax.get_lines()] == ["2 clusters", "3 clusters"]
    np.testing.assert_array_equal(ax.get_lines()[1].get_ydata()[1:-1], found.cdf[1])
    pyplot.close("all")
