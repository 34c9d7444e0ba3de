"""reproduce: the sources' tables and figures, run again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .. import papers
from ..array.text import plain
from ..io import InputError
from ..io.output import Output, check_folder
from .terminal import Terminal


def reproduce(
    name: str, out: Path, data: Path | None, offline: bool, n_seeds: int, force: bool
) -> None:
    """Run one experiment; print its table and write it, with its pictures, to a folder.

    The folder is written whole or not at all.
    """
    if name not in (*papers.EXPERIMENTS, "all"):
        raise InputError(
            f"EXPERIMENT must be one of {', '.join(papers.EXPERIMENTS)} or all, got "
            f"'{plain(name, 80)}'"
        )
    if data is not None and not data.is_dir():
        raise InputError(f"--data: {plain(data, 200)} is not a folder")
    os.environ.setdefault("MPLBACKEND", "Agg")
    shelf = papers.Shelf(data, online=not offline, say=Terminal().remark)
    check = check_folder(
        "a folder of tables and pictures", lambda path: path.suffix in (".md", ".csv", ".png")
    )
    with Output(out, check, force=force) as output, output.folder() as partial:
        for each in papers.EXPERIMENTS if name == "all" else [name]:
            _write(each, papers.run(each, shelf, n_seeds=n_seeds), partial)
    for path in sorted(out.iterdir()):
        print(path)


def _write(name: str, outcome: Any, folder: Path) -> None:
    if outcome.table is not None:
        print(outcome.table.markdown(), flush=True)
        (folder / f"{name}.md").write_text(outcome.table.markdown(), encoding="utf-8")
        (folder / f"{name}.csv").write_text(outcome.table.csv(), encoding="utf-8")
    for file, figure in (outcome.figures or {}).items():
        figure.savefig(folder / file, dpi=120)
