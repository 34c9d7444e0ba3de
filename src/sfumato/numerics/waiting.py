"""Long calls into libraries that do not react to Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["waited"]

T = TypeVar("T")
TURN = 0.1  # seconds between two looks at whether a stop was asked for


def waited(function: Callable[..., T], *arguments: Any) -> T:
    """``function(*arguments)``, computed in a thread of its own.

    The main thread waits for Ctrl-C meanwhile.

    A stop takes effect at once; the call ends by itself, or with the process.
    The function must release Python's lock, as NumPy's linear algebra does.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    answer: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(function(*arguments))
        except BaseException as error:  # raised again below
            failure.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(TURN)
    if failure:
        raise failure[0]
    return answer[0]
