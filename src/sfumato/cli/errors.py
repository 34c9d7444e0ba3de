"""Errors that end a command with an exit code of their own."""

from __future__ import annotations

__all__ = ["NotConvergedError", "StoppedError"]


class NotConvergedError(Exception):
    """The search stopped before it converged, and ``--strict`` was asked for."""


class StoppedError(Exception):
    """The user stopped the work; the message says how to take it up again."""
