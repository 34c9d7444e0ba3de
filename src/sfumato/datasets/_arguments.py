"""Checks of what the generators are asked for."""

from __future__ import annotations

import math

from ..array.validation import check_number

__all__ = ["check_counts", "check_numbers"]

HUGE = 1e100  # its square is still a number in double precision


def check_counts(**given: int) -> None:
    """Refuse what is not a whole number of at least 1, by name."""
    for name, value in given.items():
        check_number(value, name, low=1, high=math.inf, integer=True)


def check_numbers(low: float = 0.0, high: float = HUGE, **given: float) -> None:
    """Refuse what is not a number from ``low`` to ``high``, by name."""
    for name, value in given.items():
        check_number(value, name, low=low, high=high)
