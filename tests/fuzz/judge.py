"""The contract as a judge of one call.

a valid answer, or an error or a warning that names what is wrong.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

LIMIT = 90  # seconds of processor time that one call may take, compilation among them
WALL = 10 * LIMIT  # seconds on the clock: a call that waits forever takes no processor time
OURS = ("EvidenceWarning", "ConvergenceWarning", "UserWarning", "FutureWarning")


class FindingError(AssertionError):
    """Something that the contract forbids."""


class _TooLongError(Exception):
    pass


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise in the middle of whatever takes longer."""

    def stop(*_: Any) -> None:
        raise _TooLongError

    before = {name: signal.signal(name, stop) for name in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    signal.setitimer(signal.ITIMER_REAL, WALL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for name, handler in before.items():
            signal.signal(name, handler)


def attempt(function: Callable[[], Any], *given: Any) -> Any:
    """What ``function()`` returns, or None after an error that is allowed; a finding otherwise."""
    before = [fingerprint(thing) for thing in given]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            with limited():
                answer = function()
        except _TooLongError:
            raise FindingError(f"took longer than {LIMIT} s") from None
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            _judge_error(error)
            answer = None
        except Exception as error:
            raise FindingError(f"{type(error).__name__}: {error}\n{_where(error)}") from error
    for warning in heard:
        if warning.category.__name__ not in OURS:
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            raise FindingError(f"leaked {warning.category.__name__} at {place}: {warning.message}")
    if [fingerprint(thing) for thing in given] != before:
        raise FindingError("the input was written to")
    return answer


def _judge_error(error: Exception) -> None:
    """An error must be raised by our own checks or by scikit-learn's, and say something."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    checked = any(part in last.filename for part in ("sklearn/utils", "sklearn/base"))
    raised = "sfumato" in last.filename and (last.line or "").startswith("raise")
    if not str(error).strip() or not (checked or raised):
        raise FindingError(f"bare {type(error).__name__}: {error}\n{_where(error)}") from error


def _where(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__)[-3:])


def valid_memberships(U: Any, name: str) -> None:
    """Finite, in [0, 1], rows that sum to one."""
    if U is None:
        return
    U = U.toarray() if sp.issparse(U) else np.asarray(U)
    tolerance = 1e-5 if U.dtype == np.float32 else 1e-9
    if not np.isfinite(U).all() or (U < 0).any() or (1 + tolerance < U).any():
        raise FindingError(f"{name} has entries outside [0, 1] or not finite")
    if U.size and np.abs(U.sum(axis=1) - 1).max() > tolerance:
        raise FindingError(f"{name} has rows that sum to {U.sum(axis=1).min()}")


def no_nan(answer: Any, name: str) -> None:
    """No number of an answer, or of its parts, is NaN (but of the records in a table of scores,
    where it means that there is none).
    """
    if isinstance(answer, (tuple, list)):
        for part in answer:
            if not isinstance(part, (tuple, list)):
                no_nan(part, name)
    elif isinstance(answer, (float, np.floating, np.ndarray)) or sp.issparse(answer):
        values = answer.data if sp.issparse(answer) else np.asarray(answer)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise FindingError(f"{name} is NaN")


def fingerprint(thing: Any) -> Any:
    """The numbers of an input, to see whether they were written to."""
    if isinstance(thing, np.ndarray):
        return thing.tobytes()
    if sp.issparse(thing):
        form = sp.coo_array(thing)
        return form.data.tobytes(), form.shape
    if hasattr(thing, "to_csv"):
        return thing.to_csv(), str(thing.dtypes)
    if isinstance(thing, (list, tuple)) and thing and isinstance(thing[0], np.ndarray):
        return [fingerprint(part) for part in thing]
    return copy.deepcopy(thing) if isinstance(thing, (list, tuple, dict)) else None
