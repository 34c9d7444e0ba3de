"""Print the addresses of the project, for pyproject.toml: the repository is known at a release."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    repository = sys.argv[1].rstrip("/")
    print(f"""
[project.urls]
Source = "{repository}"
Issues = "{repository}/issues"
Changelog = "{repository}/blob/main/CHANGELOG.md\"""")
