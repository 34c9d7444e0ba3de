"""Early ends of a command: a signal, a search that does not converge, a damaged file.

After Ctrl-C and SIGTERM a command ends soon, keeps its checkpoint and shows no traceback. Both
raise ``KeyboardInterrupt``, but some libraries turn it into another error, and long calls delay it.
So any error after the signal counts as a stop, and if a call does not return in time, a second
thread saves the checkpoint and ends the process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..array.text import plain

_rescue: Callable[[], str] | None = None


class NotConvergedError(Exception):
    """The search did not converge, and ``--strict`` was given."""


class StoppedError(Exception):
    """The user stopped the work; the message says how to resume it."""


class Stop:
    """Whether the work was stopped, and by which signal."""

    patience = 1.5  # seconds within which a stop should take effect

    def __init__(self) -> None:
        self.signal: int | None = None
        self.heard = threading.Event()

    @property
    def code(self) -> int:
        """The exit code that shells expect: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or signal.SIGINT)


_stop = Stop()


@contextmanager
def listening() -> Iterator[Stop]:
    """Context in which both signals stop the work; signals ignored before stay ignored."""
    global _stop
    _stop = stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def hear(number: int, frame: Any) -> None:
        stop.signal = number
        raise KeyboardInterrupt

    both = (signal.SIGINT, signal.SIGTERM)
    numbers = [each for each in both if signal.getsignal(each) not in (signal.SIG_IGN, None)]
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    earlier = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, hear) for number in numbers}
    watch = threading.Thread(target=_watch, args=(ours, stop, numbers), daemon=True)
    watch.start()
    try:
        yield stop
    finally:
        stop.heard.set()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier)
        theirs.close()
        watch.join()
        ours.close()


def _watch(ours: socket.socket, stop: Stop, numbers: list[int]) -> None:
    while received := ours.recv(1):
        if received[0] in numbers and not stop.heard.wait(stop.patience):
            try:
                text = "stopped" if _rescue is None else _rescue()
                print(f"sfumato: {text}", file=sys.stderr, flush=True)
            finally:
                os._exit(128 + received[0])


@contextmanager
def rescued(action: Callable[[], str]) -> Iterator[None]:
    """Context in which ``action`` is called if a stop does not take effect in time.

    It returns the message to show.
    """
    global _rescue
    earlier, _rescue = _rescue, action
    try:
        yield
    except KeyboardInterrupt:
        _stop.heard.set()
        raise
    finally:
        _rescue = earlier


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Context that reports a damaged file for errors that have no other cause."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        from ..io import InputError  # late: help does not need NumPy

        why = f"{type(error).__name__} {plain(error, 80)}"
        raise InputError(f"{what}, it may be damaged: {why}") from error
