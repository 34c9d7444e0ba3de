"""Lines of src broken on purpose, one at a time, and whether the tests that run them notice.

``python .ci/mutate.py --number 100 --seed 0`` draws that many mutations: a sign, a comparison, a
constant, an axis, a dropped factor, a bound that is off by one. Each is applied to a copy of the
tree, where the tests that call its function run until the first failure. Which tests those are, and
which are quick, is read from what ``reached.py`` recorded.

``--jobs 16`` keeps as many copies and runs that many mutations side by side. For each a line is
printed when it is decided: ``caught``, ``survived``, ``timeout`` or ``red`` (the tests fail without
it too), ``file:line``, kind, change, the test that noticed and the seconds that took, with tabs
between. The lines of the summary begin with ``#``. Nothing is fetched from the network.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import multiprocessing as mp
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
LEFT_OUT = ("cuda", "_torch", "versions", "plot", "pictures", "papers")
WORKERS = mp.get_context("forkserver")  # with the libraries that every test imports
LIBRARIES = ["scipy.optimize", "scipy.cluster.hierarchy", "sklearn.cluster", "sklearn.mixture"]
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


def drawn(number: int, seed: int, under: str) -> list[Mutation]:
    """Kinds alike often, and of a kind every place alike."""
    rng = random.Random(seed)
    kinds: dict[str, list[Mutation]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if under in name and not any(part in name for part in LEFT_OUT):
            for one in mutations(path):
                kinds.setdefault(one.kind, []).append(one)
    if not kinds:
        sys.exit(f"--under {under}: no such file below {SOURCE.relative_to(ROOT)}")
    found = {}  # a mutation that is drawn twice counts once
    for _ in range(number):
        one = rng.choice(kinds[rng.choice(sorted(kinds))])
        found[str(one)] = one
    return list(found.values())


def places(path: Path) -> dict[int, str]:
    """The name of the function that each line is in, as code objects bear it; the last wins."""
    found = dict[int, str]()

    def enter(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{name}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    found.update(dict.fromkeys(range(child.lineno, child.end_lineno + 1), inside))
                    inside += ".<locals>"
                inside += "."
            enter(child, inside)

    enter(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


class Reached:
    """Which tests call which functions, and how long they take, as ``reached.py`` recorded it."""

    def __init__(self, recorded: Path) -> None:
        self.seconds = Counter[str]()
        self.tests = defaultdict[str, list[str]](list)
        self.callers = defaultdict[str, set[str]](set)
        for file in sorted(recorded.glob("*.json")):
            for unit, told in json.loads(file.read_text()).items():
                self.seconds[unit] += told["seconds"]
                self.tests[unit] += told["tests"]
                for called in told["called"]:
                    self.callers[called].add(unit)
                    self.callers[called.partition(":")[0]].add(unit)
        if not self.tests:
            sys.exit(f"{recorded} is empty: run the tests with the plugin reached.py first")

    def arguments(self, mutation: Mutation) -> list[str]:
        """Tests for pytest: first those that bear the name of the file, then the quick ones."""
        file = mutation.path.relative_to(SOURCE)
        function = places(mutation.path).get(mutation.node.lineno)
        units = self.callers.get(f"{file.as_posix()}:{function}", set())
        if not units:  # a line of the module itself, or a function that is new
            units = self.callers[file.as_posix()]
        own = {f"test_{part}" for part in (file.stem, file.parent.name)}
        ordered = sorted(units, key=lambda one: (Path(one).stem not in own, self.seconds[one], one))
        return [test for one in ordered for test in (self.tests[one] if "[" in one else [one])]


def copied(tree: Path) -> Path:
    """A copy that Python imports in place of an editable installation, extensions included."""
    names = ".git .venv build dist __pycache__ _build .*_cache .hypothesis"
    ignored = shutil.ignore_patterns(*names.split())
    shutil.copytree(ROOT, tree, ignore=ignored)
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for built in (ROOT / "build" / tag).glob("src/**/*.so"):
        shutil.copy(built, tree / built.relative_to(ROOT / "build" / tag))
    finder = (
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Mesonpy' not in repr(f)]\n"
    )
    (tree / "src" / "sitecustomize.py").write_text(finder)
    return tree


class First:
    """A plugin of pytest that remembers the first failure."""

    failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed = self.failed or (report.nodeid if report.failed else "")

    pytest_collectreport = pytest_runtest_logreport


def run(tree: Path, tests: list[str], seconds: float, answer: Connection) -> None:
    """The tests of a tree in this process, which has NumPy and its like but none of our own."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    os.chdir(tree)
    sys.path.insert(0, str(tree / "src"))
    sys.meta_path[:] = [one for one in sys.meta_path if "Mesonpy" not in repr(one)]
    os.environ["PYTHONPATH"] = str(tree / "src")
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    import pytest

    sys.argv = ["pytest"]
    first = First()
    given = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*given, *tests], plugins=[first])
    answer.send(first.failed or ("" if code in (0, 5) else f"exit code {code}"))


def red(tree: Path, tests: list[str], seconds: float, without: set[str]) -> str | None:
    """The first test that fails in a tree, nothing where none does; ``None`` if time runs out."""
    told, answer = WORKERS.Pipe(duplex=False)
    tests = [*tests, *(f"--deselect={one}" for one in sorted(without))]
    running = WORKERS.Process(target=run, args=(tree, tests, seconds, answer))
    running.start()
    answer.close()
    running.join(10 * seconds)  # others may have the processor
    if running.exitcode in (None, -signal.SIGXCPU, -signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # what the tests started ends with them
        running.join()
        return None
    try:
        return told.recv()
    except EOFError:
        return f"exit code {running.exitcode}"


def outcome(
    mutation: Mutation, tests: list[str], tree: Path, seconds: float, fine: set[str], bad: set[str]
) -> tuple[str, str]:
    """What the tests say, and which.

    ``fine`` and ``bad`` gather those that pass and fail on this machine without any mutation.
    """
    path = tree / mutation.path.relative_to(ROOT)
    kept, stamp = path.read_bytes(), path.stat()
    while True:
        without = set(bad)
        path.write_bytes(mutation.apply(kept))
        try:
            first = red(tree, tests, seconds, without)
        finally:
            path.write_bytes(kept)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        if first is None:
            return "timeout", ""
        if not first:
            return "survived", ""
        whole = "::" not in first  # every import, or a crash
        if first in fine or red(tree, tests if whole else [first], seconds, without) == "":
            fine.update(() if whole else (first,))
            return "caught", first
        if first in without or whole:  # leaving it out does not help
            return "red", first
        bad.add(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="", help="part of a path below src/sfumato")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at the same time")
    parser.add_argument("--seconds", type=float, default=300.0, help="processor time of one")
    parser.add_argument("--reached", type=Path, default=ROOT / "build" / "reached")
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    WORKERS.set_forkserver_preload(LIBRARIES)
    ones = drawn(given.number, given.seed, given.under)
    reached = Reached(given.reached)
    decided, fine, bad = Counter[str](), set[str](), set[str]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        trees = SimpleQueue[Path]()
        for tree in pool.map(copied, (Path(folder) / str(job) for job in range(given.jobs))):
            trees.put(tree)

        def decide(one: Mutation) -> str:
            tree, begun = trees.get(), time.monotonic()
            try:
                tests = reached.arguments(one)
                verdict, test = outcome(one, tests, tree, given.seconds, fine, bad)
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
