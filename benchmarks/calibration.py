"""Where the constants of the structure test come from: simulations without clusters.

``python -m benchmarks.calibration`` prints them. Uniform clouds are the least favourable kind of
features without clusters; ``benchmarks noise`` reports on other kinds and other draws.

    TUNING.flat   mean and standard deviation of the valley z between two clusters of one cloud
    SEARCH_TESTS  number of independent tests that a search counts as: the smallest p value of all
                  numbers of clusters is at most LEVEL / SEARCH_TESTS in a share LEVEL of the clouds
    TUNING.waves  mean and standard deviation of the share that labels leave unexplained of the
                  eigenvectors of neighbour graphs of clouds in the plane
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

import sfumato
from sfumato.engine.structure import LEVEL, TUNING, assess
from sfumato.memberships import one_hot
from sfumato.similarity import knn

DRAWS = int(os.environ.get("SFUMATO_DRAWS", "12"))
DIMENSIONS, OBJECTS, NUMBERS = (2, 5, 10), (100, 200, 400), range(2, 9)
SEED = 5000  # of all draws here; the benchmarks that report have others


def _clouds() -> Iterator[np.ndarray]:
    for draw in range(DRAWS):
        for p in DIMENSIONS:
            for n in OBJECTS:
                yield np.random.default_rng([SEED, draw, p, n]).random((n, p))


def _labels(X: np.ndarray, k: int) -> dict[str, np.ndarray]:
    return {
        "k-means": KMeans(k, n_init=2, random_state=0).fit_predict(X),
        "mixture": GaussianMixture(k, regularization=1e-3, random_state=0).fit_predict(X),
        "Ward": AgglomerativeClustering(k).fit_predict(X),
    }


def _valleys(X: np.ndarray) -> dict[str, dict[int, float]]:
    """The statistic of every number of clusters, for every clusterer."""
    found: dict[str, dict[int, float]] = {}
    for k in NUMBERS:
        for name, labels in _labels(X, k).items():
            structure = assess(X, one_hot(labels, k), kind="features")
            if structure is not None:
                found.setdefault(name, {})[k] = structure.statistic if structure else -np.inf
    return found


def _features() -> None:
    searches = [values for X in _clouds() for values in _valleys(X).values()]
    two = np.array([values[2] for values in searches if np.isfinite(values[2])])
    print(f"flat = ({two.mean():.2f}, {two.std():.2f}) from {len(two)} clusterings in two")
    print(f"  above the threshold at {LEVEL}: {np.mean(_p_values(two) <= LEVEL):.3f}")
    smallest = _p_values(np.array([max(values.values()) for values in searches]))
    print(
        f"SEARCH_TESTS = {LEVEL / np.quantile(smallest, LEVEL):.1f} from {len(smallest)} searches"
    )


def _p_values(z: np.ndarray) -> np.ndarray:
    return np.asarray(ndtr((TUNING.flat[0] - z) / TUNING.flat[1]))


def _consensus() -> None:
    """The same for the default of features, whose search tries three kinds of evidence."""
    smallest = []
    for X in _clouds():
        model = sfumato.EvidenceAccumulation("auto", random_state=0).fit(X)
        smallest.append(10.0 ** -float(np.max(model.scores_)))
    print(
        f"SEARCH_TESTS of the consensus: {LEVEL / np.quantile(smallest, LEVEL):.1f}, {len(smallest)}"
    )


def _similarities() -> None:
    shares = []
    for draw in range(4 * DRAWS):
        W = knn(np.random.default_rng([SEED, draw]).random((150, 2)))
        model = sfumato.SpectralClustering(2, similarity="precomputed", random_state=0).fit(W)
        shares.append(model.structure_.statistic)
    print(f"waves = ({np.mean(shares):.3f}, {np.std(shares):.3f}) from {len(shares)} graphs")


def main() -> None:
    """Print the constants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _features()
        _similarities()
        _consensus()


if __name__ == "__main__":
    main()
