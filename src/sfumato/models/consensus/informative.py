"""The axes that mixtures are fitted on, where most axes are noise.

Small mixtures with full covariances overfit many axes of noise: objects that were held out are then
less likely under them than under one Gaussian, so that they know nothing of the objects. Where near
neighbours tell no axes apart either (``numerics.axes``), axes are ordered by how much objects are
clustered along them, mixtures are fitted on the first q only, and the others are left to one
Gaussian. In whitened coordinates the held-out log-density of an object then gains

    g_q = mean log f_q(y) + q (1 + log 2 pi) / 2

over one Gaussian for all axes, whatever the number of axes is. The q with the largest gain is
taken; where no gain is positive, as in noise, all axes stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array.types import Array, Weights
from ...numerics.axes import Axes, leading, turned
from .components import gain
from .mixtures import MixtureEnsemble, Stock

__all__ = ["informative"]

# Numbers of axes that may be tried in a row without a larger gain: clusters may show on two axes
# together only
PATIENCE = 2


def informative(
    mixtures: MixtureEnsemble,
    points: Array,
    known: tuple[Axes, Stock, list[Any]],
    seeds: np.ndarray,
    mass: Weights,
) -> tuple[Axes, Stock, list[Any]]:
    """Axes to fit mixtures on, the objects on these, and a mixture, or a failure, for each seed.

    ``known`` are the same for all axes.
    """
    axes, stock, _ = best = known
    d = stock.Y.shape[1]
    if not np.array_equal(axes.near, np.eye(d)):
        return best
    ordered = turned(axes, stock.Y)
    Y, most, at = ordered(points), 0.0, 0
    for q in range(1, d):
        fewer = leading(ordered, Y, q)
        part = Stock.of(points, fewer, mass)
        fitted = mixtures._members(part, seeds)
        if (now := gain(fitted, q)) > most:
            best, most, at = (fewer, part, fitted), now, q
        elif q - at >= PATIENCE:
            break
    return best
