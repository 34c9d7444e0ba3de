"""The candidates of a mixture's search over numbers of clusters and shapes: numbers to try, and one
table of all.

"auto" tries about as many clusters as there are groups that stand apart, and more while the best
number is the largest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.labels import encode
from ..array.warn import warn
from ..memberships import one_hot
from ..numerics import seeding
from .few import distinct_rows
from .structure import FEWEST, LARGEST, assess

__all__ = ["GROWTH", "MOST", "ModelCandidate", "ModelSearch", "first_sizes", "groups_apart"]
__all__ += ["more_sizes"]

NAN = float("nan")
MOST = 9  # clusters that "auto" of the mixtures tries at first, as R's mclust does
GROWTH = 4  # times as many may be tried, by any search, while the best number is the largest
OBJECTS = 3  # least mean number of objects in a cluster beyond the first numbers


class ModelCandidate(NamedTuple):
    """One setting that was tried: criteria (lower is better), or NaN and why it failed.

    ``setting`` has the number of clusters and, in some models, a shape: a family of covariances or
    a number of factors.
    """

    setting: dict[str, Any]
    bic: float = NAN
    icl: float = NAN
    aic: float = NAN
    log_likelihood: float = NAN
    n_parameters: int = 0
    reason: str = ""

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.setting["n_clusters"])

    @property
    def covariance_type(self) -> str:
        """Family of the covariances, "" in models that have none."""
        return str(self.setting.get("covariance_type", ""))

    @property
    def shape(self) -> str:
        """What the setting says beside the number of clusters, in words."""
        others = {key: value for key, value in self.setting.items() if key != "n_clusters"}
        if set(others) <= {"covariance_type"}:
            return self.covariance_type or "all"
        return ", ".join(f"{key} {value}" for key, value in others.items())

    def failed(self, reason: str) -> ModelCandidate:
        """The same setting without criteria, so that it neither wins nor has a probability."""
        return self._replace(bic=NAN, icl=NAN, aic=NAN, log_likelihood=NAN, reason=reason)


class ModelSearch(Sequence[ModelCandidate]):
    """The candidates of a search in the order they were tried; prints as a table like mclust's.

    Parameters
    ----------
    candidates : sequence of ModelCandidate
    criterion : {"bic", "icl", "aic"}
        What was minimised.
    n_objects : int, optional
        Objects on which all candidates were compared: a sample where there are many.
    """

    def __init__(
        self, candidates: Sequence[ModelCandidate], criterion: str, n_objects: int | None = None
    ) -> None:
        self.candidates, self.criterion = tuple(candidates), criterion
        self.n_objects = n_objects

    def __getitem__(self, index: Any) -> Any:
        return self.candidates[index]

    def __len__(self) -> int:
        return len(self.candidates)

    def best(self, n: int = 3) -> list[ModelCandidate]:
        """The ``n`` best candidates, best first; equal ones by their number of parameters."""
        sound = [row for row in self.candidates if np.isfinite(getattr(row, self.criterion))]
        return sorted(sound, key=lambda row: (getattr(row, self.criterion), row.n_parameters))[:n]

    def table(self) -> tuple[list[int], list[str], np.ndarray]:
        """Sizes, shapes, and the criterion (sizes, shapes), NaN where a fit failed."""
        sizes = sorted({row.n_clusters for row in self.candidates})
        shapes = list(dict.fromkeys(row.shape for row in self.candidates))
        values = np.full((len(sizes), len(shapes)), np.nan)
        for row in self.candidates:
            values[sizes.index(row.n_clusters), shapes.index(row.shape)] = getattr(
                row, self.criterion
            )
        return sizes, shapes, values

    def best_of_each(self) -> dict[int, ModelCandidate]:
        """For every number of clusters the best candidate, a failed one if all failed."""
        sizes = sorted({row.n_clusters for row in self.candidates})
        return {
            k: min(
                (row for row in self.candidates if row.n_clusters == k),
                key=lambda row: np.nan_to_num(self._value(row), nan=np.inf),
            )
            for k in sizes
        }

    def _value(self, row: ModelCandidate) -> float:
        return float(getattr(row, self.criterion))

    def __repr__(self) -> str:
        sizes, shapes, values = self.table()
        width = max(11, *(len(name) + 2 for name in shapes))
        on = "" if self.n_objects is None else f" of {self.n_objects} objects"
        lines = [f"{self.criterion.upper()}{on} (lower is better):"]
        for start in range(0, len(shapes), 7):
            part = slice(start, start + 7)
            lines.append("k".rjust(3) + "".join(name.rjust(width) for name in shapes[part]))
            lines += [
                f"{k:3d}" + "".join(_cell(value).rjust(width) for value in row[part])
                for k, row in zip(sizes, values, strict=True)
            ]
        best = ", ".join(
            f"{row.shape},{row.n_clusters} {self._value(row):.3f}" for row in self.best()
        )
        return "\n".join([*lines, f"best three: {best}"])


def _cell(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "NA"


def first_sizes(X: Any, max_clusters: int = MOST, weights: np.ndarray | None = None) -> list[int]:
    """Numbers of clusters to begin with: no more than there are different objects.

    Where more groups than ``max_clusters`` stand apart, their number and its neighbours too: with
    fewer clusters, elongated ones that join groups may look better than any number tried next.
    """
    n_objects = X.shape[0]
    n_distinct = distinct_rows(X, min(max_clusters, n_objects))
    if n_distinct == 1 < n_objects:
        warn(f"all {n_objects} objects are equal: one cluster is the answer")
    sizes, cap = list(range(1, min(max_clusters, n_distinct) + 1)), _cap(n_objects, max_clusters)
    apart = groups_apart(X, weights, cap) if len(sizes) == max_clusters < cap else 1
    return sizes + [k for k in range(apart - 1, apart + 2) if max_clusters < k <= cap]


def groups_apart(X: Any, weights: np.ndarray | None, most: int) -> int:
    """Number of groups that the structure test tells apart in ``most`` clusters by k-means."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return 1
    there = np.flatnonzero(np.isfinite(X).all(axis=1) & (True if weights is None else weights > 0))
    if len(there) > LARGEST:
        there = np.random.default_rng(0).choice(there, LARGEST, replace=False)
    Z = np.unique(X[there].astype(np.float64), axis=0)  # copies are no group
    if len(Z) < FEWEST:
        return 1
    Z /= max(float(np.abs(Z).max()), np.finfo(float).tiny)  # so that no square overflows
    one = np.ones(len(Z))
    Z = seeding.standardize(Z, one)
    labels = seeding.kmeans(Z, one, min(most, len(Z) // OBJECTS), np.random.default_rng(0))
    found = assess(Z, one_hot(encode(labels)), kind="features")
    return 1 if found is None else found.n_apart


def _cap(n_objects: int, max_clusters: int) -> int:
    return min(GROWTH * max_clusters, n_objects // OBJECTS)


def more_sizes(
    best: int, tried: Collection[int], n_objects: int, max_clusters: int = MOST
) -> list[int]:
    """Numbers to try next: some below the best where its neighbour was not tried, some above where
    it is the largest; a warning if there are no more.
    """
    below = range(max(min(tried), max_clusters + 1, best - best // 4), best)
    if below and best - 1 not in tried:
        return [k for k in below if k not in tried]
    largest = max(tried)
    fewer = largest < max_clusters  # there are no more different objects
    if best < largest or largest == n_objects or fewer:
        return []
    cap = _cap(n_objects, max_clusters)
    if largest >= cap:
        warn(
            f"the best number of clusters is the largest one tried, {largest}: there may be more; "
            f"raise max_clusters, or give the numbers to try, n_clusters=range(1, {2 * largest})"
        )
        return []
    return list(range(largest + 1, min(2 * largest, cap) + 1))
