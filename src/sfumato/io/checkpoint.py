"""A long fit that can be taken up again: the state of every loop, kept on disk from time to time.

Seeds decide the starts, and a loop is all in its state, so a fit that goes on from a kept state ends where it would have ended.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..core.text import plain
from ._tables import InputError
from .trusted import load, save, skops

__all__ = ["Checkpoint"]


class Checkpoint:
    """Keeps the loops of one fit (see ``_loop.checkpoints``) in a file.

    Parameters
    ----------
    path : Path
    task : str
        What is being fitted to what: a file kept for another task is refused.
    every : float
        Seconds between two writes; more where writing is slow, so that it takes a tenth of the time at
        most.
    token : str
        Marks the files of this run, so that a later one can clean up after it.
    warn : function of a text, optional
        Hears why a write failed; ``warnings.warn`` if not given.
    """

    def __init__(
        self,
        path: Path,
        task: str,
        *,
        every: float = 10.0,
        token: str = "checkpoint",
        warn: Callable[[str], None] | None = None,
    ) -> None:
        skops()  # an import that Ctrl-C cuts in two cannot be repeated
        self.path, self.task, self.every, self.token = path, task, every, token
        self.warn = warn or partial(warnings.warn, stacklevel=2)
        self._said: set[str] = set()
        self.loops: list[tuple[Any, list[Any]]] = []
        self.started, self.written, self.resumed, self.cost = 0, time.monotonic(), 0, 0.0

    def resume(self) -> None:
        """Go on from the file, if there is one."""
        if not self.path.exists():
            return
        kept = load(self.path)
        if not isinstance(kept, dict) or kept.get("task") != self.task:
            raise InputError(
                f"{plain(self.path.name)} was kept for other data, parameters or versions: repeat that command, or delete the file"
            )
        self.loops = kept["loops"]
        self.resumed = self.reached

    @property
    def reached(self) -> int:
        """Iterations that would not have to be repeated."""
        return sum(len(history) for _, history in self.loops)

    def recall(self, state: Any) -> tuple[int, Any, list[Any]]:
        """Place of the next loop, and where it is to start."""
        place, self.started = self.started, self.started + 1
        if place == len(self.loops):
            self.loops.append((state, []))
        state, history = self.loops[place]
        return place, state, list(history)

    def keep(self, place: int, state: Any, history: list[Any]) -> None:
        """Note how far a loop has come; write it down when it is time."""
        self.loops[place] = (state, list(history))
        pause = self.every and max(self.every, 9 * self.cost)
        if time.monotonic() - self.written >= pause:
            self.write()

    def write(self) -> bool:
        """Write everything kept so far. A write that fails is told once, and the last good file stays as it is."""
        began = time.monotonic()
        try:
            save({"task": self.task, "loops": self.loops}, self.path, self.token)
        except Exception as error:  # whatever it is, it must not cost the fit
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = plain(why, 100)
            if reason not in self._said:
                left = "the last good one is kept" if self.path.exists() else "there is none yet"
                self.warn(
                    f"the checkpoint {plain(self.path.name)} could not be written ({reason}): {left}, and the fit goes on"
                )
            self._said.add(reason)
            return False
        finally:
            self.written = time.monotonic()
            self.cost = self.written - began
        return True

    def remove(self) -> None:
        """The fit is done: nothing is left to take up."""
        self.path.unlink(missing_ok=True)
