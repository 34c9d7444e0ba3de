"""Versions of the library and its dependencies, for bug reports."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "sfumato", "numpy", "scipy", "scikit-learn", "matplotlib", "typer", "rich", "jinja2",
    "skops", "pyarrow", "polars", "fastexcel", "narwhals", "dask", "distributed",
    "array-api-compat", "torch", "cupy", "faiss-cpu", "filelock",
)  # fmt: skip


def show_versions() -> None:
    """Print the versions of Python, of this library and of its dependencies.

    Paste the output into bug reports.

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
