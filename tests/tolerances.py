"""How far two answers of one solver may lie apart, from where the solver stops.

A loop stops when a step changes the objective F by at most ``tol`` |F|. Rounding decides at which
step that is, and processors round differently. Where steps shrink the distance d to the optimum by
a rate r, and F - F* = h d^2 / 2 |F| around it, the last change is (1 - r^2) (F - F*) / r^2, so an
answer lies within

    d = sqrt(tol) * sqrt(2 r^2 / ((1 - r^2) h))

of the optimum. The second factor is 100 for r = 0.999 and a flat optimum, h = 0.1. A rule that
stops by movement leaves tol r / (1 - r), which is less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLAT_AND_SLOW = 100.0
LAST = 1e-12  # sums of some hundred terms carry this much: what changes F by less is rounding


def stopped(model: Any) -> float:
    """How far two answers of ``model`` may lie apart, entry by entry."""
    return FLAT_AND_SLOW * float(np.sqrt(max(model.tol, LAST)))


def settled(model: Any, last: float = LAST) -> Any:
    """``model``, made to go on until only rounding is left: ``stopped`` is then 1e-4.

    A descent that refuses worse steps can be asked for less than ``LAST``. Mixtures cannot: the sum
    over objects wavers in its last digits.
    """
    return model.set_params(tol=min(model.tol, last), max_iter=10 * model.max_iter)
