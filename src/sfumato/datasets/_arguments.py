"""What the generators may be asked for."""

from __future__ import annotations

import math

from ..core.validation import check_number

__all__ = ["check_arguments"]

HUGE = 1e100  # its square is still a number in double precision
COUNTS = ("n_objects", "n_clusters", "n_features", "n_partitions")
LIMITS = {
    "noise": (0.0, HUGE),
    "separation": (0.0, HUGE),
    "elongation": (1e-6, 1e6),  # squared, and still the condition of a matrix that can be inverted
    "turns": (0.0, HUGE),
    "factor": (0.0, HUGE),
    "scale": (0.0, HUGE),
    "concentration": (1e-300, HUGE),
    "stay": (0.0, 1.0),
    "missing": (0.0, 1.0),
    "spread": (0.0, 10.0),  # of logarithms, as is the noise of blocks
    "block_noise": (0.0, 10.0),
    "share_of_noise": (0.0, 1.0),
}
NAMES = {"block_noise": "noise", "share_of_noise": "noise"}


def check_arguments(**given: float) -> None:
    """Refuse numbers that no data can be made with, by name."""
    for name, value in given.items():
        if name in COUNTS:
            check_number(value, name, low=1, high=math.inf, integer=True)
        else:
            low, high = LIMITS[name]
            check_number(value, NAMES.get(name, name), low=low, high=high)
