"""False and missed alarms of the structure test, by model, features and objects.

A false alarm is a warning about clear groups that the fit found again (an adjusted Rand index of at
least 0.99). A missed alarm is a confident fit to noise that the test supports.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import sfumato
from sfumato.metrics import adjusted_rand_index

from .timing import Line

TITLE = "The structure test: false alarms about clear groups, missed alarms about noise"
DRAWS = int(os.environ.get("SFUMATO_DRAWS", "2"))
SEED = int(os.environ.get("SFUMATO_SEED", "31000"))  # nothing was set on draws with this seed
FEATURES, OBJECTS = (
    tuple(map(int, os.environ.get(f"SFUMATO_{name}", usual).split(",")))
    for name, usual in (("FEATURES", "2,5,10,20,50"), ("OBJECTS", "100,400,2500,100000"))
)
CLUSTERS = {"clear": (2, 5, 9), "noise": (2, 5)}
APART = 8.0  # least distance of two centres, in standard deviations of a group
RIGHT, CONFIDENT = 0.99, 0.75


def _models(k: int, n: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"Gaussian, {kind}": sfumato.GaussianMixture(k, covariance_type=kind, random_state=0)
        for kind in ("full", "tied", "diag", "spherical")
    }
    found["fuzzy c-means"] = sfumato.FuzzyCMeans(k, random_state=0)
    if n <= 2500:
        found["Student"] = sfumato.StudentMixture(k, covariance_type="full", random_state=0)
        found["Gaussian, auto"] = sfumato.GaussianMixture(k, random_state=0)
    if n <= 400:
        found["consensus"] = sfumato.EvidenceAccumulation(k, random_state=0)
    return found


def _groups(rng: np.random.Generator, n: int, p: int, k: int) -> Iterator[tuple[str, Any, Any]]:
    """Groups of several families (n, p) and whose objects they are (n,)."""
    for family in ("round", "long", "unequal", "heavy", "flat"):
        shares = rng.dirichlet(np.full(k, 3.0)) if family == "unequal" else np.full(k, 1 / k)
        sizes = np.maximum(rng.multinomial(n, shares), max(8, n // (6 * k)))
        y = np.repeat(np.arange(k), sizes)
        X = rng.normal(size=(len(y), p))
        if family == "heavy":
            X /= np.sqrt(rng.chisquare(5, size=(len(y), 1)) / 5)
        if family == "flat":
            X = rng.uniform(-1.7, 1.7, size=X.shape)
        if family == "long":
            for c in range(k):
                turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
                X[y == c] = X[y == c] * np.exp(rng.uniform(-1.5, 0.0, size=p)) @ turn
        X += _centers(rng, k, p)[y]
        X = X @ rng.normal(size=(p, p)) if family == "long" else X * 10.0 ** rng.integers(-2, 3)
        yield family, X, y


def _centers(rng: np.random.Generator, k: int, p: int) -> np.ndarray:
    """Centres whose least distance is APART."""
    centers = rng.normal(size=(k, p))
    gaps = np.sqrt(((centers[:, None] - centers[None]) ** 2).sum(axis=2))
    return centers * (APART / gaps[np.triu_indices(k, 1)].min())


def _noise(rng: np.random.Generator, n: int, p: int) -> Iterator[tuple[str, Any, None]]:
    yield "normal", rng.normal(size=(n, p)), None
    yield "uniform", rng.random((n, p)), None
    yield "skewed", rng.exponential(size=(n, p)), None
    yield "correlated", rng.normal(size=(n, p)) @ rng.normal(size=(p, p)), None


def _alarm(model: Any, X: np.ndarray, y: np.ndarray | None) -> bool | None:
    """Whether the fit warned wrongly, or failed to warn; None where that is not the question."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    if model.structure_ is None:
        return None
    if y is not None:
        right = adjusted_rand_index(y, model.labels_) >= RIGHT
        return not model.structure_.supported if right else None
    confident = float(model.memberships_.max(axis=1).mean()) > CONFIDENT
    return model.structure_.supported if confident else None


def _rates(what: str, p: int, n: int) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    for draw in range(DRAWS if n <= 2500 else 1):
        for k in CLUSTERS[what]:
            rng = np.random.default_rng([SEED, draw, p, n, k])
            sets = _groups(rng, n, p, k) if what == "clear" else _noise(rng, n, p)
            for family, X, y in sets:
                for name, model in _models(k, n).items():
                    if name in ("Gaussian, full", "Student") and n < 10 * p * k:
                        continue  # more parameters than the objects can tell
                    alarm = _alarm(model, X, y)
                    if alarm is not None:
                        found.setdefault(name, []).append((family, alarm))
                    if alarm and "-v" in sys.argv:
                        print(what, family, name, p, n, k, model.structure_, flush=True)
    return found


def run() -> list[Line]:
    """Print the table, a line for every model, number of features and number of objects."""
    total: dict[str, list[bool]] = {"clear": [], "noise": []}
    print(f"{'':16} {'p':>3} {'n':>6} {'false alarms':>14} {'missed alarms':>14}")
    for p in FEATURES:
        for n in OBJECTS:
            clear, noise = _rates("clear", p, n), _rates("noise", p, n)
            for name in sorted(set(clear) | set(noise)):
                cells = [[alarm for _, alarm in each.get(name, [])] for each in (clear, noise)]
                shown = [f"{sum(cell)} of {len(cell)}" for cell in cells]
                print(f"{name:16} {p:3d} {n:6d} {shown[0]:>14} {shown[1]:>14}", flush=True)
                total["clear"] += cells[0]
                total["noise"] += cells[1]
    for what, alarms in total.items():
        print(f"{what}: {sum(alarms)} of {len(alarms)}, {np.mean(alarms):.2%}")
    return []


if __name__ == "__main__":
    run()
