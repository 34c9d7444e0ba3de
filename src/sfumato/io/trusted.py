"""Models and checkpoints on disk, with skops.

No pickles, and only classes of a short list are ever created.
"""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from ..array.memory import reserve
from ..array.text import plain
from ._tables import InputError
from .moving import whole_file

__all__ = ["load", "save", "skops", "untrusted"]

_OURS = (
    "sfumato.models.",
    "sfumato.numerics.",
    "sfumato.selection.choose.",
    "sfumato.similarity.",
    "sfumato.conjugate.",
    "sfumato.array.",
    "sfumato.data.",
    "sfumato.engine.",
)
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
    """The package that saves and loads, which takes a while to import."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "models are saved and loaded with skops: pip install 'sfumato[cli]'"
        ) from error
    return skops.io


def save(thing: Any, path: Path, token: str = "model") -> None:
    """Write an estimator or a checkpoint, whole or not at all."""
    with whole_file(path, token) as partial:
        skops().dump(thing, partial)


def untrusted(path: Path) -> list[str]:
    """Types in a file that are neither plain data nor ours."""
    _check_size(path)
    try:
        found = skops().get_untrusted_types(file=path)
    except MemoryError:
        raise
    except zipfile.BadZipFile as error:
        raise InputError(
            f"{plain(path.name)} is damaged, its checksums do not agree: delete it, and fit afresh"
        ) from error
    except Exception as error:  # whatever a damaged file makes the reader stumble over
        raise InputError(f"{plain(path.name)} is not a saved model: {plain(error, 100)}") from error
    return [name for name in found if name not in _OTHERS and not _is_ours(name)]


def _check_size(path: Path) -> None:
    """Refuse a file that is not a ZIP archive, or unpacks to more than memory holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise InputError(f"{plain(path.name)} is not a saved model: {plain(error, 100)}") from error
    reserve((size,), "u1", f"the model in {plain(path.name)}", "it may not be a model at all")


def _is_ours(name: str) -> bool:
    """Whether ``name`` is a class or function that this library defines in a module that models are
    made of.
    """
    module, _, attribute = name.rpartition(".")
    if not name.startswith(_OURS) or ".." in name:
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except (ImportError, ValueError):
        return False
    return getattr(found, "__module__", "").startswith("sfumato.")


def load(path: Path) -> Any:
    """What ``save`` wrote. A file that asks for any other type is refused, unread."""
    if not path.is_file():
        raise InputError(f"no model called {plain(path, 200)}")
    strange = untrusted(path)
    if strange:
        raise InputError(
            f"{plain(path.name)} asks for {plain(', '.join(strange), 120)}, which no model of "
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
