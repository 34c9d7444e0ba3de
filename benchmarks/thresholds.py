"""Every threshold that is cheap to move, at half and at twice its value.

The constants are those of docs/thresholds.md, the table goes to RESULTS.md.

Run as ``python -m benchmarks.thresholds``. A threshold below one half is halved and doubled; of one
above, such as a level of agreement, the distance to one is.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine

import sfumato
from sfumato import datasets
from sfumato.metrics import adjusted_rand_index
from sfumato.selection import choose_n_clusters


class Threshold(NamedTuple):
    """Where a number stands, and what to measure as it moves."""

    module: str
    name: str
    what: str
    measure: Callable[[], str]


def blobs(seed: int, k: int = 3, n: int = 150) -> np.ndarray:
    """Round Gaussian groups, five standard deviations apart."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 5 * np.stack([np.arange(n) % k, np.arange(n) % k % 2], axis=1)


def square(seed: int, n: int = 150) -> np.ndarray:
    """A uniform square: no groups."""
    return np.random.default_rng(seed).random((n, 2))


def warned(fits: list[Callable[[], object]]) -> str:
    """How many of the fits warn about their evidence."""
    count = 0
    for fit in fits:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fit()
        count += any(issubclass(one.category, sfumato.EvidenceWarning) for one in said)
    return f"{count} of {len(fits)}"


def process() -> str:
    """Clusters that a Dirichlet process finds in iris, wine and three groups."""
    found = []
    for X in (load_iris().data, load_wine().data, blobs(0)):
        found.append(sfumato.DirichletProcessMixture(n_init=2, random_state=0).fit(X).n_clusters_)
    return ", ".join(map(str, found))


def continuum() -> str:
    """Warnings of spectral clustering: uniform squares, and three groups."""
    fits = [
        [partial(sfumato.SpectralClustering(3, random_state=0).fit, draw(s)) for s in range(4)]
        for draw in (square, blobs)
    ]
    return "; ".join(map(warned, fits))


def structure() -> str:
    """Warnings of fuzzy c-means: uniform squares, and two groups."""
    draws = (square, lambda seed: blobs(seed, 2))
    fits = [
        [partial(sfumato.FuzzyCMeans(2, random_state=0).fit, draw(s)) for s in range(10)]
        for draw in draws
    ]
    return "; ".join(map(warned, fits))


def labelings() -> str:
    """Numbers of clusters by eigengap in six sets of labelings with four clusters, one of them
    small.
    """
    sizes = np.repeat(np.arange(4), (50, 40, 30, 5))
    truth = sfumato.memberships.one_hot(sizes) * 0.8 + 0.05
    found = []
    for seed in range(6):
        L = datasets.make_labelings(
            len(sizes), 4, memberships=truth, n_members=30, random_state=seed
        ).evidence
        model = sfumato.EvidenceAccumulation("auto", ensemble="precomputed", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(model.fit(L).n_clusters_)
    return ", ".join(map(str, found))


def halves() -> str:
    """Numbers of clusters by k-means and held-out halves: four groups, then squares."""
    found = []
    for X in (blobs(0, 4), blobs(1, 4), square(0), square(1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = KMeans(n_init=2, random_state=0)
            choice = choose_n_clusters(model, X, range(1, 7), criterion="held-out", random_state=0)
            found.append(choice.n_clusters)
    return ", ".join(map(str, found))


def discriminative() -> str:
    """Agreement with the classes of iris and wine at three clusters.

    Warnings with shuffled classes.
    """
    scores = []
    for data in (load_iris(), load_wine()):
        model = sfumato.DiscriminativeClustering(3, n_init=2, random_state=0)
        scores.append(adjusted_rand_index(data.target, model.fit(data.data, data.target).labels_))
    X, y = load_iris().data, load_iris().target
    fits = [
        lambda s=s: sfumato.DiscriminativeClustering(2, n_init=1, random_state=0).fit(
            X, np.random.default_rng(s).permutation(y)
        )
        for s in range(5)
    ]
    return f"{scores[0]:.2f}, {scores[1]:.2f}; {warned(fits)}"


def consensus() -> str:
    """Agreement with the classes of iris and wine by the consensus of features."""
    scores = []
    for data in (load_iris(), load_wine()):
        model = sfumato.EvidenceAccumulation(3, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(adjusted_rand_index(data.target, model.fit(data.data).labels_))
    return ", ".join(f"{score:.2f}" for score in scores)


def numbers() -> str:
    """Numbers of clusters by spectral clustering: wine, three groups, moons; three normal clouds."""
    rng = np.random.default_rng(0)
    sets = [
        load_wine().data,
        datasets.make_gaussians(150, 3, separation=4, random_state=0).evidence,
        datasets.make_moons(150, random_state=0).evidence,
        *(rng.normal(size=(150, 2)) for _ in range(3)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [sfumato.SpectralClustering(random_state=0).fit(X).n_clusters_ for X in sets]
    return ", ".join(map(str, found))


MODELS = "sfumato.models."
THRESHOLDS = [
    Threshold("sfumato.components.conjugate", "TUNING.kappa", process.__doc__ or "", process),
    Threshold(f"{MODELS}spectral", "CONTINUUM", continuum.__doc__ or "", continuum),
    Threshold("sfumato.engine.structure", "LEVEL", structure.__doc__ or "", structure),
    Threshold("sfumato.engine.structure", "CONFIDENT", structure.__doc__ or "", structure),
    Threshold("sfumato.numerics.label_table", "REGULARIZATION", labelings.__doc__ or "", labelings),
    *(
        Threshold("sfumato.engine.numbers", name, numbers.__doc__ or "", numbers)
        for name in ("MISFIT_PENALTY", "NOISE")
    ),
    Threshold("sfumato.selection._evidence", "TUNING.perfect", halves.__doc__ or "", halves),
    *(
        Threshold(
            f"{MODELS}discriminative.problem",
            f"TUNING.{name}",
            discriminative.__doc__ or "",
            discriminative,
        )
        for name in ("gain", "chance", "evident", "above_chance")
    ),
    Threshold(f"{MODELS}consensus.mixtures", "TUNING.prior", consensus.__doc__ or "", consensus),
    Threshold("sfumato.numerics.axes", "RIDGE", consensus.__doc__ or "", consensus),
]


def moved(value: float) -> tuple[float, float]:
    """The value at half and at twice; of levels near one, their distance to one."""
    if 0.5 < value < 1:
        return 1 - 2 * (1 - value), 1 - (1 - value) / 2
    return value / 2, 2 * value


def found_at(module: object, name: str) -> float:
    """A constant, or the field of a record of them."""
    for part in name.split("."):
        module = getattr(module, part)
    return module  # type: ignore[return-value]


def put(module: ModuleType, name: str, value: float) -> None:
    """Give a constant, or the field of a record, another value wherever it was imported."""
    record, _, field = name.partition(".")
    old = getattr(module, record)
    new = old._replace(**{field: value}) if field else value
    folder = module.__name__.rpartition(".")[0]
    others = [part for name, part in sys.modules.items() if name.startswith(folder)]
    for part in [module, *(others if field else [])]:
        if getattr(part, record, None) is old:
            setattr(part, record, new)


def main() -> None:
    """Print the table."""
    print("| where | value | measured | at half | as it is | at twice |\n|---|---|---|---|---|---|")
    usual: dict[Callable[[], str], str] = {}
    for threshold in THRESHOLDS:
        module = importlib.import_module(threshold.module)
        value = found_at(module, threshold.name)
        usual.setdefault(threshold.measure, threshold.measure())
        found = []
        for trial in moved(value):
            put(module, threshold.name, trial)
            found.append(threshold.measure())
        put(module, threshold.name, value)
        where = f"`{threshold.module.removeprefix('sfumato.')}.{threshold.name}`"
        what = " ".join(threshold.what.split()).rstrip(".")
        cells = (where, f"{value:g}", what, found[0], usual[threshold.measure], found[1])
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
