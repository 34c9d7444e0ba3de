"""Run random calls for some time; print the seed of every finding, so that it can be run again.

python -m fuzz --seconds 600          a run, seeds from the clock
python -m fuzz --cases 300 --seed 7   a number of cases that does not depend on the machine
python -m fuzz --seconds 300 --hard   what is odd and yet not refused at once, much more often
python -m fuzz --case 123456          one case again, with its traceback (--hard as it was found)
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import sys
import time
import traceback

import numpy as np

from .commands import command
from .functions import function, search
from .hard import Hard
from .judge import FindingError
from .pictures import picture
from .targets import estimator

WEIGHTS = {estimator: 0.6, function: 0.26, search: 0.06, picture: 0.05, command: 0.03}
NEEDED = {command: "typer", picture: "matplotlib"}  # without its extra it is not there
for target, module in NEEDED.items():
    if importlib.util.find_spec(module) is None:
        WEIGHTS[function] += WEIGHTS.pop(target)


def run_case(seed: int, hard: bool = False) -> str:
    """One random call; what it was."""
    rng = Hard(seed) if hard else np.random.default_rng(seed)
    target = list(WEIGHTS)[int(rng.choice(len(WEIGHTS), p=list(WEIGHTS.values())))]
    return target(rng)


def main() -> int:
    """Exit code 1 if the contract was broken."""
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--case", type=int)
    parser.add_argument("--hard", action="store_true")
    options = parser.parse_args()
    if options.case is not None:
        print(run_case(options.case, options.hard))
        return 0
    seconds = options.seconds if options.cases == sys.maxsize else np.inf
    print(f"seed {options.seed}", flush=True)
    end, cases, findings = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end and cases < options.cases:
        seed = options.seed * 1_000_000 + cases
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                run_case(seed, options.hard)
        except FindingError as finding:
            findings += 1
            print(f"\ncase {seed}: {finding}", flush=True)
        except Exception:
            findings += 1
            print(f"\ncase {seed}: {traceback.format_exc(limit=-3)}", flush=True)
        cases += 1
    print(f"{cases} cases, {findings} findings", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
