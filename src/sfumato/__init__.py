"""Sfumato: probabilistic clustering from features, similarities or other clusterings."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from . import models

__version__ = "0.1.0"

_MODULES = (
    "conjugate", "dask", "datasets", "growth", "memberships", "metrics", "plot", "report",
    "selection", "similarity",
)  # fmt: skip


def _homes() -> dict[str, str]:
    """Public classes and the modules that define them, read from the table of models each time."""
    return {
        **{model.name: f"models.{model.module}" for model in models.MODELS},
        "EvidenceWarning": "array.warn",
        "MemoryBudgetError": "array.validation",
        "MixtureClassifier": "models.classifier",
        "Start": "components.gaussian",
        "show_versions": "array.versions",
    }


# "from sfumato import *" must not fail if dask, an extra, is not installed.
_PRESENT = tuple(name for name in _MODULES if name != "dask" or find_spec("dask"))

__all__ = ["__version__", *_homes(), *_PRESENT]


def __getattr__(name: str) -> Any:
    home = _homes().get(name)
    if home is not None:
        return getattr(import_module(f".{home}", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"__version__", *_homes(), *_MODULES})
