"""The build backend: meson-python, with a C compiler from the package index where there is none.

``python backend/sfumato_build.py`` prints what an environment needs to build without isolation.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMPILERS = ("cc", "gcc", "clang", "icx", "cl")
COMPILER = "ziglang>=0.13"  # a wheel with the C compiler clang, for every platform


def has_compiler() -> bool:
    """Whether meson will find a C compiler."""
    visual = Path(os.environ.get("PROGRAMFILES(X86)", "")) / "Microsoft Visual Studio"
    found = any(shutil.which(name) for name in COMPILERS)
    return "CC" in os.environ or found or (os.name == "nt" and visual.exists())


def _more() -> list[str]:
    if has_compiler():
        return []
    print("sfumato: no C compiler was found; the build takes one from the package index")
    return [COMPILER]


@contextmanager
def _tools() -> Iterator[None]:
    """Tell meson where Cython is, and a compiler where the machine has none."""
    before = dict(os.environ)
    # An editable install builds again when a source changes, with whatever PATH there is then.
    cython = shutil.which("cython", path=sysconfig.get_path("scripts")) or shutil.which("cython")
    if cython is not None:
        os.environ.setdefault("CYTHON", cython)
    if not has_compiler():
        if find_spec("ziglang") is None:
            raise RuntimeError(
                "sfumato is built with a C compiler, and none was found (cc, gcc, clang, CC): "
                f"install one, or pip install '{COMPILER}'"
            )
        os.environ["CC"], os.environ["AR"] = _script("cc"), _script("ar")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _script(name: str) -> str:
    """A program that calls a part of the compiler of the package index."""
    folder = ROOT / "build" / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    # For every processor of the kind, as other compilers do, not only for this one.
    more = " -mcpu=baseline" if name == "cc" else ""
    if os.name == "nt":
        file = folder / f"{name}.bat"
        file.write_text(f'@"{sys.executable}" -m ziglang {name}{more} %*\n')
    else:
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {name}{more} "$@"\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(file)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    import mesonpy

    return [*mesonpy.get_requires_for_build_wheel(config_settings), *_more()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    import mesonpy

    return [*mesonpy.get_requires_for_build_editable(config_settings), *_more()]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    import mesonpy

    return [*mesonpy.get_requires_for_build_sdist(config_settings), *_more()]


def build_wheel(folder: str, config_settings: Any = None, metadata: Any = None) -> str:
    import mesonpy

    with _tools():
        return mesonpy.build_wheel(folder, config_settings, metadata)


def build_editable(folder: str, config_settings: Any = None, metadata: Any = None) -> str:
    import mesonpy

    with _tools():
        return mesonpy.build_editable(folder, config_settings, metadata)


def build_sdist(folder: str, config_settings: Any = None) -> str:
    import mesonpy

    with _tools():
        return mesonpy.build_sdist(folder, config_settings)


if __name__ == "__main__":
    import tomllib

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    more = [] if has_compiler() else [COMPILER]
    print(*pyproject["build-system"]["requires"], "ninja>=1.11", *more, sep="\n")
