"""The command line on small tables with odd cells and odd words."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sfumato.models import MODELS

from .judge import FindingError, attempt

ODD = ["", "NA", "1e400", "12 %", "text", "'", '"', "1,5", "\x00", "-", "1e-320", "\ufeff"]
OPTIONS = (
    ["--scale", "none"],
    ["--scale", "robust"],
    ["--scale", "standard"],
    ["--no-header"],
    ["--header"],
    ["--delimiter", ";"],
    ["--encoding", "latin-1"],
    ["--encoding", "no-such"],
    ["--id-column", "id"],
    ["--weight-column", "w"],
    ["--class-column", "class"],
    ["--columns", "a,c"],
    ["--columns", "1,2"],
    ["--drop", "a"],
    ["--drop", "a,c,w,id,class"],
    ["--strict"],
    ["--json"],
    ["--seed", "7"],
    ["--similarity", "precomputed"],
    ["--similarity", "knn"],
    ["--set", "n_init=1"],
    ["--set", "n_init=none"],
    ["--set", "covariance_type=full"],
    ["--set", "consensus=mcla"],
    ["--set", "noise_cluster=0.1"],
    ["--set", "nothing=1"],
)
CODES = (0, 2, 3, 4)


def command(rng: np.random.Generator) -> str:
    """Run a command or three on a small table; only exit codes with a meaning are allowed."""
    from sfumato.cli import main

    text = _table(rng)
    with TemporaryDirectory() as folder:
        Path(folder, "table.csv").write_bytes(text.encode())
        lines = _lines(folder, rng)
        for words in lines:
            code = attempt(lambda words=words: main(words))
            if code not in CODES:
                raise FindingError(f"exit code {code} of {words} on {text!r}")
    return f"{lines} on {text[:40]!r}"


def _table(rng: np.random.Generator) -> str:
    """A table with columns of names, weights and classes, some cells odd."""
    n = int(rng.choice([1, 2, 6, 20]))
    names = ["a", "=b", "c", "w", "class", "id"]
    rows = [[f"{value:.3g}" for value in row] for row in rng.normal(size=(n, 3))]
    rows = [[*row, str(i % 3), "xyz"[i % 3], f"o{i}"] for i, row in enumerate(rows)]
    if rng.random() < 0.4:
        names = [str(rng.choice(["a", "c\rd", "", "x,y", "w"])) for _ in names]
    if rng.random() < 0.5:
        rows[int(rng.integers(n))][int(rng.integers(6))] = str(rng.choice(ODD))
    if rng.random() < 0.1:
        rows[-1] = rows[-1][:3]
    delimiter = str(rng.choice([",", ";", "\t"]))
    ending = str(rng.choice(["\n", "\r\n"]))
    return ending.join([delimiter.join(names), *(delimiter.join(row) for row in rows), ""])


def _lines(folder: str, rng: np.random.Generator) -> list[list[str]]:
    """Command lines to run one after the other."""
    file, out = str(Path(folder, "table.csv")), str(Path(folder, "out"))
    models = [model.command for model in MODELS if model.command]
    name = str(models[int(rng.integers(len(models)))])
    some = rng.choice(len(OPTIONS), size=int(rng.choice([0, 1, 3])), replace=False)
    options = [word for place in some for word in OPTIONS[place]]
    clusters = ["--clusters", str(rng.choice(["2", "2", "1", "auto"]))]
    fit = ["fit", file, "-m", name, *clusters, "--out", out, "--quiet", *options]
    kind = rng.random()
    if kind < 0.5:
        return [fit]
    if kind < 0.7:
        after = ["predict", out, file, "--out", str(Path(folder, "new.csv"))]
        return [fit, after, ["report", out], ["inspect", out]]
    if kind < 0.8:
        return [["consensus", file, *clusters, "--out", out, "--quiet"], ["inspect", file]]
    if kind < 0.9:
        return [["score", file, file, *(["--column", "class"] if rng.random() < 0.5 else [])]]
    return [["choose", file, "-m", "gaussian-mixture", "--to", "3", "--quiet"]]
