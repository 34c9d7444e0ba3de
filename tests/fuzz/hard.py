"""A generator that prefers what is rare: the same cases can come, the odd ones much more often."""

from __future__ import annotations

from typing import Any

import numpy as np

POWER = 1.8  # a chance of 0.15 becomes 0.35, one of 0.03 becomes 0.14
USUAL = 1.0  # a scale that is given up for another three times of four


class Hard(np.random.Generator):
    """Small uniform numbers, which let rare things happen, and scales other than one.

    Whatever it draws an ordinary generator can draw too, so that a finding is one of both.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def random(self, *given: Any, **options: Any) -> Any:
        """One number is small; many at once are the data, and stay as they are."""
        drawn = super().random(*given, **options)
        return drawn**POWER if isinstance(drawn, float) else drawn

    def choice(self, a: Any, *given: Any, **options: Any) -> Any:
        """One of several numbers; not the usual one if it is there, mostly."""
        drawn = super().choice(a, *given, **options)
        if isinstance(drawn, float) and drawn == USUAL and super().random() < 0.75:
            return super().choice(a, *given, **options)
        return drawn
