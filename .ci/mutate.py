"""Lines of src broken on purpose, one at a time, and whether the tests of their room notice.

``python .ci/mutate.py --number 100 --seed 0`` draws that many mutations: a sign, a comparison, a
constant, an axis, a dropped factor, a bound that is off by one. Each is applied to a copy of the
tree, whose tests run until the first failure; ``--jobs 16`` keeps as many copies and runs that many
mutations side by side. For each a line is printed when it is decided: ``caught``, ``survived``,
``timeout`` or ``red`` (the tests fail without it too), ``file:line``, kind, change, the test that
noticed and the seconds that took, with tabs between. The lines of the summary begin with ``#``.
Only pytest and what the tests import are needed, no network.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
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
        change = f"{ast.unparse(self.node)}  ->  {self.then}"
        return "\t".join((where, self.kind, " ".join(change.split())))


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
    found = {}  # a mutation that is drawn twice counts once
    for _ in range(number):
        one = rng.choice(kinds[rng.choice(sorted(kinds))])
        found[str(one)] = one
    return list(found.values())


def tests_of(path: Path) -> list[str]:
    """The folder of tests that mirrors the room of a file, the contract beside that of a model.

    The file of tests that bears its name comes first.
    """
    room = path.relative_to(SOURCE).with_suffix("").parts  # a model may be a file of its own
    mirror = Path("tests", *room[: 2 if room[0] == "models" else 1])
    own = mirror / f"test_{path.stem}.py"
    found = [one.as_posix() for one in (own, mirror) if (ROOT / one).exists()]
    beside = (Path("tests", f"test_{name}.py") for name in sorted({path.stem, room[0]}))
    found += [one.as_posix() for one in beside if (ROOT / one).exists()]
    return found + ["tests/test_contract.py"] * (
        room[0] in ("models", "components", "array", "data", "engine", "numerics")
    )


def copied(tree: Path) -> Path:
    """A copy that Python imports in place of an editable installation, extensions included."""
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "__pycache__", "_build", ".*_cache", ".hypothesis"
    )
    shutil.copytree(ROOT, tree, ignore=ignored)
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for built in (ROOT / "build" / tag).glob("src/**/*.so"):
        shutil.copy(built, tree / built.relative_to(ROOT / "build" / tag))
    finder = (
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Mesonpy' not in repr(f)]\n"
    )
    (tree / "src" / "sitecustomize.py").write_text(finder)
    return tree


def red(tree: Path, tests: list[str], seconds: float, without: set[str]) -> str | None:
    """The first test that fails in a tree, nothing where none does; ``None`` if time runs out."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    command += [f"--{'deselect' if '::' in one else 'ignore'}={one}" for one in sorted(without)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
    with subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=max(seconds, 1.0))
        except subprocess.TimeoutExpired:  # what the tests started ends with them
            os.killpg(running.pid, signal.SIGKILL)
            return None
    if running.returncode == 0:
        return ""
    lines = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" ", 1)[1].split(" - ")[0] if lines else "every import"


def outcome(mutation: Mutation, tree: Path, seconds: float, bad: set[str]) -> tuple[str, str]:
    """What the tests say, and which; ``bad`` gathers those that fail on this machine without it."""
    path = tree / mutation.path.relative_to(ROOT)
    kept, stamp = path.read_bytes(), path.stat()
    tests, end = tests_of(mutation.path), time.monotonic() + seconds
    while True:
        without = set(bad)
        path.write_bytes(mutation.apply(kept))
        try:
            first = red(tree, tests, end - time.monotonic(), without)
        finally:
            path.write_bytes(kept)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        if first is None:
            return "timeout", ""
        if not first:
            return "survived", ""
        alone = tests if first == "every import" else [first]
        if red(tree, alone, seconds, without) == "":
            return "caught", first
        if first in without or alone is tests:  # leaving it out does not help
            return "red", first
        bad.add(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", default="", help="part of a path below src/sfumato")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at the same time")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit of one mutation")
    given = parser.parse_args()
    ones = drawn(given.number, given.seed, given.room)
    decided, bad = Counter[str](), set[str]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        trees = SimpleQueue[Path]()
        for tree in pool.map(copied, (Path(folder) / str(job) for job in range(given.jobs))):
            trees.put(tree)

        def decide(one: Mutation) -> str:
            tree, begun = trees.get(), time.monotonic()
            try:
                verdict, test = outcome(one, tree, given.seconds, bad)
            finally:
                trees.put(tree)
            decided[verdict] += 1
            return f"{verdict}\t{one}\t{test}\t{time.monotonic() - begun:.0f}"

        for done in as_completed([pool.submit(decide, one) for one in ones]):
            print(done.result(), flush=True)
    print(f"# seed {given.seed}: {decided['caught']} of {len(ones)} caught, {dict(decided)}")
    for test in sorted(bad):
        print(f"# left out, red without any mutation: {test}")


if __name__ == "__main__":
    main()
