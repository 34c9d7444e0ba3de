"""Where experiments get their data, and what they return.

Data sets that scikit-learn does not include are read from a folder of the user or from OpenML, and
otherwise left out with a note. An experiment returns a table, figures or both.
"""

import csv
import io
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

import numpy as np
import sklearn.datasets

from ..array.labels import encode


class Loaded(NamedTuple):
    """A real data set: features (n, p) and known classes (n,)."""

    X: np.ndarray
    labels: np.ndarray


def included(name: str) -> Loaded:
    """A data set of scikit-learn."""
    return Loaded(*getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))


class ResultTable(NamedTuple):
    """A table: columns, rows, and notes below."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table as a markdown section."""
        lines = [f"## {self.title}", "", _line(self.columns), _line("---" for _ in self.columns)]
        lines += [_line(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def csv(self) -> str:
        """The table as comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()


class Outcome(NamedTuple):
    """A table or ``None``, and matplotlib figures by their file names."""

    table: ResultTable | None = None
    figures: dict[str, Any] | None = None


def mean_and_deviation(values: Any) -> str:
    """Mean and standard deviation as the sources print them: ``.873±.012``."""
    texts = (f"{value:.3f}" for value in (np.mean(values), np.std(values)))
    return "±".join(re.sub(r"^(-?)0\.", r"\1.", text) for text in texts)


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


class Source(NamedTuple):
    """Where to find a data set: file name, columns, and its number and title at OpenML."""

    file: str
    target: str
    columns: str
    shape: tuple[int, int]
    openml: int | None = None
    title: str = ""


SOURCES = {
    "house votes": Source(
        "house-votes-84.csv", "Class", "V1 to V16 (y, n or ?)", (435, 16), 56, "vote"
    ),
    "breast cancer": Source(
        "breast-cancer-wisconsin.csv", "Class", "9 numbers (1 to 10 or ?)", (699, 9), 15, "breast-w"
    ),
    "vehicle": Source("vehicle.csv", "Class", "18 numbers", (846, 18), 54, "vehicle"),
    # OpenML's "yeast" is another data set (locations of proteins) and cannot replace this one.
    "yeast cell cycle": Source("yeast-cell-cycle.csv", "phase", "c1 to c17", (384, 17)),
}
CODES = {"y": 1.0, "n": 0.0, "?": np.nan}  # codes for words in the tables


class Shelf:
    """Where experiments look for data sets; ``notes`` records the source of each, or why it is
    absent.

    Parameters
    ----------
    folder : path, optional
        Searched first.
    online : bool, default=False
        Whether to ask OpenML for missing files. scikit-learn caches what it fetched in its data
        home.
    say : callable, optional
        Called with a line of progress: what is being worked on, fetched or left out.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        online: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.trouble = None if online else "OpenML was not asked"
        self.say = say or (lambda text: None)
        self.notes: dict[str, str] = {}

    def path(self, file: str) -> Path | None:
        """Path of the file in the folder, or None."""
        path = None if self.folder is None else self.folder / file
        return path if path is not None and path.exists() else None

    def own(self) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
        """Name, kind, numbers and labels of every NAME-similarity.csv or NAME-features.csv with a
        NAME-labels.csv (no headers, one object per row), besides S100.
        """
        for kind in ("similarity", "features"):
            for path in sorted(self.folder.glob(f"*-{kind}.csv")) if self.folder else ():
                name = path.name.removesuffix(f"-{kind}.csv")
                classes = path.with_name(f"{name}-labels.csv")
                if name == "s100" or not classes.exists():
                    continue
                X = np.loadtxt(path, delimiter=",", ndmin=2)
                labels = encode(np.loadtxt(classes, dtype=str, ndmin=1))
                if len(X) != len(labels) or (kind == "similarity" and X.shape[0] != X.shape[1]):
                    raise ValueError(
                        f"{path.name} has shape {X.shape} and {classes.name} {len(labels)} labels: "
                        "give one row for each label, and a square similarity"
                    )
                yield name, kind, X, labels

    def find(self, name: str) -> Loaded | None:
        """Rows without missing values of a data set, or ``None`` and a note that says why."""
        source = SOURCES[name]
        try:
            X, classes, origin = self._look_up(name, source)
        except _AbsentError as reason:
            note = (
                f"{name}: left out, {' '.join(str(reason).split())[:200]}; pass --data DIR with "
                f"{source.file}, a table with a header and columns {source.target} and "
                f"{source.columns}."
            )
            if self.notes.get(name) != note:
                self.notes[name] = note
                self.say(note)
            return None
        whole = ~np.isnan(X).any(axis=1)
        self.notes[name] = f"{name}: {origin}, {whole.sum()} complete cases."
        return Loaded(X[whole], encode(classes[whole]))

    def notes_on(self, *names: str) -> list[str]:
        """Notes on those of these data sets that were looked for."""
        return [self.notes[name] for name in names if name in self.notes]

    def _look_up(self, name: str, source: Source) -> tuple[np.ndarray, np.ndarray, str]:
        path = self.path(source.file)
        if path is not None:
            return *_read(path, source), source.file
        if source.openml is None:
            raise _AbsentError("OpenML does not have it")
        if self.trouble is not None:
            raise _AbsentError(self.trouble)
        self.say(f"asking OpenML for {name} ({source.title}, data set {source.openml})")
        try:
            return *_fetch(source), f"OpenML's {source.title} (data set {source.openml})"
        except HTTPError as error:
            raise _AbsentError(f"OpenML answered {error.code} {error.reason}") from error
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            self.trouble = f"OpenML could not be reached ({why})"
            raise _AbsentError(self.trouble) from error
        except Exception as error:  # no failure of a remote source may stop the table
            why = str(error) or type(error).__name__
            raise _AbsentError(f"OpenML did not send {source.title} ({why})") from error


class _AbsentError(Exception):
    """The reason why a data set is left out."""


def _read(path: Path, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Features, with NaN for ``?``, and classes from a table with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    if not records or source.target not in records[0]:
        wanted = f"{source.target} and {source.columns}"
        raise ValueError(f"{path} must be a table with a header and columns {wanted}")
    columns = [column for column in records[0] if column not in (source.target, "Id", "gene")]
    try:
        cells = [[record[column] for column in columns] for record in records]
        X = np.array([[CODES[c] if c in CODES else float(c) for c in row] for row in cells])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} must hold {source.columns}, {source.target}: {error}") from error
    return X, np.array([record[source.target] for record in records])


def _fetch(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes from OpenML; category names are replaced by codes."""
    form: Any = {"as_frame": False, "parser": "liac-arff", "n_retries": 1, "delay": 0.5}
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(5.0)  # of one connection; scikit-learn makes four attempts
    try:
        with warnings.catch_warnings(action="ignore"):
            sent = sklearn.datasets.fetch_openml(data_id=source.openml, **form)
    finally:
        socket.setdefaulttimeout(before)
    name, shape = sent.details["name"], np.shape(sent.data)
    if name != source.title or shape != source.shape:
        raise ValueError(f"{name!r} of shape {shape}, not {source.shape}")
    X = np.array(sent.data, dtype=np.float64)
    for column, feature in enumerate(sent.feature_names):
        if feature in sent.categories:
            values = np.array([CODES[category] for category in sent.categories[feature]])
            known = ~np.isnan(X[:, column])
            X[known, column] = values[X[known, column].astype(int)]
    return X, np.asarray(sent.target, dtype=str)
