"""Print the newest entry of CHANGELOG.md, for the announcement of a release."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main() -> int:
    """Text from the first version heading to the next one; 1 if there is none."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## .*?(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        print("CHANGELOG.md has no entry", file=sys.stderr)
        return 1
    print(found[0].rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
