"""Renames that never replace a file by accident, and data that are synchronised before a rename."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

REPLACED = ".replaced"  # ends the name of what was moved aside and may be somebody's

_NOREPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE and RENAME_EXCHANGE of Linux
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


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


def sync_tree(path: Path) -> None:
    """Wait until a file, or everything in a folder, is on the disk."""
    for root, _, files in os.walk(path):
        for name in files:
            sync(Path(root, name))
        sync(Path(root))
    if path.is_file():
        sync(path)


def temporary(folder: Path, token: str) -> Path:
    """An unpredictable name in ``folder``; ``token`` marks its owner."""
    return folder / f".sfumato-{token}-{secrets.token_hex(8)}.partial"


@contextmanager
def whole_file(path: Path, token: str = "file") -> Iterator[Path]:
    """A new empty file to fill, which replaces ``path`` when all went well and vanishes when it did
    not.
    """
    partial = temporary(path.parent, token)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    sync(path.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that must be free.

    FileExistsError where it is not, however late it was taken.
    """
    if _renameat2(source, target, _NOREPLACE):
        return
    # Take the name with an empty folder or file, or fail; the rename replaces that.
    if source.is_dir():
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # somebody has filled it
            raise FileExistsError(errno.EEXIST, "File exists", str(target)) from error
        target.rmdir() if source.is_dir() else target.unlink()
        raise


def keep_beside(source: Path, target: Path, *, or_there: bool = False) -> Path:
    """Rename ``source`` to the next free name beside ``target`` (its name and a number), or to
    ``target`` itself where that is free and allowed; gives the name it has now.
    """
    number = 0 if or_there else 1
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
    """Put ``source`` in the place of ``target``, and give the path where the old ``target`` now
    lies.

    FileNotFoundError or FileExistsError where ``target`` is gone, or another is there, by the time.
    """
    if _renameat2(source, target, _EXCHANGE):
        return source
    aside = source.with_name(source.name + REPLACED)
    target.rename(aside)
    try:
        rename_new(source, target)
    except OSError:
        if aside.is_dir() and not any(aside.iterdir()):  # only somebody's claim to the name
            aside.rmdir()
        else:
            keep_beside(aside, target, or_there=True)
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
