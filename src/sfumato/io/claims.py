"""Who is writing what: a lock beside the output, held from before the work until its end."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.text import plain
from ._tables import InputError
from .moving import rename_new

try:
    import fcntl
except ImportError:  # Windows: no lock there, but nothing is replaced unasked
    fcntl = None  # type: ignore[assignment]

__all__ = ["Claim"]

_TRIES, _PAUSE = 6, 0.1  # another run may hold a lock for a moment, to see whether its writer lives


class Claim:
    """The right of this process to write ``target``; refused while another process has it.

    The lock is a small file beside ``target`` that names the writer. The system lets go of it when the writer dies, so a lock that can
    be taken is the lock of a dead writer, and what that writer left half written, under names that bear its token, is removed.
    """

    def __init__(self, target: Path, option: str) -> None:
        self.target, self.option, self.token = target, option, secrets.token_hex(8)
        self.path = target.with_name(f".{target.name}.lock")
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock. Where the file system has none, go on without: nothing is replaced unasked in any case."""
        _sweep(self.target.parent)
        for left in reversed(range(_TRIES)):
            handle = self._open()
            try:
                state = _try(handle, self.path)
                if state == "ours":
                    self._sign(handle)
                    self._handle = handle
                    return
                if state == "none":
                    self.path.unlink(missing_ok=True)
                    return
                if not left:
                    self._refuse(handle)
            finally:
                if self._handle is None:
                    os.close(handle)
            time.sleep(_PAUSE)

    def _sign(self, handle: int) -> None:
        """Clean up after the writer that left this lock, and put our name in it."""
        _clean(_record(handle, self.path, self.option), self.target)
        record = {
            "sfumato": "is writing",
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "token": self.token,
        }
        record |= {
            "target": self.target.name,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(handle, 0)
        try:
            os.pwrite(handle, json.dumps(record).encode(), 0)
            os.fsync(handle)
        except OSError:
            self.path.unlink(missing_ok=True)
            raise

    def release(self) -> None:
        """Let go of the lock."""
        if self._handle is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            os.close(handle)
            raise InputError(
                f"{self.option}: {plain(self.path, 200)} is not a lock of this program: remove it"
            )
        return handle

    def _refuse(self, handle: int) -> None:
        held = _parsed(os.pread(handle, 4096, 0)) or {}
        who = f"process {held.get('pid', '?')} on {plain(held.get('host', 'an unknown machine'), 40)} since {held.get('since', '?')}"
        raise InputError(
            f"{self.option}: {plain(self.target, 200)} is being written by {plain(who, 120)}: wait, or choose another name"
        )


def _try(handle: int, path: Path) -> str:
    """Try to lock: "ours", "theirs", or "none" where there are no locks."""
    if fcntl is None:
        return "none"
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "theirs"
    except OSError:
        return "none"
    return (
        "ours" if _is_at(handle, path) else "theirs"
    )  # its owner may have let go, and taken the file along


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _parsed(content: bytes) -> dict[str, Any] | None:
    """The record in a lock, or nothing where it is not ours."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    fits = (
        isinstance(record, dict)
        and record.get("sfumato") == "is writing"
        and re.fullmatch("[0-9a-f]{16}", str(record.get("token")))
    )
    return record if fits else None


def _record(handle: int, path: Path, option: str) -> dict[str, Any] | None:
    content = os.pread(handle, 4096, 0)
    record = _parsed(content)
    if content.strip(b"\x00") and record is None:
        raise InputError(f"{option}: {plain(path, 200)} is not a lock of this program: remove it")
    return record


def _clean(record: dict[str, Any] | None, target: Path) -> None:
    """Remove what a dead writer left half written; what it had moved aside to make room goes back where it was."""
    if record is None:
        return
    for path in target.parent.glob(f".sfumato-{record['token']}-*.replaced"):
        if not os.path.lexists(target):
            rename_new(path, target)
    for path in target.parent.glob(f".sfumato-{record['token']}-*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Clean up after every dead writer in a folder: its lock is ours to take, and holds our record."""
    if fcntl is None:
        return
    for path in folder.glob(".*.lock"):
        try:
            handle = os.open(
                path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            )
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            record = (
                _parsed(os.pread(handle, 4096, 0))
                if stat.S_ISREG(os.fstat(handle).st_mode)
                else None
            )
            if (
                record is not None
                and path.name == f".{record.get('target')}.lock"
                and _is_at(handle, path)
            ):
                _clean(record, folder / str(record["target"]))
                path.unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(handle)
