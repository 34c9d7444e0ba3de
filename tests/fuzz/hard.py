"""A generator that prefers what is odd and yet not refused at once.

Of ordinary cases five in six end at the door: weights that no fit takes, numbers whose squares
overflow, more clusters than objects. Whatever this one draws an ordinary generator can draw too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

COMMON = (1.0, 1e150, 1e300, 1e-310)  # scales: the usual one, and those that most models refuse
AGAIN = 0.75  # chance that one of them is given up for another


class Hard(np.random.Generator):
    """Scales at the edge of what is taken, few objects, and weights that a fit can use."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def choice(self, a: Any, *given: Any, **options: Any) -> Any:
        """One of several; another one, mostly, where it is a common scale or many objects."""
        drawn = super().choice(a, *given, **options)
        common = isinstance(drawn, float) and drawn in COMMON
        many = isinstance(drawn, np.integer) and drawn in (30, 60)
        if (common or many) and self.random() < AGAIN:
            return super().choice(a, *given, **options)
        return drawn


def sparing(rng: np.random.Generator) -> bool:
    """Whether to leave out what is refused: mostly, in hard runs alone."""
    return isinstance(rng, Hard) and bool(rng.random() < 0.9)
