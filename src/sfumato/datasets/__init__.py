"""Data with known clusters: features, similarities and labelings with the memberships behind them.

Generators give a ``Simulated`` record ``(evidence, memberships, labels)``; loaders give ``(X,
labels)``. Everything is a plain array, drawn from ``random_state`` alone.
"""

from .features import (
    Loaded,
    Simulated,
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_gaussians,
    make_moons,
    make_noise,
    make_rings,
    make_spirals,
)
from .relations import make_block_similarity, make_labelings, make_memberships, make_similarity

__all__ = [
    "Loaded",
    "Simulated",
    "load_breast_cancer",
    "load_digits",
    "load_iris",
    "load_wine",
    "make_block_similarity",
    "make_circles",
    "make_gaussians",
    "make_labelings",
    "make_memberships",
    "make_moons",
    "make_noise",
    "make_rings",
    "make_similarity",
    "make_spirals",
]
