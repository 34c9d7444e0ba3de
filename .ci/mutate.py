"""Lines of src broken on purpose, one at a time, and whether the tests of their room notice.

``python .ci/mutate.py --number 100 --seed 0`` draws that many mutations: a sign, a comparison, a
constant, an axis, a dropped factor, a bound that is off by one. Each is applied to a copy of the
tree, whose tests run until the first failure. Survivors and the score are printed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
LEFT_OUT = (
    "compiled",
    "cuda",
    "_torch",
    "versions",
    "cli",
    "report",
    "plot",
    "papers",
    "dask",
    "datasets",
)
COMPARED = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


class Mutation(NamedTuple):
    path: Path
    kind: str
    node: ast.expr
    then: str

    def apply(self, source: bytes) -> bytes:
        lines = source.split(b"\n")
        node, text = self.node, self.then.encode()
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + text + tail]
        return b"\n".join(lines)

    def __str__(self) -> str:
        where = f"{self.path.relative_to(ROOT)}:{self.node.lineno}"
        return f"{where} [{self.kind}] {ast.unparse(self.node)}  ->  {self.then}"


def variants(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Other expressions in place of one, with what is wrong about them."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        other = COMPARED[type(node.ops[0])]()
        yield "comparison", ast.Compare(node.left, [other], node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield "sign", ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
        if isinstance(node.op, ast.Mult):
            yield "dropped factor", node.left
            yield "dropped factor", node.right
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node.operand
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1000:
        yield "off by one", ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield "constant", ast.Constant(node.value * 2)
    if isinstance(node, ast.Call):
        for place, given in enumerate(node.keywords):
            if given.arg == "axis" and ast.unparse(given.value) in ("0", "1"):
                turned = ast.keyword("axis", ast.Constant(1 - int(ast.unparse(given.value))))
                keywords = [*node.keywords[:place], turned, *node.keywords[place + 1 :]]
                yield "axis", ast.Call(node.func, node.args, keywords)


def mutations(path: Path) -> Iterator[Mutation]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    messages = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.arguments | ast.AnnAssign)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in messages:
            for kind, other in variants(node):
                yield Mutation(path, kind, node, f"({ast.unparse(other)})")


def drawn(number: int, seed: int, room: str) -> list[Mutation]:
    """Kinds alike often, and of a kind every place alike."""
    rng = random.Random(seed)
    kinds: dict[str, list[Mutation]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if room in name and not any(part in name for part in LEFT_OUT):
            for one in mutations(path):
                kinds.setdefault(one.kind, []).append(one)
    if not kinds:
        sys.exit(f"--room {room}: no such file below {SOURCE.relative_to(ROOT)}")
    return [rng.choice(kinds[rng.choice(sorted(kinds))]) for _ in range(number)]


def tests_of(path: Path) -> list[str]:
    """The folder of tests that mirrors the room of a file, the contract beside that of a model."""
    room = path.relative_to(SOURCE).with_suffix("").parts  # a model may be a file of its own
    mirror = Path("tests", *room[: 2 if room[0] == "models" else 1])
    found = [mirror.as_posix()] if (ROOT / mirror).is_dir() else []
    beside = (Path("tests", f"test_{name}.py") for name in sorted({path.stem, room[0]}))
    found += [one.as_posix() for one in beside if (ROOT / one).exists()]
    return found + ["tests/test_contract.py"] * (
        room[0] in ("models", "array", "data", "engine", "numerics")
    )


def copied(tree: Path) -> Path:
    """A copy that Python imports in place of an editable installation, extensions included."""
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", "_build")
    shutil.copytree(ROOT, tree, ignore=ignored)
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for built in (ROOT / "build" / tag).glob("src/**/*.so"):
        shutil.copy(built, tree / built.relative_to(ROOT / "build" / tag))
    finder = (
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Mesonpy' not in repr(f)]\n"
    )
    (tree / "src" / "sitecustomize.py").write_text(finder)
    return tree


def red(tree: Path, tests: list[str], seconds: float) -> str | None:
    """The first test that fails in a tree, nothing where none does; ``None`` if time runs out."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": str(tree / "src")}
    try:
        found = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if found.returncode == 0 else (lines[0].split(" ", 1)[1] if lines else "import")


def outcome(mutation: Mutation, tree: Path, seconds: float) -> str:
    """What the tests say; the tree is left as it was."""
    path = tree / mutation.path.relative_to(ROOT)
    kept, stamp = path.read_bytes(), path.stat()
    path.write_bytes(mutation.apply(kept))
    try:
        first = red(tree, tests_of(mutation.path), seconds)
    finally:
        path.write_bytes(kept)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    if first is None:
        return "no verdict: ran out of time"
    if not first:
        return "survived"
    if first == "import":  # nothing could be collected
        return "caught by every import"
    test = first.split(" - ")[0]
    return (
        f"no verdict: {test} is red without it"
        if red(tree, [test], seconds)
        else f"caught by {test}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", default="", help="part of a path below src/sfumato")
    parser.add_argument("--seconds", type=float, default=900.0, help="limit of one mutation")
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder) / "tree")
        for one in drawn(given.number, given.seed, given.room):
            found[str(one)] = outcome(one, tree, given.seconds)
            print(f"{len(found)} {one}\n    {found[str(one)]}", flush=True)
    survivors = [one for one, what in found.items() if what == "survived"]
    open_ones = [one for one, what in found.items() if what.startswith("no verdict")]
    caught = len(found) - len(survivors) - len(open_ones)
    print(f"\nseed {given.seed}: {caught} of {len(found)} caught")
    for title, ones in (("survived", survivors), ("no verdict", open_ones)):
        print("\n    ".join([f"{title}: {len(ones)}", *ones]))


if __name__ == "__main__":
    main()
