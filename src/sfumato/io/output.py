"""Output that is whole or not there: claimed before the work, written beside its place, moved there in one step at the end."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from ..core.text import plain
from ._tables import InputError
from .claims import Claim
from .moving import exchange, rename_new, sync, sync_tree, temporary

__all__ = ["Output", "check_file"]

_LEAST = 2**20  # bytes that must be free before any work begins: a summary, a lock and a checkpoint
Check = Callable[[Path, bool], None]


class Output:
    """A file or folder that will be written.

    Entering claims it and finds out whether it can be written at all. What appears at its place during the work is never replaced
    unasked: the result is then kept beside it, under a name that the error gives.

    Parameters
    ----------
    target : Path
    check : function of a path and whether it may be replaced
        Refuses with ``InputError`` what must not be written there. Asked before the work and again at its end.
    force : bool
        Replace what ``check`` allows to be replaced.
    option : str
        The option that named ``target``, for messages.
    """

    def __init__(
        self, target: Path, check: Check, *, force: bool = False, option: str = "--out"
    ) -> None:
        self.shown, self.check, self.force, self.option = target, check, force, option
        self.target = target.resolve()
        self.claim = Claim(self.target, option)

    def __enter__(self) -> Output:
        self.check(self.shown, self.force)
        try:
            self.claim.take()
        except OSError as error:
            reason = (
                "there is no space left"
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else plain(error.strerror or error, 100)
            )
            raise InputError(
                f"{self.option}: {plain(self.target.parent, 200)} cannot be written to: {reason}"
            ) from error
        try:
            self.check(
                self.shown, self.force
            )  # cleaning up after a dead writer may have put its old result back
            self.need(_LEAST)
        except InputError:
            self.claim.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.claim.release()

    def need(self, size: float) -> None:
        """Refuse to begin where less than ``size`` bytes are free."""
        free = shutil.disk_usage(self.target.parent).free
        if free < size:
            room = f"{free / 2**20:,.1f} MB of space are left in {plain(self.target.parent, 200)}"
            raise InputError(
                f"{self.option}: only {room}, and the result takes at least {max(size, _LEAST) / 2**20:,.1f} MB"
            )

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder to fill."""
        partial = temporary(self.target.parent, self.claim.token)
        partial.mkdir()
        try:
            yield partial
            sync_tree(partial)
            self._publish(partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file to fill, empty yet."""
        partial = temporary(self.target.parent, self.claim.token)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield partial
            sync(partial)
            self._publish(partial)
        finally:
            if not partial.is_dir():
                partial.unlink(missing_ok=True)

    def _publish(self, partial: Path) -> None:
        """Move what was written to its place."""
        try:
            rename_new(partial, self.target)
        except FileExistsError:
            self._replace(partial)
        sync(self.target.parent)

    def _replace(self, partial: Path) -> None:
        try:
            self.check(self.target, self.force)
            old = exchange(partial, self.target)
        except InputError as error:
            self._keep(partial, error)
            return
        try:
            self.check(old, True)  # again, now that nobody can reach it by its name
        except InputError as error:
            self._keep(exchange(old, self.target), error)
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink()

    def _keep(self, partial: Path, error: InputError) -> None:
        """The place was taken during the work: keep the result under the next free name."""
        number = 1
        while True:
            beside = self.target.with_name(f"{self.target.name}.{number}")
            try:
                rename_new(partial, beside)
                break
            except FileExistsError:
                number += 1
        sync(self.target.parent)
        there = plain(self.shown, 200)
        raise InputError(
            f"{self.option}: {there} appeared meanwhile and is left as it is: the result lies in {plain(beside, 200)}"
        ) from error


def check_file(option: str) -> Check:
    """What refuses a file that exists (unless forced), and anything that is not a file (always)."""

    def check(path: Path, force: bool) -> None:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{option}: {plain(path, 200)} is not a file: choose another name")
        if os.path.lexists(path) and not force:
            raise InputError(
                f"{option}: {plain(path, 200)} exists: choose another name, or add --force to replace it"
            )
        if not path.parent.is_dir():
            raise InputError(
                f"{option}: there is no folder {plain(path.parent, 200)} to write into"
            )

    return check
