"""A command in a process of its own that is killed at a moment made to order.

Started from a clean fork server.
"""

import multiprocessing
import os
import sys
import time

import faults
from sfumato import report
from sfumato.cli import main
from sfumato.io import results

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "sfumato.cli.app",
        "sfumato.cli.fitting",
        "sfumato.cli.summary",
        "sfumato.report",
        "skops.io",
        "sfumato.native.kmeans",
        "rich.console",
        "sklearn.cluster",
    ]
)


def _command(folder, words, place):
    os.chdir(folder)
    sys.stderr = open("stderr", "w")  # noqa: SIM115 (for the life of the process)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    results.Checkpoint.__init__.__kwdefaults__["every"] = 0.0
    report.write = lambda path, *_, **__: path.write_text("<html>")
    faults.watch_the_rest(setattr)
    with faults.fault(folder, place, faults.kill) as writes:
        code = main(words)
    with open("writes", "w") as file:
        file.write(str(writes.seen))
    sys.stderr.flush()
    os._exit(code)


def killed(folder, words, *, place=10**9, after=None):
    """Run ``sfumato WORDS`` in ``folder`` and kill it at its write number ``place``, or some
    seconds after it began to write; the exit code, negative for a signal.
    """
    process = _CONTEXT.Process(target=_command, args=(str(folder), [*map(str, words)], place))
    process.start()
    if after is not None:
        before = set(os.listdir(folder))
        while process.is_alive() and set(os.listdir(folder)) <= before | {"stderr", "writes"}:
            time.sleep(0.002)
        time.sleep(after)
        process.kill()  # it may be over already
    process.join()
    code = process.exitcode
    process.close()
    return code
