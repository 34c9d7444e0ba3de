"""A lock on an open file, which the system releases when its holder dies."""

from __future__ import annotations

import errno
import os
from types import ModuleType

fcntl: ModuleType | None
msvcrt: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None

__all__ = ["binary", "read", "there_are_locks", "try_lock", "write"]

PLACE = 2**30  # the byte locked on Windows, far behind the record: nobody may read what is locked
binary = getattr(os, "O_BINARY", 0)  # how a file is opened whose bytes are to stay as they are


def there_are_locks() -> bool:
    """Whether this system has locks that we know of."""
    return fcntl is not None or msvcrt is not None


def try_lock(handle: int) -> bool | None:
    """Whether the lock is ours now; None where the system or the file system has none."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            os.lseek(handle, PLACE, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            return None
    except OSError as error:
        held = isinstance(error, BlockingIOError) or error.errno in (errno.EACCES, errno.EDEADLK)
        return False if held else None
    return True


def read(handle: int, size: int) -> bytes:
    """The first bytes of the file."""
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, size)


def write(handle: int, content: bytes) -> None:
    """The file with this content, in one go over a content of the same length."""
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, content)
    os.ftruncate(handle, len(content))
    os.fsync(handle)
