"""The experiment of Rota Bulo, Lourenco, Fred and Pelillo (2010): base ensembles by consensus methods, true number of clusters given."""

from __future__ import annotations

import csv
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import datasets
from ..metrics import matched_accuracy
from ..models.consensus import EvidenceAccumulation
from ..models.ensemble import ClusteringEnsemble
from ._outcome import Outcome, Table, mean_and_deviation

__all__ = ["Evidence", "evidence", "table"]

ENSEMBLES = ("SL", "CL", "AL", "KM", "All")
METHODS = ("cluster-kernel", "coassociation", "single", "average", "complete")
N_PARTITIONS = 100


class Evidence(NamedTuple):
    """A data set with known classes."""

    name: str
    X: np.ndarray
    labels: np.ndarray


def evidence(data: Any = None) -> list[Evidence]:
    """Iris, wine, digits and the diagnostic breast cancer data; from the folder ``data`` also house votes, yeast and breast cancer."""
    found = [
        Evidence("iris", *datasets.load_iris()),
        Evidence("wine", *_standardized(datasets.load_wine())),
        Evidence("breast cancer (diagnostic)", *_standardized(datasets.load_breast_cancer())),
        Evidence("digits", *datasets.load_digits()),
    ]
    if data is None:
        return found
    readers = {
        "house-votes-84.csv": ("house votes", "Class", {"y": "1", "n": "0"}),
        "yeast-cell-cycle.csv": ("yeast cell cycle", "phase", {}),
        "breast-cancer-wisconsin.csv": ("breast cancer", "Class", {}),
    }
    return found + [_read(Path(data) / file, *how) for file, how in readers.items() if (Path(data) / file).exists()]


def table(data: Any = None, *, n_seeds: int = 10) -> Outcome:
    """Matched accuracy of every consensus on every ensemble, with the share of cells the probabilistic ones win or draw."""
    cells = {
        (item.name, name): np.array([_scores(item, name, seed) for seed in range(n_seeds)]) for item in evidence(data) for name in ENSEMBLES
    }
    rows = [(*key, *(mean_and_deviation(values[:, column]) for column in range(len(METHODS)))) for key, values in cells.items()]
    means = np.array([values.mean(axis=0) for values in cells.values()])
    rows.append(("mean", "", *(f"{value:.3f}".removeprefix("0") for value in means.mean(axis=0))))
    best = means[:, 2:].max(axis=1)
    notes = (
        f"{N_PARTITIONS} partitions an algorithm on 90% subsamples, number of clusters drawn from the true one to sqrt(n); "
        f"the true number is given to every consensus; {n_seeds} seeds.",
        *(f"{METHODS[column]}: {_share(means[:, column], best)}." for column in (0, 1)),
        f"the better of these two: {_share(means[:, :2].max(axis=1), best)}.",
        "Votes and breast cancer: complete cases. Wine and the diagnostic data: standardised.",
    )
    return Outcome(Table("Consensus of base ensembles: matched accuracy", ("data", "ensemble", *METHODS), rows, notes))


def _share(ours: np.ndarray, best: np.ndarray) -> str:
    return (
        f"at least the best linkage in {np.mean(ours >= best):.0%} of the cells, within .005 of it in {np.mean(ours >= best - 0.005):.0%}"
    )


def _scores(item: Evidence, ensemble: str, seed: int) -> list[float]:
    """Accuracy of every method on one ensemble."""
    k = len(np.unique(item.labels))
    numbers = (k, max(k + 1, math.isqrt(len(item.X))))
    L = ClusteringEnsemble(N_PARTITIONS, algorithms=ensemble, n_clusters=numbers, random_state=seed).fit_transform(item.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        models = [EvidenceAccumulation(k, ensemble="precomputed", consensus=method, random_state=seed).fit(L) for method in METHODS]
    return [float(matched_accuracy(item.labels, model.labels_)) for model in models]  # type: ignore[arg-type]


def _standardized(loaded: datasets.Loaded) -> tuple[np.ndarray, np.ndarray]:
    return (loaded.X - loaded.X.mean(axis=0)) / loaded.X.std(axis=0), loaded.labels


def _read(path: Path, name: str, target: str, codes: dict[str, str]) -> Evidence:
    """Complete cases of a table with a header; identifiers are left out."""
    with path.open(newline="") as file:
        records = [record for record in csv.DictReader(file) if "?" not in record.values()]
    columns = [column for column in records[0] if column not in (target, "Id", "gene")]
    X = np.array([[float(codes.get(record[column], record[column])) for column in columns] for record in records])
    return Evidence(name, X, np.unique([record[target] for record in records], return_inverse=True)[1])
