"""Plots of memberships and of the evidence behind them: arrays in, matplotlib axes out.

Every function draws on ``ax`` (a new figure when it is ``None``), follows the current matplotlib
style and returns the axes. Names of objects, clusters and classes are drawn as they are; special
characters have no effect.
"""

from ._curves import (
    calibration,
    cluster_numbers,
    conjugate,
    consensus_cdf,
    history,
    information,
    model_search,
    selection,
)
from ._objects import (
    block_means,
    contingency,
    levels,
    memberships,
    palette,
    profiles,
    reconstruction,
    scatter,
    similarity,
    simplex,
    uncertainty,
)

__all__ = [
    "block_means", "calibration", "cluster_numbers", "conjugate", "consensus_cdf", "contingency",
    "history", "information", "levels", "memberships", "model_search", "palette", "profiles",
    "reconstruction", "scatter", "selection", "similarity", "simplex", "uncertainty",
]  # fmt: skip
