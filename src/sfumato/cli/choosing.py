"""choose, and --clusters auto: how many clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..io import InputError, Roles, Table, read
from .models import make
from .terminal import Terminal

__all__ = ["automatic", "choose"]

_OWN_CHOICE = ("gaussian-mixture", "consensus")


def automatic(model: str, estimator: Any, table: Table, terminal: Terminal) -> Any:
    """The estimator, set to the number of clusters that the data speak for."""
    if model in _OWN_CHOICE:
        return estimator.set_params(n_clusters="auto")
    if model == "dirichlet-process":
        return estimator
    raise InputError(f"--clusters auto does not apply to {model}: give a number, or use gaussian-mixture, dirichlet-process or consensus")


def choose(
    data: str,
    roles: Roles,
    model: str,
    candidates: range,
    similarity: str | None,
    settings: tuple[str, ...],
    seed: int,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """A table of scores, one for each number of clusters."""
    make(model, None, seed=seed, similarity=similarity, settings=settings)
    read(data, roles)
    raise InputError("choosing the number of clusters is not available in this version")
