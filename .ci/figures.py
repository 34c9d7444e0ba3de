"""Print how large the package is: lines and files of Python and Cython, module constants.

``tests/test_size.py`` holds these figures; they only ever go down.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sfumato"


def constants(path: Path) -> int:
    """Lines at the top level of a module that give a name in capitals a value."""

    def named(node: ast.stmt) -> bool:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            return False
        first = targets[0].elts[0] if isinstance(targets[0], ast.Tuple) else targets[0]
        return (
            isinstance(first, ast.Name)
            and first.id.isupper()
            and first.id[0] != "_"
            and len(first.id) > 1
        )

    return sum(map(named, ast.parse(path.read_text(encoding="utf-8")).body))


def lines(paths: list[Path]) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def figures(source: Path = SOURCE) -> dict[str, int]:
    """Every figure by its name."""
    python = sorted(source.rglob("*.py"))
    native = sorted(
        path for ending in ("pyx", "pxd", "pxi") for path in source.rglob(f"*.{ending}")
    )
    return {
        "lines of Python": lines(python),
        "files of Python": len(python),
        "lines of Cython": lines(native),
        "constants": sum(map(constants, python)),
    }


if __name__ == "__main__":
    for name, value in figures().items():
        print(f"{name:16} {value:7}")
