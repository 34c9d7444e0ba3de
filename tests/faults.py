"""Faults made to order: the n-th thing that writes below a folder fails, or kills the process.

An audit hook sees every file opened for writing and every rename, link and removal, whoever asks
for it; what it does not see (waiting for the disk, renames of the kernel) reports here itself.
"""

import os
import signal
import sys

from sfumato.io import output

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EVENTS = ("os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.truncate")
_plan = {"root": None, "left": 0, "action": None}


def _below(path):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    return os.path.abspath(os.fsdecode(path)).startswith(_plan["root"])


def _writes(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writing = (
            any(c in mode for c in "wax+") if isinstance(mode, str) else (flags or 0) & _WRITING
        )
        return bool(writing) and _below(path)
    return event in _EVENTS and any(_below(argument) for argument in arguments)


def _count():
    _plan["left"] -= 1
    if _plan["left"] == 0:
        _plan["action"]()


def _hook(event, arguments):
    if _plan["root"] is not None and _writes(event, arguments):
        _count()


sys.addaudithook(_hook)


def watch_the_rest(patch):
    """Have fsync and the renames of the kernel count too.

    ``patch(module, name, function)`` sets them.
    """
    fsync, rename = os.fsync, output._renameat2

    def synced(handle):
        if _plan["root"] is not None:
            _count()
        return fsync(handle)

    def renamed(*arguments):
        if _plan["root"] is not None:
            _count()
        return rename(*arguments)

    patch(os, "fsync", synced)
    patch(output, "_renameat2", renamed)


class fault:
    """Within this context the n-th write below ``root`` meets ``action``.

    ``.met`` says whether it came to that, ``.seen`` how many writes there were.
    """

    def __init__(self, root, n, action):
        self.root, self.n, self.action = os.path.abspath(root), n, action

    def __enter__(self):
        _plan.update(root=self.root, left=self.n, action=self.action)
        return self

    def __exit__(self, *_):
        self.met, self.seen = _plan["left"] <= 0, self.n - _plan["left"]
        _plan.update(root=None)


def raising(make):
    """An action that raises what ``make()`` gives."""

    def action():
        raise make()

    return action


def kill():
    """An action that ends this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)
