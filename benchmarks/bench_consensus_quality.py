"""Evidence accumulation: adjusted Rand index over shapes, calibration of the memberships, and the
number of clusters.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import HDBSCAN, SpectralClustering
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from sfumato import ClusteringEnsemble, EvidenceAccumulation, datasets
from sfumato.memberships import align

from .timing import Line

TITLE = "Evidence accumulation: quality of the default pipeline"
N_DRAWS = 10
N_SEEDS = 3


def run() -> list[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [*calibration(), *shapes()]


def calibration() -> list[Line]:
    """Three overlapping Gaussians.

    Confidence less accuracy, distance to the true posterior, and how often k = 3 is found.
    """
    lines = []
    for separation in (2.5, 3.5, 5.0):
        figures = []
        for seed in range(N_DRAWS):
            simulated = datasets.make_gaussians(600, 3, separation=separation, random_state=seed)
            fitted = EvidenceAccumulation(3, random_state=seed).fit(simulated.evidence)
            U = align(fitted.memberships_, simulated.memberships)
            accuracy = np.mean(U.argmax(axis=1) == simulated.labels)
            distance = np.sqrt(np.mean(np.sum((U - simulated.memberships) ** 2, axis=1)))
            found = EvidenceAccumulation(random_state=seed).fit(simulated.evidence)
            right = found.n_clusters_ == 3
            figures.append((U.max(axis=1).mean() - accuracy, distance, right))
        gap, distance, right = np.mean(figures, axis=0)
        lines += [
            Line(
                f"separation {separation}: confidence less accuracy",
                abs(gap),
                0.04,
                "limit",
                "",
                "<= .04",
                f"{gap:+.3f}",
            ),
            Line(
                f"separation {separation}: distance to the posterior",
                distance,
                0.14,
                "limit",
                "",
                "<= .14",
            ),
            Line(
                f"separation {separation}: true k found",
                right,
                0.8,
                "aim",
                "",
                "",
                "",
                True,
            ),
        ]
    return lines


def shapes() -> list[Line]:
    """Mean adjusted Rand index, true k given, beside average linkage on the same co-association and
    three peers.
    """
    scores = {
        name: np.mean([_scores(*data_sets(seed)[name], seed) for seed in range(N_SEEDS)], axis=0)
        for name in data_sets(0)
    }
    mean = np.mean(list(scores.values()), axis=0)
    peers = ("average linkage, same co-association", "SpectralClustering, kNN", "HDBSCAN", "Genie")
    lines = [
        Line(
            name,
            row[0],
            row[1],
            peers[0],
            "",
            "",
            "  ".join(
                f"{peer} {value:.3f}" for peer, value in zip(peers[1:], row[2:], strict=True)
            ),
            True,
        )
        for name, row in scores.items()
    ]
    return lines + [
        Line("mean", mean[0], value, peer, "", "> 1", "", True)
        for peer, value in zip(peers, mean[1:], strict=True)
    ]


def _scores(X: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    k = len(np.unique(y))
    L = ClusteringEnsemble(random_state=seed).fit_transform(X)
    models = [
        EvidenceAccumulation(k, ensemble="precomputed", consensus=name, random_state=seed)
        for name in ("cluster-kernel", "average")
    ]
    labels = [model.fit(L).labels_ for model in models]
    labels.append(
        SpectralClustering(k, affinity="nearest_neighbors", random_state=seed).fit_predict(X)
    )
    labels.append(HDBSCAN(min_cluster_size=max(5, len(X) // 50), copy=True).fit_predict(X))
    return [adjusted_rand_score(y, found) for found in labels] + [_genie(X, y, k)]


def _genie(X: np.ndarray, y: np.ndarray, k: int) -> float:
    """Genie where genieclust is installed (its licence keeps it out of our dependencies), else
    nothing.
    """
    try:
        from genieclust import Genie
    except ImportError:
        return float("nan")
    return adjusted_rand_score(y, Genie(k).fit_predict(X))


def data_sets(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Fifteen data sets: seven well known, eight of our own."""
    rng = np.random.default_rng(seed)
    stretched, labels = make_blobs(500, random_state=170 + seed)
    wine = load_wine(return_X_y=True)
    rings, spirals = (
        datasets.make_rings(600, 3, random_state=seed),
        datasets.make_spirals(600, 2, random_state=seed),
    )
    arms, crescents = (
        datasets.make_spirals(600, 3, random_state=seed),
        datasets.make_moons(600, random_state=seed),
    )
    return {
        "moons": make_moons(500, noise=0.08, random_state=seed),
        "circles": make_circles(500, factor=0.5, noise=0.06, random_state=seed),
        "anisotropic blobs": (stretched @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels),
        "varied blobs": make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170 + seed),
        "Iris": load_iris(return_X_y=True),
        "wine": (StandardScaler().fit_transform(wine[0]), wine[1]),
        "digits": load_digits(return_X_y=True),
        "three rings": (rings.evidence, rings.labels),
        "two spirals": (spirals.evidence, spirals.labels),
        "three spirals": (arms.evidence, arms.labels),
        "crescents": (crescents.evidence, crescents.labels),
        "unequal sizes": _gaussians(rng, (400, 80, 30), ((0, 0), (5, 0), (0, 5)), (1, 1, 1)),
        "unequal densities": _gaussians(
            rng, (200, 200, 200), ((0, 0), (4, 0), (9, 4)), (0.3, 1, 2)
        ),
        "blobs in noise": _in_noise(rng),
        "two bars and a disc": _bars(rng),
    }


def _gaussians(
    rng: np.random.Generator, sizes: tuple, centers: tuple, spreads: tuple
) -> tuple[np.ndarray, np.ndarray]:
    parts = [
        spread * rng.standard_normal((size, 2)) + center
        for size, center, spread in zip(sizes, centers, spreads, strict=True)
    ]
    return np.concatenate(parts), np.repeat(np.arange(len(sizes)), sizes)


def _in_noise(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three blobs and a background; a background object belongs to the nearest blob."""
    centers = np.array([[0, 0], [6, 0], [3, 5]])
    X, y = _gaussians(rng, (150, 150, 150), tuple(centers), (1, 1, 1))
    background = rng.uniform(-3, 9, (60, 2))
    nearest = np.argmin(np.linalg.norm(background[:, None] - centers, axis=2), axis=1)
    return np.concatenate([X, background]), np.concatenate([y, nearest])


def _bars(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    bars = [
        np.stack([rng.uniform(-4, 4, 200), height + 0.3 * rng.standard_normal(200)], axis=1)
        for height in (0, 2)
    ]
    disc = 0.5 * rng.standard_normal((150, 2)) + [7, 1]
    return np.concatenate([*bars, disc]), np.repeat([0, 1, 2], [200, 200, 150])
