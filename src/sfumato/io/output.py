"""Output that is written completely or not at all.

The output is claimed before the work begins, written under a temporary name, and renamed in one
step at the end. Files that this library did not write are never replaced, even if they appear late.

The claim is a lock file next to the output; the system releases it when its owner dies. Unfinished
files of a dead run carry a token made from the output's name, and are removed by the next run that
gets the lock.
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
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from ..array.text import plain
from .reading import InputError, extra

_LEAST = 2**20  # bytes that must be free before the work begins: a summary and a checkpoint
_REPLACED = ".replaced"  # suffix of files that were moved aside and may belong to somebody else
_NOREPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE and RENAME_EXCHANGE of Linux
_UNSUPPORTED = (
    errno.ENOSYS,
    errno.EINVAL,
    errno.ENOTSUP,
    errno.ENOLCK,
)  # errors of file systems without this call
Check = Callable[[Path, bool], None]


class Output:
    """A file or folder that will be written, claimed in advance.

    Entering the context claims it and checks that it can be written. If something else appears
    under its name during the work, it is not replaced: the result is kept under another name, which
    the error gives.

    Parameters
    ----------
    target : Path
    check : function of a path and whether it may be replaced
        Raises ``InputError`` if the output must not be written there. Called before the work and at
        its end.
    force : bool
        Replace existing output if ``check`` allows it.
    option : str
        Command-line option that set ``target``, for messages.
    """

    def __init__(
        self, target: Path, check: Check, *, force: bool = False, option: str = "--out"
    ) -> None:
        self.shown, self.check, self.force, self.option = target, check, force, option
        try:
            # Unlike ``resolve``, this accepts circular links, which ``check`` then refuses.
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
            # cleaning up after a dead run may have restored its old result
            self.check(self.shown, self.force)
            self.need(_LEAST)
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _claim(self) -> None:
        """Take the lock and clean up after dead runs; without support for locks, just go on."""
        _sweep(self.target.parent)
        if not _is_lock(self.lock_path):
            raise InputError(
                f"{self.option}: {plain(self.lock_path, 200)} is no lock of ours: remove it"
            )
        lock = _lock(self.lock_path)
        try:
            lock.acquire(timeout=0.5)  # another run may hold it for a moment while cleaning up
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
        """Release the lock; its file stays for the next run as long as unfinished files remain."""
        lock, self.lock = self.lock, None
        if lock is None:
            return
        try:
            if not _left_by(self.target):
                _remove(self.lock_path)
        finally:
            lock.release()

    def need(self, size: float) -> None:
        """Raise InputError if fewer than ``size`` bytes are free."""
        free = shutil.disk_usage(self.target.parent).free
        if free < size:
            raise InputError(
                f"{self.option}: only {free / 2**20:,.1f} MB of space are left in "
                f"{plain(self.target.parent, 200)}, and the result takes at least "
                f"{max(size, _LEAST) / 2**20:,.1f} MB"
            )

    def folder(self) -> AbstractContextManager[Path]:
        """A folder to fill."""
        return self._published(_partial(self.target.parent, self.token, folder=True))

    def file(self) -> AbstractContextManager[Path]:
        """An empty file to fill."""
        return self._published(_partial(self.target.parent, self.token))

    @contextmanager
    def _published(self, partial: Path) -> Iterator[Path]:
        """Rename the finished output to its final name; remove it if writing failed."""
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
        while True:  # other runs may add and remove files meanwhile
            try:
                rename_new(partial, self.target)
                break
            except FileExistsError:
                if self._replace(partial):
                    break
            except OSError:
                _remove(partial)
                raise
        sync(self.target.parent)

    def _replace(self, partial: Path) -> bool:
        """Replace the existing output if that is allowed; False if it is gone."""
        try:
            self.check(self.target, self.force)
        except FileNotFoundError:
            return False
        except InputError as error:
            raise self._kept(partial) from error
        # This name may belong to somebody else; whoever cleans up keeps such files.
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
            self.check(old, True)  # again, now that no one can reach it by its name
        except InputError as error:
            raise self._kept(exchange(old, self.target)) from error
        with suppress(OSError):
            old = old.rename(partial)
        _remove(old)
        return True

    def _kept(self, partial: Path) -> InputError:
        """Error for a name taken during the work; the result is kept under the next free name."""
        kept = _keep_under_free_name(partial, self.target, 1)
        appeared = f"{plain(self.shown, 200)} appeared meanwhile and is left as it is"
        return InputError(f"{self.option}: {appeared}: the result lies in {plain(kept, 200)}")


def _token(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _left_by(target: Path) -> list[Path]:
    """Unfinished files that earlier runs for ``target`` left."""
    return sorted(target.parent.glob(f".sfumato-{_token(target.name)}-*"), reverse=True)


def _lock(path: Path) -> Any:
    filelock = extra("filelock", "files are locked with filelock", "'sfumato[cli]'")
    # If a signal does not stop the work, another thread releases the lock.
    return filelock.FileLock(path, thread_local=False, fallback_to_soft=False)


def _is_lock(path: Path) -> bool:
    """Whether ``path`` may be a lock: it does not exist, or is an empty file or a symbolic link."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return True
    regular = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and not facts.st_size
    return regular or stat.S_ISLNK(facts.st_mode)


def _clean(target: Path) -> None:
    """Remove unfinished files of a dead run, but keep what it had moved aside."""
    for path in _left_by(target):
        if path.name.endswith(_REPLACED):
            _keep_under_free_name(path, target, 0)
        else:
            _remove(path)


def _sweep(folder: Path) -> None:
    """Clean up after every dead run in a folder: its lock is free and unfinished files remain."""
    for path in folder.glob(".*.lock"):
        target = folder / path.name[1 : -len(".lock")]
        if _left_by(target) and _is_lock(path):
            with suppress(OSError), _lock(path).acquire(blocking=False):
                _clean(target)
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or folder of this library; if that fails, the next run removes it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def check_file(option: str) -> Check:
    """A check that refuses existing files (unless forced) and everything that is not a file."""

    def check(path: Path, force: bool) -> None:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{option}: {plain(path, 200)} is not a file: choose another name")
        _check_free(path, force, option)

    return check


def check_folder(what: str, allowed: Callable[[Path], bool]) -> Check:
    """A check that refuses existing folders (unless forced) and folders with other files."""

    def check(path: Path, force: bool) -> None:
        if os.path.lexists(path) and not (path.is_dir() and all(map(allowed, path.iterdir()))):
            raise InputError(f"--out: {plain(path, 200)} is not {what}: choose another name")
        _check_free(path, force, "--out")

    return check


def _check_free(path: Path, force: bool, option: str) -> None:
    if os.path.lexists(path) and not force:
        raise InputError(f"{option}: {plain(path, 200)} exists: choose another, or add --force")
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no folder {plain(path.parent, 200)} to write into")


def sync(path: Path) -> None:
    """Wait until a file, or the listing of a folder, is on the disk."""
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
    """A new empty file or folder with a random name; ``token`` marks its owner."""
    path = parent / f".sfumato-{token}-{secrets.token_hex(8)}.partial"
    _take(path, folder)
    return path


def _take(path: Path, folder: bool) -> None:
    """Create an empty folder or file; raise FileExistsError if the name is taken."""
    if folder:
        path.mkdir()
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


@contextmanager
def whole_file(path: Path, token: str = "file") -> Iterator[Path]:
    """An empty file to fill; it replaces ``path`` on success and is removed on failure."""
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
    _take(target, folder)  # reserve the name: the rename replaces it
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # filled by another process
            raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
        target.rmdir() if folder else target.unlink()
        raise


def _keep_under_free_name(source: Path, target: Path, number: int) -> Path:
    """Rename ``source`` to the first free name of ``target``, ``target.1``, ``target.2``, ..."""
    while True:
        kept = target.with_name(f"{target.name}.{number}") if number else target
        try:
            rename_new(source, kept)
        except FileExistsError:
            number += 1
        else:
            sync(target.parent)
            return kept


def exchange(source: Path, target: Path) -> Path:
    """Swap ``source`` and ``target``; the path of the old ``target``. Raises FileNotFoundError if
    it is gone, FileExistsError if another file took its name.
    """
    if _renameat2(source, target, _EXCHANGE):
        return source
    aside = source.with_name(source.name + _REPLACED)
    target.rename(aside)
    try:
        rename_new(source, target)
    except OSError:
        if aside.is_dir() and not any(aside.iterdir()):  # an empty folder only reserves the name
            aside.rmdir()
        else:
            _keep_under_free_name(aside, target, 0)
        raise
    return aside


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _renameat2(source: Path, target: Path, flag: int) -> bool:
    """Rename in one system call; False if the kernel or file system does not support it."""
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
