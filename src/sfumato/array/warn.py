"""Warnings that point at a line of the user's own code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Packages whose frames are skipped: this one, and those that call it on behalf of the user.
_INSIDE = {"sfumato", "sklearn", "joblib", "contextlib", "functools", "concurrent", "threading"}

# The model whose warnings are collected (None for any), and their texts so far.
heard: ContextVar[tuple[object, list[str]]] = ContextVar("heard")


class EvidenceWarning(UserWarning):
    """The data are weak, odd or contradictory, so the memberships mean little."""


def warn(message: str, category: type[Warning] = EvidenceWarning) -> None:
    """Issue a warning at the first line of the call stack outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    if message not in (notes := heard.get((None, []))[1]):
        notes.append(message)
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def one_warning() -> Iterator[None]:
    """Context in which only the first warning is shown, at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for first in caught[:1]:
        warn(str(first.message), first.category)
