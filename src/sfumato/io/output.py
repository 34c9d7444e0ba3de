"""Output that is written completely or not at all.

Claimed before the work, written beside its place, moved there in one step at the end.

The claim is a lock file beside the output, which the system releases when its holder dies. What a
dead writer left half written bears a token made of the output's name, and is removed by the next
run that can take its lock.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ..array.text import plain
from .moving import REPLACED, exchange, keep_beside, rename_new, sync, sync_tree, temporary
from .reading import InputError

_LEAST = 2**20  # bytes that must be free before any work begins: a summary and a checkpoint
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP)  # of file systems without them
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
            raise InputError(f"{option}: the folder you are in is gone") from error
        self.lock_path = self.target.with_name(f".{self.target.name}.lock")
        self.token = _token(self.target.name)
        self.lock: Any = None

    def __enter__(self) -> Output:
        self.check(self.shown, self.force)
        try:
            self._claim()
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "there is no space left" if full else plain(error.strerror or error, 100)
            raise InputError(
                f"{self.option}: {plain(self.target.parent, 200)} cannot be written to: {reason}"
            ) from error
        try:
            # cleaning up after a dead writer may have put its old result back
            self.check(self.shown, self.force)
            self.need(_LEAST)
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _claim(self) -> None:
        """Take the lock, and clean up after dead writers."""
        _sweep(self.target.parent)
        if not _is_lock(self.lock_path):
            raise InputError(
                f"{self.option}: {plain(self.lock_path, 200)} is not a lock of this program: "
                "remove it"
            )
        lock = _lock(self.lock_path)
        try:
            lock.acquire(timeout=0.5)  # another run may hold it for a moment, to clean up
        except TimeoutError:
            raise InputError(
                f"{self.option}: {plain(self.target, 200)} is being written by another process: "
                "wait, or choose another name"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _unlink(self.lock_path)
            return
        self.lock = lock
        _clean(self.target)

    def release(self) -> None:
        """Let go of the lock. While something of ours is left, its file stays for the next run."""
        lock, self.lock = self.lock, None
        if lock is None:
            return
        try:
            if not any(self.target.parent.glob(f".sfumato-{self.token}-*")):
                _unlink(self.lock_path)
        finally:
            lock.release()

    def need(self, size: float) -> None:
        """Refuse to begin where less than ``size`` bytes are free."""
        free = shutil.disk_usage(self.target.parent).free
        if free < size:
            raise InputError(
                f"{self.option}: only {free / 2**20:,.1f} MB of space are left in "
                f"{plain(self.target.parent, 200)}, and the result takes at least "
                f"{max(size, _LEAST) / 2**20:,.1f} MB"
            )

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder to fill."""
        partial = temporary(self.target.parent, self.token)
        partial.mkdir()
        with self._published(partial):
            yield partial

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file to fill, empty yet."""
        partial = temporary(self.target.parent, self.token)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        with self._published(partial):
            yield partial

    @contextmanager
    def _published(self, partial: Path) -> Iterator[None]:
        """Move what was written to its place, or remove it where writing failed."""
        try:
            yield
            sync_tree(partial)
        except BaseException:
            _remove(partial)
            raise
        try:
            while not self._place(partial):
                pass  # others come and go there meanwhile
        except OSError:
            _remove(partial)
            raise
        sync(self.target.parent)

    def _place(self, partial: Path) -> bool:
        """Take the place if it is free, or what is there may go; whether that was so."""
        try:
            rename_new(partial, self.target)
        except FileExistsError:
            return self._replace(partial)
        return True

    def _replace(self, partial: Path) -> bool:
        """Take the place of what is there, if that may go; whether it was still there."""
        try:
            self.check(self.target, self.force)
        except FileNotFoundError:
            return False
        except InputError as error:
            raise self._kept(partial) from error
        # What bears this name may be somebody's: whoever cleans up after us keeps it.
        swapped = partial.rename(partial.with_name(partial.name + REPLACED))
        try:
            old = exchange(swapped, self.target)
        except (FileNotFoundError, FileExistsError):
            swapped.rename(partial)
            return False
        except OSError:
            _remove(swapped)
            raise
        try:
            self.check(old, True)  # again, now that nobody can reach it by its name
        except InputError as error:
            raise self._kept(exchange(old, self.target)) from error
        with suppress(OSError):
            old = old.rename(partial)
        _remove(old)
        return True

    def _kept(self, partial: Path) -> InputError:
        """The place was taken during the work: keep the result under the next free name."""
        beside = keep_beside(partial, self.target)
        appeared = f"{plain(self.shown, 200)} appeared meanwhile and is left as it is"
        return InputError(f"{self.option}: {appeared}: the result lies in {plain(beside, 200)}")


def _token(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _lock(path: Path) -> Any:
    try:
        import filelock
    except ImportError as error:
        raise ImportError("files are locked with filelock: pip install 'sfumato[cli]'") from error
    # Another thread releases it where a signal does not stop the work.
    return filelock.FileLock(path, thread_local=False, fallback_to_soft=False)


def _is_lock(path: Path) -> bool:
    """Whether a lock can be there: our locks are empty files. A link is left to the system."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return True
    regular = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and not facts.st_size
    return regular or stat.S_ISLNK(facts.st_mode)


def _clean(target: Path) -> None:
    """Remove what a dead writer of ``target`` left half written."""
    for path in sorted(target.parent.glob(f".sfumato-{_token(target.name)}-*"), reverse=True):
        if path.name.endswith(REPLACED):
            keep_beside(path, target, or_there=True)
        else:
            _remove(path)


def _sweep(folder: Path) -> None:
    """Clean up after every dead writer in a folder: one whose lock is free and left something."""
    for path in folder.glob(".*.lock"):
        target = folder / path.name[1 : -len(".lock")]
        if not any(folder.glob(f".sfumato-{_token(target.name)}-*")) or not _is_lock(path):
            continue
        with suppress(OSError), _lock(path).acquire(blocking=False):
            _clean(target)
            _unlink(path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove(path: Path) -> None:
    """Remove a file or folder of ours. One that cannot be removed now is by the next run."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        _unlink(path)


def check_file(option: str) -> Check:
    """What refuses a file that exists (unless forced), and anything that is not a file (always)."""

    def check(path: Path, force: bool) -> None:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{option}: {plain(path, 200)} is not a file: choose another name")
        _check_free(path, force, option)

    return check


def check_folder(what: str, allowed: Callable[[Path], bool]) -> Check:
    """What refuses a folder that exists (unless forced), and one that holds anything but files
    that are ``allowed`` (always).
    """

    def check(path: Path, force: bool) -> None:
        if os.path.lexists(path) and not (path.is_dir() and all(map(allowed, path.iterdir()))):
            raise InputError(
                f"--out: {plain(path, 200)} exists and is not {what}: choose another name"
            )
        _check_free(path, force, "--out")

    return check


def _check_free(path: Path, force: bool, option: str) -> None:
    if os.path.lexists(path) and not force:
        raise InputError(
            f"{option}: {plain(path, 200)} exists: choose another name, or add --force to "
            "replace it"
        )
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no folder {plain(path.parent, 200)} to write into")
