"""Held-out accuracy of discriminative clustering and two alternatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from ..array.types import Array
from ..models.discriminative.estimator import DiscriminativeClustering
from ..numerics.contingency import log_posterior, mutual_information
from .shelf import Loaded, Outcome, ResultTable, Shelf, included, mean_and_deviation


def simulated_vehicle(random_state: int = 0, n: int = 846) -> tuple[np.ndarray, np.ndarray]:
    """Four classes of two silhouettes each, five of 18 correlated features informative: as many as
    the Statlog vehicle data. Three factors unrelated to the class carry most of the variance.
    """
    rng = np.random.default_rng(random_state)
    relevant = np.arange(18) < 5
    silhouettes = 1.2 * rng.normal(size=(4, 2, 18)) * relevant
    loadings = 2.0 * rng.normal(size=(3, 18)) * np.where(relevant, 0.2, 1.0)
    c, kind = rng.integers(4, size=n), rng.integers(2, size=n)
    return silhouettes[c, kind] + rng.normal(size=(n, 18)) + rng.normal(size=(n, 3)) @ loadings, c


def data_sets(shelf: Shelf) -> dict[str, Loaded]:
    """Features and classes by name; the vehicle data are simulated if the shelf has none."""
    vehicle = shelf.find("vehicle")
    name = "vehicle (simulated)" if vehicle is None else "vehicle"
    return {
        "digits": included("digits"),
        "wine": included("wine"),
        "breast cancer (diagnostic)": included("breast_cancer"),
        name: vehicle or Loaded(*simulated_vehicle()),
    }


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Our model, k-means and a Gaussian mixture per class, on ``n_seeds`` held-out halves."""
    rows = []
    for name, (X, c) in data_sets(shelf).items():
        k = {"digits": 20, "vehicle": 12, "vehicle (simulated)": 12}.get(name, 6)
        shelf.say(f"working on {name}")
        splits = StratifiedShuffleSplit(n_seeds, test_size=0.5, random_state=0).split(X, c)
        halves = enumerate(splits)
        scores = np.array([_split(X, c, k, train, test, seed) for seed, (train, test) in halves])
        for m, method in enumerate(("discriminative", "k-means", "mixture per class")):
            cells = [mean_and_deviation(scores[:, m, measure]) for measure in (0, 1)]
            p = ["", ""]
            if m and n_seeds > 1:
                p = [f"{value:.1g}" for value in ttest_rel(scores[:, 0], scores[:, m]).pvalue]
            rows.append((name, method, str(k), cells[0], p[0], cells[1], p[1]))
    notes = (
        "Every method is given the features, standardised on the training half; the classes go to "
        "all but k-means.",
        f"Means and deviations over {n_seeds} halves held out; the Voronoi cells (most probable "
        "Gaussians) are found on the other half.",
        "Log posterior: of the held-out classes given the cells, per object, prior counts 1. p: "
        "paired t-test of ours against that row.",
        "Mixture per class: a Gaussian mixture with one covariance for each class (mixture "
        "discriminant analysis).",
        "The source prints no figures: there is nothing to compare these with.",
        *shelf.notes_on("vehicle"),
    )
    measured = ("log posterior", "p (log posterior)", "mutual information")
    columns = ("data", "clusters from", "clusters", *measured, "p (mutual information)")
    return Outcome(ResultTable("Clusters made for a class, held out", columns, rows, notes))


def _split(
    X: Array, c: np.ndarray, k: int, train: np.ndarray, test: np.ndarray, seed: int
) -> list[tuple[float, float]]:
    """Held-out log posterior per object and mutual information, for each of the three methods."""
    scaler = StandardScaler().fit(X[train])
    A, B, a, b = scaler.transform(X[train]), scaler.transform(X[test]), c[train], c[test]
    partitions: list[Callable[[Any], np.ndarray]] = [
        DiscriminativeClustering(k, random_state=seed).fit(A, a).predict,
        KMeans(k, n_init=4, random_state=seed).fit(A).predict,
        mixture_per_class(A, a, k, seed),
    ]
    scores = []
    for partition in partitions:
        counts = np.zeros((k, c.max() + 1))
        np.add.at(counts, (partition(B), b), 1.0)
        posterior = log_posterior(counts, np.ones(counts.shape[1])) / len(test)
        scores.append((posterior, mutual_information(counts)))
    return scores


def mixture_per_class(
    X: np.ndarray, c: np.ndarray, k: int, seed: int
) -> Callable[[Any], np.ndarray]:
    """Function that assigns rows to the most probable of k Gaussians, fitted class by class."""
    sizes = np.bincount(c)
    shares = np.ones(len(sizes), dtype=int)
    while shares.sum() < k:
        shares[np.argmax(sizes / (shares + 0.5))] += 1
    given: Any = {"covariance_type": "tied", "n_init": 4, "reg_covar": 1e-3, "random_state": seed}
    mixtures = [GaussianMixture(m, **given).fit(X[c == i]) for i, m in enumerate(shares)]
    priors = np.log(sizes / sizes.sum())

    def partition(X: Array) -> np.ndarray:
        within = [
            prior + mixture.score_samples(X)[:, None] + np.log(mixture.predict_proba(X) + 1e-300)
            for prior, mixture in zip(priors, mixtures, strict=True)
        ]
        return np.concatenate(within, axis=1).argmax(axis=1)

    return partition
