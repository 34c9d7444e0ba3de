"""Output that is written completely or not at all.

Claimed before the work, written beside its place, moved there in one step at the end. Nothing that
is not ours is ever replaced, however late it came.

The claim is a lock file beside the output, which the system releases when its holder dies. What a
dead writer left half written bears a token made of the output's name, and is removed by the next
run that can take its lock.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from ..array.text import plain
from .reading import InputError, extra

_LEAST = 2**20  # bytes that must be free before any work begins: a summary and a checkpoint
_REPLACED = ".replaced"  # ends the name of what was moved aside and may be somebody's
_NOREPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE and RENAME_EXCHANGE of Linux
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.ENOLCK)  # of some file systems
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

    def __exit__(self, *_: object) -> None:
        self.release()

    def _claim(self) -> None:
        """Take the lock, and clean up after dead writers; go on where there are no locks."""
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
            if error.errno not in _UNSUPPORTED:
                raise
            _remove(self.lock_path)
            return
        self.lock = lock
        _clean(self.target)

    def release(self) -> None:
        """Let go of the lock. While something of ours is left, its file stays for the next run."""
        lock, self.lock = self.lock, None
        if lock is None:
            return
        try:
            if not _left_by(self.target):
                _remove(self.lock_path)
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
        with self._published(_partial(self.target.parent, self.token, folder=True)) as partial:
            yield partial

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file to fill, empty yet."""
        with self._published(_partial(self.target.parent, self.token)) as partial:
            yield partial

    @contextmanager
    def _published(self, partial: Path) -> Iterator[Path]:
        """Move what was written to its place, or remove it where writing failed."""
        try:
            yield partial
            for root, _, files in os.walk(partial):
                for name in files:
                    sync(Path(root, name))
                sync(Path(root))
            if partial.is_file():
                sync(partial)
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
        swapped = partial.rename(partial.with_name(partial.name + _REPLACED))
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
        beside = _keep_beside(partial, self.target, 1)
        appeared = f"{plain(self.shown, 200)} appeared meanwhile and is left as it is"
        return InputError(f"{self.option}: {appeared}: the result lies in {plain(beside, 200)}")


def _token(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _left_by(target: Path) -> list[Path]:
    """What writers of ``target`` have not moved to its place."""
    return sorted(target.parent.glob(f".sfumato-{_token(target.name)}-*"), reverse=True)


def _lock(path: Path) -> Any:
    filelock = extra("filelock", "files are locked with filelock", "'sfumato[cli]'")
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
    """Remove what a dead writer left half written; what it had moved aside may be somebody's."""
    for path in _left_by(target):
        if path.name.endswith(_REPLACED):
            _keep_beside(path, target, 0)
        else:
            _remove(path)


def _sweep(folder: Path) -> None:
    """Clean up after every dead writer in a folder: one whose lock is free and left something."""
    for path in folder.glob(".*.lock"):
        target = folder / path.name[1 : -len(".lock")]
        if _left_by(target) and _is_lock(path):
            with suppress(OSError), _lock(path).acquire(blocking=False):
                _clean(target)
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or folder of ours. One that cannot be removed now is by the next run."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def check_file(option: str) -> Check:
    """What refuses a file that exists (unless forced), and anything that is not a file (always)."""

    def check(path: Path, force: bool) -> None:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{option}: {plain(path, 200)} is not a file: choose another name")
        _check_free(path, force, option)

    return check


def check_folder(what: str, allowed: Callable[[Path], bool]) -> Check:
    """What refuses a folder that exists (unless forced), or holds other files (always)."""

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


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    folder = path.is_dir()
    if folder and sys.platform == "win32":  # folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not folder or error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)


def _partial(parent: Path, token: str, *, folder: bool = False) -> Path:
    """A new empty file or folder of an unpredictable name; ``token`` marks its owner."""
    path = parent / f".sfumato-{token}-{secrets.token_hex(8)}.partial"
    _take(path, folder)
    return path


def _take(path: Path, folder: bool) -> None:
    """Make an empty folder or file, or fail where the name is taken."""
    if folder:
        path.mkdir()
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


@contextmanager
def whole_file(path: Path, token: str = "file") -> Iterator[Path]:
    """An empty file to fill, which replaces ``path`` if all goes well, and vanishes if not."""
    partial = _partial(path.parent, token)
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except BaseException:
        _remove(partial)
        raise
    sync(path.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that must be free, or raise FileExistsError."""
    if _renameat2(source, target, _NOREPLACE):
        return
    folder = source.is_dir()
    _take(target, folder)  # the rename replaces what takes the name
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # somebody has filled it
            raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
        target.rmdir() if folder else target.unlink()
        raise


def _keep_beside(source: Path, target: Path, number: int) -> Path:
    """Rename ``source`` to the next free name: ``target`` (for 0), ``target.1``, ``target.2``."""
    while True:
        beside = target.with_name(f"{target.name}.{number}") if number else target
        try:
            rename_new(source, beside)
        except FileExistsError:
            number += 1
        else:
            sync(target.parent)
            return beside


def exchange(source: Path, target: Path) -> Path:
    """Put ``source`` in the place of ``target``; where the old ``target`` now lies.

    FileNotFoundError or FileExistsError where ``target`` is gone, or another is there, by the time.
    """
    if _renameat2(source, target, _EXCHANGE):
        return source
    aside = source.with_name(source.name + _REPLACED)
    target.rename(aside)
    try:
        rename_new(source, target)
    except OSError:
        if aside.is_dir() and not any(aside.iterdir()):  # only somebody's claim to the name
            aside.rmdir()
        else:
            _keep_beside(aside, target, 0)
        raise
    return aside


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _renameat2(source: Path, target: Path, flag: int) -> bool:
    """Rename in one step of the kernel; False where kernel or file system has no such step."""
    function = getattr(_libc(), "renameat2", None)
    if function is None:
        return False
    here = -100  # AT_FDCWD
    if function(here, os.fsencode(source), here, os.fsencode(target), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))
