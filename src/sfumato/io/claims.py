"""Locks on output: a lock file beside the output, held from before the work until its end."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..array.text import plain
from . import locks
from ._tables import InputError
from .moving import keep_beside

__all__ = ["Claim"]

_LENGTH = 1024  # bytes of a record, blanks at its end
_TRIES, _PAUSE = 6, 0.1  # another run may hold a lock for a moment, to see whether its writer lives


class Claim:
    """The right of this process to write ``target``; refused while another process has it.

    The lock is a small file beside ``target`` that names the writer. The system releases it when
    the writer dies, so a lock that can be taken is that of a dead writer, and what that writer left
    half written, under names that bear its token, is removed.
    """

    def __init__(self, target: Path, option: str) -> None:
        self.target, self.option, self.token = target, option, secrets.token_hex(8)
        self.path = target.with_name(f".{target.name}.lock")
        self.since = datetime.now(UTC).isoformat(timespec="seconds")
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock. Where the file system has none, go on without: nothing is replaced unasked
        in any case.
        """
        _sweep(self.target.parent)
        for left in reversed(range(_TRIES)):
            handle = self._open()
            try:
                state = _try(handle, self.path)
                if state == "ours":
                    self._begin(handle)
                    self._handle = handle
                if state == "none" and not os.fstat(handle).st_size:
                    with suppress(OSError):
                        self.path.unlink()
                if state == "theirs" and not left:
                    self._refuse(handle)
            finally:
                if self._handle is None:
                    os.close(handle)
            if state != "theirs":
                return
            time.sleep(_PAUSE)

    def _begin(self, handle: int) -> None:
        """Clean up after the writer that left this lock, and put our name in it."""
        _clean(_record(handle, self.path, self.option), self.target)
        try:
            self._sign(handle, None)
        except OSError:
            with suppress(OSError):  # where open files stay, the next run removes it
                self.path.unlink(missing_ok=True)
            raise

    def _sign(self, handle: int, moving: str | None) -> None:
        record = {
            "sfumato": "is writing",
            "target": self.target.name,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": self.since,
            "token": self.token,
            "moving": moving,
        }
        locks.write(handle, json.dumps(record).encode().ljust(_LENGTH))

    def note(self, moving: Path | None) -> None:
        """Note that ``moving`` may hold what somebody else put in the target's place: whoever
        cleans up after us must not remove it.
        """
        if self._handle is not None:
            self._sign(self._handle, None if moving is None else moving.name)

    def release(self) -> None:
        """Let go of the lock. While something of ours is left, its record stays for the next
        run.
        """
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        left = True
        try:
            left = any(self.target.parent.glob(f".sfumato-{self.token}-*"))
        except OSError:
            return
        finally:
            _close(handle, None if left else self.path)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | locks.binary | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.path, flags, 0o644)
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            os.close(handle)
            raise InputError(
                f"{self.option}: {plain(self.path, 200)} is not a lock of this program: remove it"
            )
        return handle

    def _refuse(self, handle: int) -> None:
        held = _parsed(locks.read(handle, 4096)) or {}
        who = (
            f"process {held.get('pid', '?')} on "
            f"{plain(held.get('host', 'an unknown machine'), 40)} since {held.get('since', '?')}"
        )
        raise InputError(
            f"{self.option}: {plain(self.target, 200)} is being written by {plain(who, 120)}: "
            "wait, or choose another name"
        )


def _try(handle: int, path: Path) -> str:
    """Try to lock: "ours", "theirs", or "none" where there are no locks."""
    locked = locks.try_lock(handle)
    if locked is None:
        return "none"
    # Its owner may have let go, and taken the file along.
    return "ours" if locked and _is_at(handle, path) else "theirs"


def _close(handle: int, path: Path | None) -> None:
    """Let go of a lock and remove its file: at once, or where open files stay, after closing it."""
    try:
        if path is not None:
            path.unlink(missing_ok=True)
            path = None
    except OSError:
        pass
    finally:
        os.close(handle)
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


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
    content = locks.read(handle, 4096)
    record = _parsed(content)
    if content.strip(b"\x00") and record is None:
        raise InputError(f"{option}: {plain(path, 200)} is not a lock of this program: remove it")
    return record


def _clean(record: dict[str, Any] | None, target: Path) -> None:
    """Remove what a dead writer left half written. What it had moved aside to make room goes back
    where it was, or beside: it may be somebody's.
    """
    if record is None:
        return
    for path in sorted(target.parent.glob(f".sfumato-{record['token']}-*"), reverse=True):
        if path.name.removesuffix(".replaced") == record.get("moving"):
            keep_beside(path, target, or_there=True)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Clean up after every dead writer in a folder.

    Its lock is ours to take, and holds our record.
    """
    if not locks.there_are_locks():
        return
    for path in folder.glob(".*.lock"):
        try:
            handle = os.open(
                path,
                os.O_RDWR
                | locks.binary
                | getattr(os, "O_NOFOLLOW", 0)
                | getattr(os, "O_NONBLOCK", 0),
            )
        except OSError:
            continue
        done = None
        try:
            regular = stat.S_ISREG(os.fstat(handle).st_mode)
            ours = regular and locks.try_lock(handle)
            record = _parsed(locks.read(handle, 4096)) if ours else None
            if (
                record is not None
                and path.name == f".{record.get('target')}.lock"
                and _is_at(handle, path)
            ):
                _clean(record, folder / str(record["target"]))
                done = path
        except OSError:
            continue
        finally:
            _close(handle, done)
