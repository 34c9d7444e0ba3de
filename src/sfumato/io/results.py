"""Reading and writing of result folders: memberships, summary, model, report and its pictures.

All content is checked when it is read. Models and checkpoints are saved and loaded with skops: no
pickles, only trusted classes. Seeds determine the starts and the kept state of every loop the rest,
so a resumed fit gives the same answer as an uninterrupted one.
"""

import csv
import errno
import json
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from ..array.text import plain, to_cell
from ..array.types import Estimator
from ..array.validation import reserve
from ..memberships import check_memberships
from .output import check_folder, whole_file
from .reading import InputError, Report, Roles, archive_holds, extra, kind_of, read

# Folders whose classes are never part of a model.
_FRONT = ("anndata", "cli", "dask", "io", "papers", "plot", "report")
_OTHERS = frozenset(
    {
        "numpy.dtype",
        "scipy.sparse._csr.csr_array",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
    }
)


def skops() -> Any:
    """The package that saves and loads models; imported late because that takes a while."""
    return extra("skops.io", "models are saved and loaded with skops", "'sfumato[cli]'")


def save(thing: Any, path: Path, token: str = "model") -> None:
    """Write an estimator or a checkpoint, completely or not at all."""
    with whole_file(path, token) as partial:
        skops().dump(thing, partial)


def untrusted(path: Path) -> list[str]:
    """Types in a file that are neither plain data nor classes of this library."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        reserve((size,), "u1", f"the model in {plain(path.name)}", "it may not be a model at all")
        found = skops().get_untrusted_types(file=path)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # readers raise many kinds of errors on damaged files
        if isinstance(error, zipfile.BadZipFile) and "CRC" in str(error):
            raise InputError(f"{plain(path.name)} is damaged (checksums): fit afresh") from error
        raise InputError(f"{plain(path.name)} is not a saved model: {plain(error, 100)}") from error
    return [name for name in found if name not in _OTHERS and not _is_our_class(name)]


def _is_our_class(name: str) -> bool:
    """Whether ``name`` is a class or function that this library defines where models are made."""
    module, _, attribute = name.rpartition(".")
    package, folder = [*module.split("."), "", ""][:2]
    if package != "sfumato" or folder in ("", *_FRONT) or ".." in name or "__" in name:
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except (ImportError, ValueError):
        return False
    return getattr(found, "__module__", "").startswith("sfumato.")


def load(path: Path) -> Any:
    """The object that ``save`` wrote. Files with types that are not trusted are refused unread."""
    if not path.is_file():
        raise InputError(f"no model called {plain(path, 200)}")
    foreign = untrusted(path)
    if foreign:
        raise InputError(
            f"{plain(path.name)} asks for {plain(', '.join(foreign), 120)}, which no model of "
            "this library holds: not loaded"
        )
    try:
        return skops().load(path, trusted=skops().get_untrusted_types(file=path))
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"{plain(path.name)} cannot be loaded; it may come from another version: "
            f"{plain(error, 100)}"
        ) from error


class Checkpoint:
    """Saves the loops of one fit (see ``engine.loop.checkpoints``) to a file.

    A checkpoint of another ``task`` (model and data) is refused. It is written every ``every``
    seconds, or in at most a tenth of the time. ``token`` marks the files of this run, and ``warn``
    is called with the reason if writing fails.
    """

    def __init__(
        self,
        path: Path,
        task: str,
        *,
        every: float = 10.0,
        token: str = "checkpoint",
        warn: Callable[[str], None] | None = None,
    ) -> None:
        skops()  # an import interrupted by Ctrl-C cannot be repeated
        self.path, self.task, self.every, self.token = path, task, every, token
        self.warn = warn or partial(warnings.warn, stacklevel=2)
        self._said: set[str] = set()
        self._written = _identity(path) if path.exists() else None
        self._coming: tuple[int, int] | None = None
        self.loops: list[tuple[Any, list[Any]]] = []
        self.started, self.written, self.resumed, self.cost = 0, time.monotonic(), 0, 0.0

    def resume(self) -> None:
        """Load the loops from the file, if there is one."""
        if not self.path.exists():
            return
        kept = load(self.path)
        if not isinstance(kept, dict) or kept.get("task") != self.task:
            raise InputError(
                f"{plain(self.path.name)} was kept for other data, parameters or versions: repeat "
                "that command, or delete the file"
            )
        loops = kept.get("loops")
        if not isinstance(loops, list) or not all(
            isinstance(loop, tuple) and len(loop) == 2 and isinstance(loop[1], list)
            for loop in loops
        ):
            raise InputError(f"{plain(self.path.name)} is damaged: delete it, and start afresh")
        self.loops = loops
        self.resumed = self.reached

    @property
    def mine(self) -> bool:
        """Whether the file exists and was written, resumed or replaced by this run."""
        return self.path.exists() and _identity(self.path) in (self._written, self._coming)

    @property
    def reached(self) -> int:
        """Number of iterations that need not be repeated."""
        return sum(len(history) for _, history in self.loops)

    def recall(self, state: Any) -> tuple[int, Any, list[Any]]:
        """Number of the next loop, its state and its history."""
        place, self.started = self.started, self.started + 1
        if place == len(self.loops):
            self.loops.append((state, []))
        state, history = self.loops[place]
        return place, state, list(history)

    def keep(self, place: int, state: Any, history: list[Any]) -> None:
        """Record the progress of a loop; write the file if it is time."""
        self.loops[place] = (state, list(history))
        pause = self.every and max(self.every, 9 * self.cost)
        if time.monotonic() - self.written >= pause:
            self.write()

    def write(self) -> bool:
        """Write all loops; a failure is reported once, and the last good file is kept."""
        began = time.monotonic()
        try:
            if self.mine != self.path.exists():
                raise FileExistsError(errno.EEXIST, "another file has this name, or took it away")
            with whole_file(self.path, self.token) as partial_file:
                skops().dump({"task": self.task, "loops": self.loops}, partial_file)
                self._coming = _identity(partial_file)  # a stop may come right after the rename
            self._written = self._coming
        except Exception as error:  # no failure of a checkpoint may stop the fit
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = plain(why, 100)
            if reason not in self._said:
                left = "the last good one is kept" if self.path.exists() else "there is none yet"
                self.warn(
                    f"the checkpoint {plain(self.path.name)} could not be written ({reason}): "
                    f"{left}, and the fit goes on"
                )
            self._said.add(reason)
            return False
        finally:
            self.written = time.monotonic()
            self.cost = self.written - began
        return True

    def remove(self) -> None:
        """Delete the file when the fit is done."""
        if self.mine:
            with suppress(OSError):
                self.path.unlink()


def check_checkpoint(path: Path, *, wanted: bool) -> None:
    """Refuse an existing file that is not a checkpoint, or a checkpoint that was not asked for."""
    if not os.path.lexists(path):
        return
    said = f"--out: {plain(path, 200)} is"
    if not path.is_file() or not archive_holds(path, "schema.json"):
        raise InputError(f"{said} not a checkpoint of this program: choose another name")
    if not wanted:
        raise InputError(
            f"{said} left from a run that was stopped: go on from it with --resume, or add --force "
            "to start afresh"
        )


def _identity(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino


SCHEMA = 1
_OWN = "memberships.csv memberships.parquet levels.csv summary.json pictures.json"
_OWN += " model.skops report.html"
_BLOCK = 20_000  # rows converted to text at a time
# Types of the fields of a summary, of what it keeps about the input, and of each input column.
_TYPES: dict[str, Any] = {
    "model estimator": (str,),
    "n_objects n_clusters n_iter seed": (int,),
    "objective seconds certainty": (int, float),
    "metrics parameters versions input": (dict,),
    "converged": (bool,),
    "warnings": (list,),
}
_INPUT: dict[str, Any] = {"name sha256": (str,), "columns": (list,)}
_INPUT["labels fields"] = (list, type(None))
_FIELD: dict[str, Any] = {"name kind": (str,), "used": (bool,), "categories": (list,)}


class Result(NamedTuple):
    """The content of a result folder."""

    memberships: np.ndarray
    ids: Sequence[str]
    summary: dict[str, Any]
    pictures: dict[str, Any]
    levels: np.ndarray | None = None  # (n, levels): the cluster at each level of the summary


check_target = check_folder("a result folder", lambda path: path.name in _OWN.split())


def text_file(path: Path) -> TextIO:
    """A text file open for writing a table; characters without UTF-8 encoding are escaped."""
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


def write_result(
    folder: Path,
    result: Result,
    *,
    model: Estimator = None,
    table: str = "csv",
    report: Report = None,
) -> None:
    """Fill ``folder``: memberships.csv or .parquet, summary.json, pictures.json, model.skops."""
    if table == "parquet":
        _write_parquet(folder / "memberships.parquet", result)
    else:
        noise = has_noise(result.summary)
        with text_file(folder / "memberships.csv") as file:
            write_memberships(file, result.memberships, result.ids, noise, report)
    if result.levels is not None:
        names = [f"clusters_{level['n_clusters']}" for level in result.summary["levels"]]
        with text_file(folder / "levels.csv") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["id", *names])
            cells = (to_cell(str(name)) for name in result.ids)
            writer.writerows(zip(cells, *np.asarray(result.levels).T.tolist(), strict=True))
    summary, pictures = json.dumps(result.summary, indent=2), json.dumps(result.pictures)
    (folder / "summary.json").write_text(f"{summary}\n", encoding="utf-8")
    (folder / "pictures.json").write_text(f"{pictures}\n", encoding="utf-8")
    if model is not None:
        save(model, folder / "model.skops")


def has_noise(summary: dict[str, Any]) -> bool:
    """Whether the last column of the memberships is noise, not a cluster."""
    return summary.get("parameters", {}).get("noise_cluster") is not None


def _columns(k: int, noise: bool) -> list[str]:
    names = [f"cluster_{cluster}" for cluster in range(k)]
    return [*names[:-1], "noise"] if noise else names


def write_memberships(
    file: TextIO,
    memberships: np.ndarray,
    ids: Sequence[str],
    noise: bool = False,
    report: Report = None,
) -> None:
    """A line for every object: id, cluster, largest membership, and all of its memberships."""
    n, k = memberships.shape
    writer, careful = (
        csv.writer(file, lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC)
    )
    writer.writerow(["id", "cluster", "certainty", *_columns(k, noise)])
    for start in range(0, n, _BLOCK):
        block = memberships[start : start + _BLOCK]
        names = [to_cell(str(name)) for name in ids[start : start + _BLOCK]]
        # unquoted, the first would end the row and the second would be lost
        odd = any("\r" in name or name.startswith(" ") for name in names)
        best = block.argmax(axis=1).tolist(), block.max(axis=1).tolist()
        rows = zip(names, *best, *block.T.tolist(), strict=True)
        (careful if odd else writer).writerows(rows)
        if report is not None:
            report(min(1.0, (start + _BLOCK) / n))


def _write_parquet(path: Path, result: Result) -> None:
    pq = extra("pyarrow.parquet", "Parquet files need pyarrow", "'sfumato[io]'")
    pa = import_module("pyarrow")
    U = result.memberships
    ids = [str(name) for name in result.ids]
    columns = {"id": ids, "cluster": U.argmax(axis=1), "certainty": U.max(axis=1)}
    names = _columns(U.shape[1], has_noise(result.summary))
    columns |= {name: np.ascontiguousarray(U[:, place]) for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of the result in a folder."""
    if not (folder / "summary.json").is_file():
        raise InputError(f"{plain(folder, 200)} is not a result folder: it has no summary.json")
    summary = read_object(folder / "summary.json")
    if summary.get("schema") != SCHEMA:
        raise InputError(
            f"{plain(folder.name)}: summary.json has schema {plain(summary.get('schema'), 20)}, "
            f"this version reads {SCHEMA}"
        )
    _check(summary, _TYPES)
    held = summary.get("input", {})
    _check(held, _INPUT)
    for field in held.get("fields") or []:
        _check(field if isinstance(field, dict) else {}, _FIELD, whole=True)
    for names in (held.get("columns", []), *(held.get("labels") or [])):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("summary.json is damaged: 'columns' and 'labels' must be names")
    if not all(isinstance(value, int | float) for value in summary.get("metrics", {}).values()):
        raise InputError("summary.json is damaged: 'metrics' must be numbers")
    return summary


def _check(held: dict[str, Any], types: dict[str, Any], *, whole: bool = False) -> None:
    """Refuse fields of a wrong type, and missing fields if the ``whole`` object is required."""
    for names, kinds in types.items():
        for name in names.split():
            value = held.get(name)
            known = type(value) in kinds or (dict in kinds and isinstance(value, dict))
            if (name in held or whole) and not known:
                shown = plain(json.dumps(value), 40)
                raise InputError(f"summary.json is damaged: '{name}' cannot be {shown}")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no file."""
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else "{}"
        content = json.loads(text, object_hook=_Held)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is damaged: {plain(error, 80)}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path.name} is damaged: not an object")
    return content


class _Held(dict[str, Any]):
    """An object from a file; missing keys are reported as a damaged file."""

    def __missing__(self, key: str) -> Any:
        raise InputError(f"the result folder is damaged: its summary has no '{plain(key, 40)}'")


def read_result(folder: Path) -> Result:
    """The result in a folder."""
    summary = read_summary(folder)
    path = folder / "memberships.csv"
    path = path if path.is_file() else folder / "memberships.parquet"
    if not path.is_file():
        raise InputError(f"{plain(folder, 200)} holds no memberships")
    memberships, ids = read_memberships(path)
    stated = summary.get("n_objects", len(memberships))
    if len(memberships) != stated:
        raise InputError(
            f"{plain(folder, 200)}: {path.name} has {len(memberships):,} objects, where "
            f"summary.json says {stated:,}: rows were lost or added since; fit again"
        )
    return Result(memberships, ids, summary, read_object(folder / "pictures.json"))


def read_memberships(path: Path) -> tuple[np.ndarray, list[str]]:
    """Memberships and ids from a file of this library, or from any table whose rows sum to 1."""
    table = read(path, Roles(id="id", drop=("cluster", "certainty")) if _is_ours(path) else Roles())
    try:
        memberships = check_memberships(np.asarray(table.values), plain(path.name))
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    return memberships, list(table.names)


def _is_ours(path: Path) -> bool:
    """Whether a file has the columns of ``write_memberships``, intact or not."""
    first = ["id", "cluster", "certainty"]
    with suppress(Exception):  # pyarrow has many kinds of errors
        if kind_of(path) == "parquet":
            return import_module("pyarrow.parquet").read_schema(path).names[:3] == first
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(100).startswith(",".join(first) + ",")
    return False
