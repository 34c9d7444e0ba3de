"""Checkpoints around a fit.

They are kept until the result is on the disk, however the fit ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..engine.loop import checkpoints
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

    A fit that is stopped, or runs out of memory or disk, keeps its file, so that it can be resumed.
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
    """Delete the checkpoint once the result is on the disk; if writing fails, the fit can be
    resumed at its end.
    """
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
    """The message after Ctrl-C: whether there is a checkpoint to resume from."""
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
    """End a fit that does not react to the signal: keep its checkpoint, and release the output
    folder.
    """
    said = str(_stopped(checkpoint))
    if output is not None:
        output.claim.release()
    return said
