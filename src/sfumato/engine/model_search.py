"""The candidates of a mixture's search over numbers of clusters and shapes, one table for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ModelCandidate", "ModelSearch"]

NAN = float("nan")


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
