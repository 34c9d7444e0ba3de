"""Run ``bench_NAME.py`` files, print their tables, write RESULTS.md.

A benchmark file has a ``TITLE`` and ``run() -> list[Line]``. Results of files that were not run
this time stay in RESULTS.md. ``history.json`` keeps our own figures with the commit they belong to.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import re
import sys
from pathlib import Path

import numpy as np

from sfumato.array.arrays import cpu_count

from . import history, roofline
from .timing import table

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
HEAD = """# Benchmarks

Ours beside the best peer, same data, same run, medians of interleaved repeats; a ratio above 1 means ours is faster (or smaller).
Each section names the command that made it and the machine it ran on. A limit is the time that moving the bytes of the work (at the
rate of a large copy) or its multiplications and additions (at the rate of a large matrix product) takes at least, as measured there in
the same run.
"""


def options(words: list[str] | None = None) -> argparse.Namespace:
    """What was asked for on the command line."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; all if none is named"
    )
    parser.add_argument(
        "--compare", action="store_true", help="say what is slower by a tenth; write nothing"
    )
    parser.add_argument("--data", metavar="DIR", help="folder of real tables, for quality")
    asked = parser.parse_args(words)
    if unknown := set(asked.names) - set(known):
        parser.error(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    asked.names = asked.names or known
    return asked


def main(asked: argparse.Namespace) -> int:
    """Exit code 1 if a comparison found something slower."""
    if asked.data:
        os.environ["SFUMATO_TABLES"] = asked.data
    sections, worse = _sections(), []
    for name in asked.names:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        lines = module.run()
        if not lines:
            continue  # what it measures is not here
        machine = (
            f"{platform.machine()}, {cpu_count()} cores, Python {platform.python_version()}, NumPy "
            f"{np.__version__}"
        )
        machine = module.machine() if hasattr(module, "machine") else machine
        if any(not math.isnan(line.limit) for line in lines):
            machine += f"; {roofline.said()}"
        text = table(module.TITLE, lines) + f"\n`python -m benchmarks {name}`, {machine}\n"
        print(text, flush=True)
        if asked.compare:
            worse += history.worse(name, lines)
            continue
        history.record(name, lines)
        sections[name] = text
        body = "".join(f"\n<!-- {key} -->\n{sections[key]}" for key in sorted(sections))
        RESULTS.write_text(HEAD + body)
    print("\n".join(worse) or "nothing is worse by more than a tenth" if asked.compare else "")
    return 1 if worse else 0


def _sections() -> dict[str, str]:
    if not RESULTS.exists():
        return {}
    parts = re.split(r"\n<!-- ([\w-]+) -->\n", RESULTS.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


if __name__ == "__main__":
    sys.exit(main(options()))
