"""Warnings that point at a line of the user's own code."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType

# Packages whose frames are skipped: this one, and those that call it on behalf of the user.
_INSIDE = {"sfumato", "sklearn", "joblib", "contextlib", "functools", "concurrent", "threading"}

# The model whose warnings are collected (None for any), and their texts so far.
heard: ContextVar[tuple[object, list[str]]] = ContextVar("heard")

# Lines of code, and the texts shown for them with their numbers left out. The code is kept, so
# that no other code has its ``id``: a cell of a notebook that is run again warns again.
_shown: dict[tuple[int, int, str], CodeType] = {}


class EvidenceWarning(UserWarning):
    """The data are weak, odd or contradictory, so the memberships mean little."""


def warn(message: str, category: type[Warning] = EvidenceWarning) -> None:
    """Issue a warning at the first line of the call stack outside this package.

    Python's default shows equal texts once for each line of code, but forgets it with every change
    of the filters. Where it applies, texts that differ only in numbers are shown once.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    if message not in (notes := heard.get((None, []))[1]):
        notes.append(message)
    module = str(frame.f_globals.get("__name__"))
    place = id(frame.f_code), frame.f_lineno, re.sub(r"[\d.,]*\d", "0", message)
    if _action(message, category, module, frame.f_lineno) == "default":
        if place in _shown:
            return
        _shown[place] = frame.f_code
    warnings.warn(message, category, stacklevel=level)


def _action(message: str, category: type[Warning], module: str, line: int) -> str:
    """What the filters say is done with a warning."""
    for action, text, kind, where, at in warnings.filters:
        if (
            issubclass(category, kind)
            and (text is None or text.match(message))
            and (where is None or where.match(module))
            and at in (0, line)
        ):
            return action
    return "default"


@contextmanager
def one_warning() -> Iterator[None]:
    """Context in which only the first warning is shown, at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for first in caught[:1]:
        warn(str(first.message), first.category)
