"""Learning the similarity: error on new data against the number of irrelevant features (after Bach
and Jordan 2006).
"""

from __future__ import annotations

import warnings

import numpy as np

from .. import datasets
from ..metrics import matched_accuracy
from ..models.spectral.estimator import SpectralClustering
from ..similarity import gaussian, learn_scales
from .outcome import Outcome, ResultTable, mean_and_deviation
from .shelf import Shelf

__all__ = ["table"]

IRRELEVANT = (0, 1, 2, 4, 8)
N_OBJECTS = 120


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Matched accuracy on a data set that was not learnt from, with equal and with learnt
    scales.
    """
    rows = []
    for name, make in (("Moons", datasets.make_moons), ("Circles", datasets.make_circles)):
        for extra in IRRELEVANT:
            shelf.say(f"working on {name} with {extra} irrelevant features")
            pairs = [_one(make, extra, seed) for seed in range(n_seeds)]
            equal, learnt = zip(*pairs, strict=True)
            rows.append((name, str(extra), mean_and_deviation(equal), mean_and_deviation(learnt)))
    notes = (
        f"Two data sets of {N_OBJECTS} objects from one generator: the partition of the first is "
        "known, the second is clustered.",
        "Irrelevant features are normal with the spread of the others. Equal scales: the best of "
        "three bandwidths on the first set.",
        f"{n_seeds} pairs of data sets. The source shows curves of its own toy data, without "
        "numbers.",
    )
    columns = ("data", "irrelevant features", "equal scales", "learnt scales")
    return Outcome(ResultTable("Learning the scales of features", columns, rows, notes))


def _one(make: object, extra: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    (X, y), (new, truth) = (_drawn(make, extra, rng) for _ in range(2))
    k = len(np.unique(y))
    widths = {width: _accuracy(X, y, k, 1.0 / width) for width in (0.1, 0.2, 0.4)}
    equal = _accuracy(new, truth, k, 1.0 / max(widths, key=lambda width: widths[width]))
    return equal, _accuracy(new, truth, k, learn_scales(X, y, max_iter=60))


def _drawn(make: object, extra: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    drawn = make(N_OBJECTS, random_state=int(rng.integers(2**31)))  # type: ignore[operator]
    noise = rng.normal(scale=drawn.evidence.std(), size=(N_OBJECTS, extra))
    return np.hstack([drawn.evidence, noise]), drawn.labels


def _accuracy(X: np.ndarray, y: np.ndarray, k: int, scales: np.ndarray | float) -> float:
    W = gaussian(X * scales, bandwidth=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SpectralClustering(k, similarity="precomputed", random_state=0).fit(W + 1e-12)
    return float(matched_accuracy(y, model.labels_))
