"""Warnings that point at the line of the user's own code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Packages whose frames are never "the caller": ours, and those that call us on the user's behalf.
_INSIDE = {"sfumato", "sklearn", "joblib", "contextlib", "functools", "concurrent", "threading"}


class EvidenceWarning(UserWarning):
    """The evidence is weak, odd or contradictory, so the memberships say little."""


def warn(message: str, category: type[Warning] = EvidenceWarning) -> None:
    """Issue a warning at the line of the user: the first of the call stack outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def one_warning() -> Iterator[None]:
    """Of several warnings within, only the first is shown, when all is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for first in caught[:1]:
        warn(str(first.message), first.category)
