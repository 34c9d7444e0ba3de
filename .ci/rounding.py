"""The test suite as other processors would round it, each time in another order of the tests.

``python .ci/rounding.py [--seed N] [arguments of pytest]`` prints a table of settings and results.
What the machine cannot run is named and left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time

CORES = ("Nehalem", "Haswell", "SkylakeX", "Zen")
CORE = (
    "import numpy as np; from threadpoolctl import threadpool_info; "
    "np.ones((99, 99)) @ np.ones((99, 99)); "
    "print(*{one.get('architecture') for one in threadpool_info() if one['user_api'] == 'blas'})"
)
WIDE = (
    "from numpy._core._multiarray_umath import __cpu_features__ as has, __cpu_dispatch__ as built; "
    "print(*[name for name in built if has.get(name)])"
)


def ask(code: str, **env: str) -> str:
    """What a process of its own prints; nothing where it dies, as of an unknown instruction."""
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def settings() -> dict[str, dict[str, str]]:
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = {"own, 2 threads": {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}}
    for core in CORES:
        used = ask(CORE, OPENBLAS_CORETYPE=core)
        if used.casefold() == core.casefold():
            found[f"OpenBLAS {core}"] = {**one, "OPENBLAS_CORETYPE": core}
        else:
            print(f"OpenBLAS {core}: left out, {used or 'nothing'} would run in its place")
    if wide := ask(WIDE):
        found["NumPy narrow"] = {**one, "NPY_DISABLE_CPU_FEATURES": wide}
        found["NumPy narrow, 2 threads"] = {
            **found["own, 2 threads"],
            "NPY_DISABLE_CPU_FEATURES": wide,
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    given, rest = parser.parse_known_args()
    rows = []
    for number, (name, env) in enumerate(settings().items()):
        seed = str(given.seed + number)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "--shuffle", seed, *rest]
        begun = os.times()
        found = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
        spent = sum(os.times()[2:4]) - sum(begun[2:4])
        red = re.findall(r"^(?:FAILED|ERROR) (\S+)", found.stdout, re.MULTILINE)
        result = "green" if found.returncode == 0 else f"red ({found.returncode})"
        rows.append((name, seed, result, f"{spent:.0f} s", *red))
        print(f"{name}: {result}", flush=True)
        if found.returncode:
            print(found.stdout[-4000:], found.stderr[-1000:])
    print("\n| setting | seed of the order | result | processor time | failed |")
    print("|---|---|---|---|---|")
    for name, seed, result, spent, *red in rows:
        print(f"| {name} | {seed} | {result} | {spent} | {' '.join(red)} |")
    return any(row[2] != "green" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
