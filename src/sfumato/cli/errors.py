"""Errors that end a command with an exit code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..array.text import plain

__all__ = ["NotConvergedError", "StoppedError", "damaged"]


class NotConvergedError(Exception):
    """The search stopped before it converged, and ``--strict`` was asked for."""


class StoppedError(Exception):
    """The user stopped the work; the message says how to take it up again."""


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Report errors that only a damaged file can cause as errors of the file."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        from ..io import InputError  # late: help does not wait for NumPy

        raise InputError(
            f"{what}, it may be damaged: {type(error).__name__} {plain(error, 80)}"
        ) from error
