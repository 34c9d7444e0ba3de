"""Checkpoints around a fit.

Kept while it runs, whatever ends it, until its result is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core.loop import checkpoints
from ..io import InputError
from ..io.checkpoint import Checkpoint
from ..io.output import Output
from .errors import StoppedError
from .stopping import rescued
from .terminal import Terminal

__all__ = ["kept", "kept_until_written"]

_AGAIN = "the fit is kept: the same command with --resume goes on from there"


@contextmanager
def kept(
    checkpoint: Checkpoint | None, output: Output | None, terminal: Terminal
) -> Iterator[None]:
    """Checkpoints while fitting.

    A fit that is stopped keeps its file, and so does one that runs out of memory or disk: both come
    back.
    """
    if checkpoint is None:
        yield
        return
    try:
        with checkpoints(checkpoint), rescued(lambda: _rescue(checkpoint, output)):
            yield
    except KeyboardInterrupt as stop:
        raise _stopped(checkpoint) from stop
    except (MemoryError, OSError):
        if checkpoint.reached and (checkpoint.write() or checkpoint.mine):
            terminal.remark(_AGAIN)
        raise


@contextmanager
def kept_until_written(checkpoint: Checkpoint | None, terminal: Terminal) -> Iterator[None]:
    """The checkpoint goes when the result is on the disk; where that fails, the fit can be taken up
    at its end."""
    if checkpoint is None:
        yield
        return
    try:
        with rescued(lambda: str(_stopped(checkpoint))):
            yield
    except InputError:  # the result is written, under another name
        checkpoint.remove()
        raise
    except KeyboardInterrupt as stop:
        raise _stopped(checkpoint) from stop
    except Exception:
        if checkpoint.reached and (checkpoint.write() or checkpoint.mine):
            terminal.remark(_AGAIN)
        raise
    checkpoint.remove()


def _stopped(checkpoint: Checkpoint) -> StoppedError:
    """What to say after Ctrl-C: only what is there can be taken up again."""
    if not checkpoint.reached:
        return StoppedError("stopped")
    if checkpoint.write():
        return StoppedError("stopped: the same command with --resume goes on from here")
    if checkpoint.mine:
        return StoppedError(
            "stopped: the same command with --resume goes on from the last good checkpoint"
        )
    return StoppedError("stopped; there is no checkpoint")


def _rescue(checkpoint: Checkpoint, output: Output | None) -> str:
    """The end of a fit that does not hear: keep what it has reached, and let go of the output."""
    said = str(_stopped(checkpoint))
    if output is not None:
        output.claim.release()
    return said
