"""Numbers that steer the consensus, each with its reason."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TUNING", "Tuning"]


class Tuning(NamedTuple):
    """Numbers that steer the consensus.

    Those marked (c) were chosen on the sets of ``benchmarks/quality_sets.py`` that say so and
    checked on other draws of these and on others.
    """

    # Mixtures: components of few objects must not collapse (c). More members change nothing.
    prior: float = 0.1  # of the whitened covariance
    n_mixtures: int = 24
    share: float = 0.9  # of the sampled objects that each mixture is fitted to,
    most: int = 2000  # and at most: the cost grows with its power 3/2
    # Cells: with ten neighbours, rings of the dartboard data are sometimes joined.
    n_cells: int = 40
    n_neighbors: int = 7
    # Families: numbers of components as multiples of the number of clusters.
    multiples: tuple[float, ...] = (1.0, 1.5, 2.0)
    most_in_families: int = 1000  # objects that these are fitted to
    # Graphs of fewer objects fall apart at outliers: on 569 tumours with 30 features they lose to
    # mixtures, on 1200 and 1797 images they win.
    fewest_in_graph: int = 1000
    # Similarity of every pair, of the mean degree. Posteriors: a few outliers that nothing joins to
    # the others are no cluster. Cells overlap less, and long ones are chains of short steps (c).
    soft_regularization: float = 0.02
    hard_regularization: float = 0.001
    # Over the root of the number of objects: mean score that data without clusters rarely exceed.
    # Set on 504 clouds of eight kinds (40 to 1200 objects, 2 to 8 dimensions), 5 % of which exceed
    # it (normal, uniform, exponential and t: 4 %); of 64 others (up to 30 dimensions) 3 % do.
    noise: float = 3.5
    smallest: float = 0.1  # of the mean size: a number with a smaller cluster has cut off strays
    compared: int = 1500  # objects on which candidates are compared
    summed: int = 50_000  # objects that sums are taken over at most


TUNING = Tuning()
