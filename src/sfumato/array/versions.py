"""Versions of the library and of what it stands on, for reports of a problem."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "sfumato", "numpy", "scipy", "scikit-learn", "matplotlib", "typer", "rich", "jinja2",
    "skops", "pyarrow", "polars", "fastexcel", "narwhals", "dask", "distributed",
    "array-api-compat", "torch", "cupy", "faiss-cpu", "filelock",
)  # fmt: skip


def show_versions() -> None:
    """Print the versions of Python, of this library and of the packages it uses.

    Paste the output into a report of a problem.

    Examples
    --------
    >>> import sfumato
    >>> sfumato.show_versions()  # doctest: +ELLIPSIS
    python ...
    """
    rows = {"python": sys.version.split()[0], "system": platform.platform()}
    for package in _PACKAGES:
        try:
            rows[package] = version(package)
        except PackageNotFoundError:
            rows[package] = "not installed"
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))
