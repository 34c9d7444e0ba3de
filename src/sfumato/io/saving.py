"""Saving and loading of models and checkpoints with skops: no pickles, only trusted classes.

A checkpoint holds the state of every loop of a long fit. Seeds determine the starts and the state
of a loop determines the rest, so a resumed fit gives the same answer as an uninterrupted one.
"""

from __future__ import annotations

import errno
import os
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..array.text import plain
from ..array.validation import reserve
from .output import whole_file
from .reading import InputError, archive_holds, extra

# Folders whose classes are never part of a model.
_FRONT = ("anndata", "cli", "dask", "io", "papers", "plot", "report")
_OTHERS = frozenset(
    {
        "numpy.dtype",
        "scipy.sparse._csr.csr_array",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
    }
)


def skops() -> Any:
    """The package that saves and loads models; imported late because that takes a while."""
    return extra("skops.io", "models are saved and loaded with skops", "'sfumato[cli]'")


def save(thing: Any, path: Path, token: str = "model") -> None:
    """Write an estimator or a checkpoint, completely or not at all."""
    with whole_file(path, token) as partial:
        skops().dump(thing, partial)


def untrusted(path: Path) -> list[str]:
    """Types in a file that are neither plain data nor classes of this library."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        reserve((size,), "u1", f"the model in {plain(path.name)}", "it may not be a model at all")
        found = skops().get_untrusted_types(file=path)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # readers raise many kinds of errors on damaged files
        if isinstance(error, zipfile.BadZipFile) and "CRC" in str(error):
            raise InputError(
                f"{plain(path.name)} is damaged, its checksums do not agree: delete it, and fit "
                "afresh"
            ) from error
        raise InputError(f"{plain(path.name)} is not a saved model: {plain(error, 100)}") from error
    return [name for name in found if name not in _OTHERS and not _is_ours(name)]


def _is_ours(name: str) -> bool:
    """Whether ``name`` is a class or function that this library defines where models are made."""
    module, _, attribute = name.rpartition(".")
    package, folder = [*module.split("."), "", ""][:2]
    if package != "sfumato" or folder in ("", *_FRONT) or ".." in name or "__" in name:
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except (ImportError, ValueError):
        return False
    return getattr(found, "__module__", "").startswith("sfumato.")


def load(path: Path) -> Any:
    """The object that ``save`` wrote. Files with types that are not trusted are refused unread."""
    if not path.is_file():
        raise InputError(f"no model called {plain(path, 200)}")
    foreign = untrusted(path)
    if foreign:
        raise InputError(
            f"{plain(path.name)} asks for {plain(', '.join(foreign), 120)}, which no model of "
            "this library holds: not loaded"
        )
    try:
        return skops().load(path, trusted=skops().get_untrusted_types(file=path))
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"{plain(path.name)} cannot be loaded; it may come from another version: "
            f"{plain(error, 100)}"
        ) from error


class Checkpoint:
    """Saves the loops of one fit (see ``engine.loop.checkpoints``) to a file.

    ``task`` describes the model and the data; a checkpoint of another task is refused. The file is
    written every ``every`` seconds, or less often if writing would take more than a tenth of the
    time. ``token`` marks the files of this run, and ``warn`` is called with the reason if writing
    fails.
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
        skops()  # an import interrupted by Ctrl-C cannot be repeated
        self.path, self.task, self.every, self.token = path, task, every, token
        self.warn = warn or partial(warnings.warn, stacklevel=2)
        self._said: set[str] = set()
        self._written = _identity(path) if path.exists() else None
        self._coming: tuple[int, int] | None = None
        self.loops: list[tuple[Any, list[Any]]] = []
        self.started, self.written, self.resumed, self.cost = 0, time.monotonic(), 0, 0.0

    def resume(self) -> None:
        """Load the loops from the file, if there is one."""
        if not self.path.exists():
            return
        kept = load(self.path)
        if not isinstance(kept, dict) or kept.get("task") != self.task:
            raise InputError(
                f"{plain(self.path.name)} was kept for other data, parameters or versions: repeat "
                "that command, or delete the file"
            )
        loops = kept.get("loops")
        if not isinstance(loops, list) or not all(
            isinstance(loop, tuple) and len(loop) == 2 and isinstance(loop[1], list)
            for loop in loops
        ):
            raise InputError(f"{plain(self.path.name)} is damaged: delete it, and start afresh")
        self.loops = loops
        self.resumed = self.reached

    @property
    def mine(self) -> bool:
        """Whether the file exists and was written, resumed or replaced by this run."""
        return self.path.exists() and _identity(self.path) in (self._written, self._coming)

    @property
    def reached(self) -> int:
        """Number of iterations that need not be repeated."""
        return sum(len(history) for _, history in self.loops)

    def recall(self, state: Any) -> tuple[int, Any, list[Any]]:
        """Number of the next loop, its state and its history."""
        place, self.started = self.started, self.started + 1
        if place == len(self.loops):
            self.loops.append((state, []))
        state, history = self.loops[place]
        return place, state, list(history)

    def keep(self, place: int, state: Any, history: list[Any]) -> None:
        """Record the progress of a loop; write the file if it is time."""
        self.loops[place] = (state, list(history))
        pause = self.every and max(self.every, 9 * self.cost)
        if time.monotonic() - self.written >= pause:
            self.write()

    def write(self) -> bool:
        """Write all loops; a failure is reported once, and the last good file is kept."""
        began = time.monotonic()
        try:
            if self.mine != self.path.exists():
                raise FileExistsError(errno.EEXIST, "another file has this name, or took it away")
            with whole_file(self.path, self.token) as partial_file:
                skops().dump({"task": self.task, "loops": self.loops}, partial_file)
                self._coming = _identity(partial_file)  # a stop may come right after the rename
            self._written = self._coming
        except Exception as error:  # no failure of a checkpoint may stop the fit
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = plain(why, 100)
            if reason not in self._said:
                left = "the last good one is kept" if self.path.exists() else "there is none yet"
                self.warn(
                    f"the checkpoint {plain(self.path.name)} could not be written ({reason}): "
                    f"{left}, and the fit goes on"
                )
            self._said.add(reason)
            return False
        finally:
            self.written = time.monotonic()
            self.cost = self.written - began
        return True

    def remove(self) -> None:
        """Delete the file when the fit is done."""
        if self.mine:
            with suppress(OSError):
                self.path.unlink()


def check_checkpoint(path: Path, *, wanted: bool) -> None:
    """Refuse an existing file that is not a checkpoint, or a checkpoint that was not asked for."""
    if not os.path.lexists(path):
        return
    said = f"--out: {plain(path, 200)} is"
    if not path.is_file() or not archive_holds(path, "schema.json"):
        raise InputError(f"{said} not a checkpoint of this program: choose another name")
    if not wanted:
        raise InputError(
            f"{said} left from a run that was stopped: go on from it with --resume, or add --force "
            "to start afresh"
        )


def _identity(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino
