"""Sfumato: probabilistic clustering from features, similarities or other clusterings."""

from importlib import import_module
from typing import Any

from .models import MODELS

__version__ = "0.1.0"

_HOMES = {
    **{model.name: f"models.{model.module}" for model in MODELS},
    "EvidenceWarning": "core.warn",
    "MemoryBudgetError": "core.memory",
    "show_versions": "core.versions",
}
_MODULES = (
    "conjugate",
    "dask",
    "datasets",
    "memberships",
    "metrics",
    "plot",
    "report",
    "selection",
    "similarity",
)

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
