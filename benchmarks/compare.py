"""``python -m benchmarks.compare``.

Soft clusterings of ours and of the peers that are installed, on the same data; prints a table.

Four figures per method: adjusted Rand index of the labels, distance to the true posterior where
there is one (root mean square of the difference of memberships), mean largest membership less
accuracy (0 is honest, positive is too sure), and seconds of processor time
(the median).
"""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.mixture import GaussianMixture as SklearnMixture

import sfumato
from sfumato import datasets, metrics
from sfumato import memberships as ms

Method = Callable[[np.ndarray, int, int], np.ndarray]


def ours() -> dict[str, Method]:
    def estimator(name: str, **parameters: Any) -> Method:
        return lambda X, k, seed: (
            getattr(sfumato, name)(k, random_state=seed, **parameters).fit(X).memberships_
        )

    names = (
        "EvidenceAccumulation",
        "PairwiseProbabilisticClustering",
        "SpectralClustering",
        "FuzzyCMeans",
        "GaussianMixture",
    )
    found: dict[str, Method] = {f"sfumato {name}": estimator(name) for name in names}
    found["sfumato EvidenceAccumulation, its own k"] = lambda X, k, seed: (
        sfumato.EvidenceAccumulation(random_state=seed).fit(X).memberships_
    )
    return found


def peers() -> dict[str, Method]:
    """Those that can be imported, with their versions."""
    found: dict[str, Method] = {
        f"scikit-learn {version('scikit-learn')} GaussianMixture, 10 starts": lambda X, k, seed: (
            SklearnMixture(k, n_init=10, random_state=seed).fit(X).predict_proba(X)
        ),
        f"scikit-learn {version('scikit-learn')} KMeans, 10 starts (hard)": lambda X, k, seed: (
            ms.one_hot(KMeans(k, n_init=10, random_state=seed).fit_predict(X), k)
        ),
    }
    for package, module, method in (
        ("scikit-fuzzy", "skfuzzy", _scikit_fuzzy),
        ("fuzzy-c-means", "fcmeans", _fuzzy_c_means),
        ("soft-clustering", "soft_clustering", _soft_clustering_gmm),
        ("hdbscan", "hdbscan", _hdbscan),
    ):
        if importlib.util.find_spec(module):
            found[f"{package} {version(package)}{method.__doc__}"] = method
    return found


def version(package: str) -> str:
    return importlib.metadata.version(package)


def _scikit_fuzzy(X, k, seed):
    """"""
    import skfuzzy

    return skfuzzy.cmeans(X.T, k, 2.0, 1e-6, 1000, seed=seed)[1].T


def _fuzzy_c_means(X, k, seed):
    """"""
    from fcmeans import FCM

    model = FCM(n_clusters=k, random_state=seed)
    model.fit(X)
    return model.soft_predict(X)


def _soft_clustering_gmm(X, k, seed):
    """, GMM"""
    import soft_clustering

    return np.asarray(soft_clustering.GMM(n_components=k, random_state=seed).fit(X).memberships_)


def _hdbscan(X, k, seed):
    """, rows normalised, its own k"""
    import hdbscan

    model = hdbscan.HDBSCAN(min_cluster_size=15, prediction_data=True).fit(X)
    U = np.atleast_2d(hdbscan.all_points_membership_vectors(model).T).T
    U = np.where(np.isfinite(U), U, 0.0)
    total = U.sum(axis=1, keepdims=True)
    return np.where(total > 0, U / np.where(total > 0, total, 1.0), 1.0 / U.shape[1])


def problems(seed: int) -> dict[str, datasets.Simulated]:
    iris, wine = load_iris(), load_wine()
    return {
        "overlapping Gaussians": datasets.make_gaussians(450, 3, separation=3.0, random_state=seed),
        "stretched Gaussians": datasets.make_gaussians(
            450, 3, separation=4.0, elongation=5.0, random_state=seed
        ),
        "moons": datasets.make_moons(450, random_state=seed),
        "rings": datasets.make_rings(450, random_state=seed),
        "Iris": datasets.Simulated(iris.data, ms.one_hot(iris.target), iris.target),
        "wine": datasets.Simulated(wine.data, ms.one_hot(wine.target), wine.target),
        "wine, columns scaled": datasets.Simulated(
            (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0),
            ms.one_hot(wine.target),
            wine.target,
        ),
    }


def figures(
    method: Method, problem: datasets.Simulated, seed: int
) -> tuple[float, float, float, float]:
    X, truth, labels = problem
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        U = method(X, truth.shape[1], seed)
    seconds = time.process_time() - start
    found = U.argmax(axis=1)
    confidence = float(U.max(axis=1).mean()) - metrics.matched_accuracy(labels, found)
    if U.shape[1] == truth.shape[1] and not np.isin(truth, (0.0, 1.0)).all():
        aligned = ms.align(U, truth)
        distance = float(np.sqrt(np.mean(np.square(aligned - truth).sum(axis=1))))
    else:
        distance = np.nan
    return metrics.adjusted_rand_index(labels, found), distance, confidence, seconds


def main(n_seeds: int = 5) -> None:
    print(
        "| data | method | adjusted Rand | distance to the posterior | confidence less accuracy | "
        "seconds |"
    )
    print("|---|---|---|---|---|---|")
    for name in problems(0):
        for method_name, method in {**ours(), **peers()}.items():
            try:
                runs = [figures(method, problems(seed)[name], seed) for seed in range(n_seeds)]
                values = np.mean(runs, axis=0)
                seconds = np.median([run[3] for run in runs])  # not the first, which compiles
                cells = [
                    f"{values[0]:.3f}",
                    "" if np.isnan(values[1]) else f"{values[1]:.3f}",
                    f"{values[2]:+.3f}",
                    f"{seconds:.3f}",
                ]
            except Exception as error:
                cells = [f"failed: {type(error).__name__}", "", "", ""]
            print(f"| {name} | {method_name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
