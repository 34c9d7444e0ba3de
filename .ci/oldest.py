"""Print every requirement of pyproject.toml at the oldest version it allows, for ``pip install
-r``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

LOWEST = re.compile(r"^([A-Za-z0-9._-]+(?:\[[a-z,]+\])?)\s*>=\s*([0-9][0-9a-z.]*)")


def main() -> int:
    """Requirements of the package, of the extras named as arguments, and of the test group."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    text = tomllib.loads(file.read_text(encoding="utf-8"))
    project, groups = text["project"], text["dependency-groups"]
    lines = [*project["dependencies"], *groups["test"]]
    for extra in sys.argv[1:]:
        lines += project["optional-dependencies"][extra]
    for line in dict.fromkeys(lines):
        found = LOWEST.match(line)
        if found is None:
            print(f"no lower bound: {line}", file=sys.stderr)
            return 1
        print(f"{found[1]}=={found[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
