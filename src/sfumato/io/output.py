"""Output that is written completely or not at all.

Claimed before the work, written beside its place, moved there in one step at the end.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from ..array.text import plain
from ._tables import InputError
from .claims import Claim
from .moving import exchange, keep_beside, rename_new, sync, sync_tree, temporary

__all__ = ["Output", "check_file"]

_LEAST = 2**20  # bytes that must be free before any work begins: a summary, a lock and a checkpoint
_TRIES = 100  # to take the place of something that others keep replacing
Check = Callable[[Path, bool], None]


class Output:
    """A file or folder that will be written.

    Entering claims it and finds out whether it can be written at all. What appears at its place
    during the work is never replaced unasked: the result is then kept beside it, under a name that
    the error gives.

    Parameters
    ----------
    target : Path
    check : function of a path and whether it may be replaced
        Refuses with ``InputError`` what must not be written there. Asked before the work and again
        at its end.
    force : bool
        Replace what ``check`` allows to be replaced.
    option : str
        The option that named ``target``, for messages.
    """

    def __init__(
        self, target: Path, check: Check, *, force: bool = False, option: str = "--out"
    ) -> None:
        self.shown, self.check, self.force, self.option = target, check, force, option
        try:
            # Unlike ``resolve`` it takes links in a circle, which ``check`` then refuses.
            self.target = Path(os.path.realpath(target))
        except FileNotFoundError as error:
            raise InputError(
                f"{option}: the folder you are in is gone: change to another one"
            ) from error
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
            # cleaning up after a dead writer may have put its old result back
            self.check(self.shown, self.force)
            self.need(_LEAST)
        except BaseException:
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
                f"{self.option}: only {room}, and the result takes at least "
                f"{max(size, _LEAST) / 2**20:,.1f} MB"
            )

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder to fill."""
        partial = temporary(self.target.parent, self.claim.token)
        partial.mkdir()
        try:
            yield partial
            sync_tree(partial)
        except BaseException:
            _remove(partial)
            raise
        self._publish(partial)

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file to fill, empty yet."""
        partial = temporary(self.target.parent, self.claim.token)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield partial
            sync(partial)
        except BaseException:
            _remove(partial)
            raise
        self._publish(partial)

    def _publish(self, partial: Path) -> None:
        """Move what was written to its place; others may come and go there meanwhile."""
        for _ in range(_TRIES):
            try:
                rename_new(partial, self.target)
            except FileExistsError:
                if not self._replace(partial):
                    continue
            except OSError:
                _remove(partial)
                raise
            sync(self.target.parent)
            return
        raise self._kept(partial)

    def _replace(self, partial: Path) -> bool:
        """Take the place of what is there, if that may go; whether it was still there."""
        try:
            self.check(self.target, self.force)
        except FileNotFoundError:
            return False
        except InputError as error:
            raise self._kept(partial) from error
        try:
            self.claim.note(partial)
        except OSError:
            _remove(partial)
            raise
        try:
            old = exchange(partial, self.target)
        except (FileNotFoundError, FileExistsError):
            self.claim.note(None)
            return False
        try:
            self.check(old, True)  # again, now that nobody can reach it by its name
        except InputError as error:
            raise self._kept(exchange(old, self.target)) from error
        with suppress(
            OSError
        ):  # a note that stays costs a name beside, where the removal fails too
            self.claim.note(None)
        _remove(old)
        return True

    def _kept(self, partial: Path) -> InputError:
        """The place was taken during the work: keep the result under the next free name."""
        beside = keep_beside(partial, self.target)
        appeared = f"{plain(self.shown, 200)} appeared meanwhile and is left as it is"
        return InputError(f"{self.option}: {appeared}: the result lies in {plain(beside, 200)}")


def _remove(path: Path) -> None:
    """Remove a file or folder of ours.

    One that cannot be removed now is removed by the next run.
    """
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def check_file(option: str) -> Check:
    """What refuses a file that exists (unless forced), and anything that is not a file (always)."""

    def check(path: Path, force: bool) -> None:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{option}: {plain(path, 200)} is not a file: choose another name")
        if os.path.lexists(path) and not force:
            raise InputError(
                f"{option}: {plain(path, 200)} exists: choose another name, or add --force to "
                "replace it"
            )
        if not path.parent.is_dir():
            raise InputError(
                f"{option}: there is no folder {plain(path.parent, 200)} to write into"
            )

    return check
