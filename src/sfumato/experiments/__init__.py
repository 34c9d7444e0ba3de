"""The sources' tables and figures, run again: published beside measured.

Each experiment is a function ``run(data=None, *, n_seeds=10) -> Outcome``; ``EXPERIMENTS`` names them for the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._outcome import Outcome, Table

__all__ = ["EXPERIMENTS", "Outcome", "Table", "run"]

EXPERIMENTS = {
    "similarity-table": "similarity:table",
    "similarity-figures": "similarity_figures:figures",
    "consensus-table": "consensus:table",
    "discriminative-table": "discriminative:table",
    "rounding-table": "rounding:table",
    "mixture-steps": "mixture_steps:figures",
}


def run(name: str, data: Any = None, *, n_seeds: int = 10) -> Outcome:
    """Run one experiment by its name; ``data`` is a folder with the data sets that do not come with scikit-learn."""
    if name not in EXPERIMENTS:
        raise ValueError(f"name must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    module, function = EXPERIMENTS[name].split(":")
    return getattr(import_module(f".{module}", __name__), function)(data, n_seeds=n_seeds)
