"""The experiment of Rota Bulo, Lourenco, Fred and Pelillo (2010).

A table of ensembles by consensus methods, with the true number of clusters given.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import scale

from ..metrics import matched_accuracy
from ..models.consensus.ensemble import ClusteringEnsemble
from ..models.consensus.estimator import EvidenceAccumulation
from .shelf import Loaded, Outcome, ResultTable, Shelf, included, mean_and_deviation

METHODS = ("cluster-kernel", "coassociation", "single", "average", "complete")


def simulated_image(random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """640 points in the plane, made to resemble the unpublished image-complex set of the source."""
    rng = np.random.default_rng(random_state)
    sizes = (120, 60, 90, 90, 100, 60, 80, 40)
    turn = [2 * np.pi * rng.random(sizes[0]), *(np.pi * rng.random(size) for size in sizes[2:4])]
    along = [rng.uniform(-3.0, 3.0, size) for size in sizes[4:6]]
    shapes = [
        4.0 * np.column_stack([np.cos(turn[0]), np.sin(turn[0])]),
        np.zeros((sizes[1], 2)),
        2.0 * np.column_stack([np.cos(turn[1]), np.sin(turn[1])]) + [9.0, 0.0],
        2.0 * np.column_stack([np.cos(turn[2]), -np.sin(turn[2])]) + [11.0, 1.0],
        np.column_stack([along[0], np.full(sizes[4], 7.0)]),
        np.column_stack([along[1], np.full(sizes[5], 9.0)]),
        np.tile([9.0, 7.0], (sizes[6], 1)),
        np.tile([12.0, 8.0], (sizes[7], 1)),
    ]
    spread = np.repeat([0.2, 0.5, 0.15, 0.15, 0.2, 0.2, 0.7, 0.3], sizes)[:, None]
    labels = np.repeat(np.arange(8), sizes)
    return np.concatenate(shapes) + spread * rng.normal(size=(len(labels), 2)), labels


def evidence(shelf: Shelf) -> dict[str, Loaded]:
    """Data sets of scikit-learn, a simulated image, and those found on the shelf, by name."""
    wine, tumours = included("wine"), included("breast_cancer")
    others = ("house votes", "yeast cell cycle", "breast cancer")
    return {
        "iris": included("iris"),
        "wine": Loaded(scale(wine.X), wine.labels),
        "breast cancer (diagnostic)": Loaded(scale(tumours.X), tumours.labels),
        "digits": included("digits"),
        "image-complex (simulated)": Loaded(*simulated_image()),
    } | {name: loaded for name in others if (loaded := shelf.find(name)) is not None}


def table(
    shelf: Shelf,
    *,
    n_seeds: int = 10,
    n_members: int = 100,
    ensembles: Sequence[str] = ("SL", "CL", "AL", "KM", "All"),
) -> Outcome:
    """Matched accuracy of every consensus on every ensemble, and how often ours is best."""
    cells = {}
    for title, item in evidence(shelf).items():
        shelf.say(f"working on {title}")
        for name in ensembles:
            scores = [_scores(item, name, n_members, seed) for seed in range(n_seeds)]
            cells[title, name] = np.array(scores)
    rows = [
        (*key, *(mean_and_deviation(values[:, column]) for column in range(len(METHODS))))
        for key, values in cells.items()
    ]
    means = np.array([values.mean(axis=0) for values in cells.values()])
    rows.append(("mean", "", *(f"{value:.3f}".removeprefix("0") for value in means.mean(axis=0))))
    best = means[:, 2:].max(axis=1)
    notes = (
        f"{n_members} partitions an algorithm on 90% subsamples (All: of each of the four), "
        "numbers of clusters drawn from the true one to sqrt(n); the true number is given to every "
        f"consensus; {n_seeds} seed{'s' if n_seeds > 1 else ''}.",
        "coassociation: the source's model on the co-association of the ensemble; cluster-kernel: "
        "the same model on its cluster kernel.",
        "single, average, complete: linkage of 1 - co-association, as in the source.",
        *(f"{METHODS[column]}: {_share(means[:, column], best)}." for column in (0, 1)),
        f"the better of these two: {_share(means[:, :2].max(axis=1), best)}.",
        "Wine and the diagnostic data: standardised.",
        "image-complex, drawn by the authors, was never published: simulated to resemble it.",
        *shelf.notes.values(),
        "The source prints bar charts without numbers: no published figure to compare with.",
    )
    columns = ("data", "ensemble", *METHODS)
    title = "Consensus of base ensembles: matched accuracy"
    return Outcome(ResultTable(title, columns, rows, notes))


def _share(ours: np.ndarray, best: np.ndarray) -> str:
    reached, nearly = (np.mean(ours >= best - slack) for slack in (1e-9, 0.005))
    return f"at least the best linkage in {reached:.0%} of the cells, nearly so in {nearly:.0%}"


def _scores(item: Loaded, ensemble: str, n_members: int, seed: int) -> list[float]:
    """Accuracy of every method on one ensemble."""
    k = len(np.unique(item.labels))
    numbers = (k, max(k + 1, math.isqrt(len(item.X))))
    L = ClusteringEnsemble(
        n_members, algorithms=ensemble, n_clusters=numbers, random_state=seed
    ).fit_transform(item.X)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        settings: Any = {"ensemble": "precomputed", "random_state": seed}
        models = [EvidenceAccumulation(k, consensus=name, **settings).fit(L) for name in METHODS]
    return [float(matched_accuracy(item.labels, model.labels_)) for model in models]  # type: ignore[arg-type]
