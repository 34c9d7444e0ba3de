"""Run the tests of the native modules with a build that the sanitizers of the compiler watch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = [
    "tests/numerics",
    "tests/models/fuzzy",
    "tests/models/spectral/test_rounding.py",
    "tests/models/gaussian",
    "tests/models/pairwise",
    "tests/models/consensus",
    "tests/models/factorization",
    "tests/models/dirichlet_process",
]


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    package = next((Path(sys.argv[1]) / "installed").resolve().rglob("sfumato/native/__init__.py"))
    libraries = [_library(name) for name in ("libasan.so", "libubsan.so")]
    environment = os.environ | {
        "PYTHONPATH": str(package.parents[2]),
        "LD_PRELOAD": " ".join(libraries),
        # The interpreter itself leaves memory to the end of the process.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "SFUMATO_NATIVE": str(package.parent),
    }
    tests = sys.argv[2:] or TESTS
    # -S and -P: neither the editable install nor the sources of the checkout come before the build.
    options = ["-n", "0", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    paths = ":".join([environment["PYTHONPATH"], *(p for p in sys.path if "site-packages" in p)])
    command = [sys.executable, "-S", "-P", "-m", "pytest", *options, *tests]
    return subprocess.call(command, cwd=root, env=environment | {"PYTHONPATH": paths})


def _library(name: str) -> str:
    asked = [os.environ.get("CC", "cc"), f"-print-file-name={name}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
