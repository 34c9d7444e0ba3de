"""Long calls into libraries that do not react to Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
TURN = 0.1  # seconds between two checks for an interrupt


def waited(function: Callable[..., T], *arguments: Any) -> T:
    """``function(*arguments)``, computed in a thread of its own.

    The main thread waits for Ctrl-C meanwhile.

    An interrupt takes effect at once; the call itself goes on in its thread until it ends. The
    function must release Python's lock, as NumPy's linear algebra does.
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
