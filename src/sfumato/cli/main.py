"""Entry point: from arguments to an exit code.

0 done, 1 failed, 2 bad input, 3 not converged (--strict), 4 out of memory, 130 or 143 stopped.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from ..array.text import plain
from .stopping import NotConvergedError, StoppedError, listening


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    _open_streams()
    with listening() as stop:
        try:
            return _run(words)
        except BaseException as error:
            stop.heard.set()
            if debug and not isinstance(error, SystemExit):
                import traceback

                traceback.print_exc()
            ends = isinstance(error, (KeyboardInterrupt, StoppedError))
            if stop.signal is not None or ends or type(error).__name__ == "Abort":
                said = str(error) if isinstance(error, StoppedError) else ""
                return _say(said or "stopped", stop.code)
            return _explain(error)


def _open_streams() -> None:
    """Make standard streams accept all characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run(words: list[str]) -> int:
    try:
        from .app import app
    except ImportError as error:
        raise ImportError(
            f"{error}: the command line needs more packages, pip install 'sfumato[cli]'"
        ) from error
    code = int(app(words or ["--help"], standalone_mode=False, prog_name="sfumato") or 0)
    if code == 130:
        raise StoppedError
    return code


def _explain(error: BaseException) -> int:
    """Print one line on standard error; returns the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if hasattr(error, "format_message"):
        return _say(error.format_message(), getattr(error, "exit_code", 2))
    if isinstance(error, NotConvergedError):
        return _say(str(error), 3)
    if isinstance(error, MemoryError):
        return _say(str(error) or "out of memory", 4)
    if isinstance(error, (ValueError, TypeError)):
        return _say(str(error), 2)
    if isinstance(error, ImportError):
        return _say(str(error), 1)
    if isinstance(error, OSError) and error.strerror:
        # A name that the system does not accept is bad input; other system errors are failures.
        code = 2 if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR) else 1
        name = f": {plain(error.filename, 200)}" if error.filename else ""
        return _say(error.strerror + name, code)
    return _say(f"{type(error).__name__}: {error} (--debug shows the traceback)", 1)


def _say(text: str, code: int) -> int:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = plain(lines[0] if lines else "no reason given", 500)
    print(f"sfumato: {'' if code > 128 else 'error: '}{said}", file=sys.stderr)
    return code
