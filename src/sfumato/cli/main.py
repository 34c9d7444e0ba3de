"""Entry point: from arguments to an exit code, and what is said on the way.

0 done, 1 failed, 2 bad input, 3 not converged (--strict), 4 out of memory, 130 or 143 stopped.

After Ctrl-C and SIGTERM a command ends soon, keeps its checkpoint and shows no traceback. Both
raise ``KeyboardInterrupt``, but some libraries turn it into another error, and long calls delay it.
So any error after the signal counts as a stop, and if a call does not return in time, a second
thread saves the checkpoint and ends the process.

Results go to standard output, progress and remarks to standard error. Names are printed literally,
never as markup.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..array.text import plain

_rescue: Callable[[], str] | None = None


class NotConvergedError(Exception):
    """The search did not converge, and ``--strict`` was given."""


class StoppedError(Exception):
    """The user stopped the work; the message says how to resume it."""


class Stop:
    """Whether the work was stopped, and by which signal."""

    patience = 1.5  # seconds within which a stop should take effect

    def __init__(self) -> None:
        self.signal: int | None = None
        self.heard = threading.Event()

    @property
    def code(self) -> int:
        """The exit code that shells expect: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or signal.SIGINT)


_stop = Stop()


@contextmanager
def listening() -> Iterator[Stop]:
    """Context in which both signals stop the work; signals ignored before stay ignored."""
    global _stop
    _stop = stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def hear(number: int, frame: Any) -> None:
        stop.signal = number
        raise KeyboardInterrupt

    both = (signal.SIGINT, signal.SIGTERM)
    numbers = [each for each in both if signal.getsignal(each) not in (signal.SIG_IGN, None)]
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    earlier = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, hear) for number in numbers}
    watch = threading.Thread(target=_watch, args=(ours, stop, numbers), daemon=True)
    watch.start()
    try:
        yield stop
    finally:
        stop.heard.set()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier)
        theirs.close()
        watch.join()
        ours.close()


def _watch(ours: socket.socket, stop: Stop, numbers: list[int]) -> None:
    while received := ours.recv(1):
        if received[0] in numbers and not stop.heard.wait(stop.patience):
            try:
                text = "stopped" if _rescue is None else _rescue()
                print(f"sfumato: {text}", file=sys.stderr, flush=True)
            finally:
                os._exit(128 + received[0])


@contextmanager
def rescued(action: Callable[[], str]) -> Iterator[None]:
    """Context in which ``action`` is called if a stop does not take effect in time.

    It returns the message to show.
    """
    global _rescue
    earlier, _rescue = _rescue, action
    try:
        yield
    except KeyboardInterrupt:
        _stop.heard.set()
        raise
    finally:
        _rescue = earlier


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Context that reports a damaged file for errors that have no other cause."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        from ..io import InputError  # late: help does not need NumPy

        why = f"{type(error).__name__} {plain(error, 80)}"
        raise InputError(f"{what}, it may be damaged: {why}") from error


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
        raise ImportError(f"{error}: the command line needs pip install 'sfumato[cli]'") from error
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
    if isinstance(error, MemoryError):
        return _say(str(error) or "out of memory", 4)
    for kinds, code in ((NotConvergedError, 3), ((ValueError, TypeError), 2), (ImportError, 1)):
        if isinstance(error, kinds):
            return _say(str(error), code)
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


class Terminal:
    """Prints tables for people, or one JSON object for programs."""

    patience = 15.0  # seconds before the first progress line, if there is no bar

    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, to_errors: bool = False
    ) -> None:
        self.as_json, self.quiet, self.to_errors = as_json, quiet, to_errors
        self.warned: set[str] = set()

    def _console(self, *, errors: bool = False) -> Any:
        from rich.console import Console

        return Console(stderr=errors, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def table(
        self, title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 90
    ) -> None:
        """Print a table without empty columns; numbers are right-aligned, and long text is cut."""
        if self.as_json or self.quiet:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(plain(title, 100)), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        cells = [[_shown(value, width) for value in row] for row in rows]
        kept = [i for i in range(len(headings)) if any(row[i] is not None for row in rows)]
        for place in kept:
            numeric = all(re.fullmatch(r"–|-?[\d,]+(\.\d+)?", row[place]) for row in cells)
            justify: Any = "right" if numeric else "left"
            table.add_column(Text(plain(headings[place], 40)), justify=justify, overflow="fold")
        for row in cells:
            table.add_row(*(Text(row[place]) for place in kept))
        self._console(errors=self.to_errors).print(table)

    def say(self, text: str) -> None:
        """Print a line of the result."""
        if not (self.as_json or self.quiet):
            print(plain(text, 2000), file=sys.stderr if self.to_errors else sys.stdout)

    def remark(self, text: str) -> None:
        """Print a line about the work that is not part of the result."""
        if not self.quiet:
            print(f"sfumato: {plain(text, 500)}", file=sys.stderr)

    @contextmanager
    def heard(self) -> Iterator[list[str]]:
        """Collect and show warnings, in terms of the command line.

        Warnings of the structure test and of the search for a number are left to the verdict.
        """
        from ..engine.structure import PREFIX  # late: help does not need NumPy

        said: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
        judged = (PREFIX, "no number of clusters ")
        said += dict.fromkeys(
            _as_options(text)
            for warning in caught
            if issubclass(warning.category, UserWarning)
            and not (text := str(warning.message)).startswith(judged)
        )
        for text in said:
            if text not in self.warned:  # the search and the fit may both give this warning
                self.remark(f"warning: {text}")
            self.warned.add(text)

    def record(self, content: dict[str, Any]) -> None:
        """Print the result as JSON, if asked for."""
        if self.as_json:
            print(json.dumps(content, indent=2))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[..., None]]:
        """A function ``advance(share, text)``: a bar on a terminal, else a line now and then."""
        if self.quiet or not sys.stderr.isatty():
            yield self._lines(what)
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console(errors=True), transient=True) as bar:
            task = bar.add_task(what, total=1.0, text="")
            yield lambda share, text="": bar.update(task, completed=share, text=text)
            bar.update(task, completed=1.0)

    def _lines(self, what: str) -> Callable[..., None]:
        """Progress lines after increasing pauses, so that logs stay short."""
        began, pause = time.monotonic(), self.patience

        def advance(share: float, text: str = "") -> None:
            nonlocal pause
            passed = time.monotonic() - began
            if passed >= pause:
                self.remark(f"{what}: {share:.0%}{', ' * bool(text)}{text} ({passed:.0f} s)")
                pause = 2 * passed

        return advance


def finite(value: Any) -> Any:
    """``value``, or None for NaN and infinity, as JSON needs it."""
    return value if math.isfinite(value) else None


def _as_options(text: str) -> str:
    """A message in which model parameters are replaced by the options that set them."""
    options = {"n_clusters": "--clusters ", "random_state": "--seed "}
    options["similarity"] = "--similarity "
    set_by = re.compile(r"(?<![\w.(-])([a-z]+(?:_[a-z]+)*)=(\"[^\"]*\"|'[^']*'|[\w.]+)")
    named = set_by.sub(lambda m: options.get(m[1], f"--set {m[1]}=") + m[2].strip("\"'"), text)
    return re.sub(r"\bn_clusters\b", "--clusters", named)


def _shown(value: object, width: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return plain(value, width)
