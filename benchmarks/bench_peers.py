"""Whole fits beside every peer that is installed (``make bench-peers`` does that).

Same data and clusters, and the quality of both.

Where both can be told to, they make one start and the same number of iterations; else both run to
the end of their own rule, and the note says how good the answers are.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as SklearnMixture

from sfumato import (
    ClusteringEnsemble,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)

from . import bench_consensus, roofline
from .timing import Line, medians

TITLE = "Whole fits beside the peers"
ITERATIONS = 20


def run() -> list[Line]:
    if not any(
        find_spec(name) for name in ("skfuzzy", "fcmeans", "soft_clustering", "consensusclustering")
    ):
        print("bench_peers: no peer is installed here; make bench-peers installs them")
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            *fuzzy(),
            *fuzzy_to_the_end(),
            *mixtures(),
            *mixtures_to_the_end(),
            *mclust(),
            *neighbours(),
            *consensus(),
            *clue(),
        ]


def blobs(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(n, n_features=d, centers=k, cluster_std=2.0, random_state=0)


def beside(
    what: str,
    ours: Callable[[], Any],
    peers: dict[str, Callable[[], Any]],
    note: str = "",
    limit: float = math.nan,
    repeats: int = 5,
) -> list[Line]:
    """A line a peer."""
    times = medians({"ours": ours, **peers}, repeats)
    return [
        Line(what, times["ours"], times[name], name, "s", ">= 1", note, limit=limit)
        for name in peers
    ]


def fuzzy(n: int = 20_000, d: int = 8, k: int = 8) -> list[Line]:
    """One start and so many iterations of each."""
    X, _ = blobs(n, d, k)
    peers: dict[str, Callable[[], Any]] = {}
    if find_spec("skfuzzy"):
        import skfuzzy

        peers["scikit-fuzzy"] = partial(skfuzzy.cmeans, X.T, k, 2.0, 0.0, ITERATIONS, seed=0)
    if find_spec("fcmeans"):
        from fcmeans import FCM

        peers["fuzzy-c-means"] = lambda: FCM(
            n_clusters=k, m=2.0, max_iter=ITERATIONS, error=1e-9, random_state=0
        ).fit(X)
    ours = FuzzyCMeans(k, fuzzifier=2.0, n_init=1, max_iter=ITERATIONS, tol=0.0, random_state=0)
    what = f"fuzzy c-means, n = {n}, d = {d}, k = {k}, one start, {ITERATIONS} iterations"
    limit = roofline.limit(8 * n * d * ITERATIONS, 4 * n * d * k * ITERATIONS)
    code = f"e1071::cmeans(X, {k}, iter.max = {ITERATIONS}, m = 2, control = list(reltol = 1e-15))"
    seconds = in_r(code, "0", X)
    other = (
        [
            Line(
                what,
                medians({"ours": partial(ours.fit, X)})["ours"],
                seconds[0],
                "R e1071",
                "s",
                ">= 1",
                limit=limit,
            )
        ]
        if seconds
        else []
    )
    return beside(what, partial(ours.fit, X), peers, limit=limit) + other


def fuzzy_to_the_end(n: int = 20_000, d: int = 8, k: int = 8) -> list[Line]:
    """Both as they come: scikit-fuzzy from one start until memberships move less than .005, ours
    from four until J settles.
    """
    if not find_spec("skfuzzy"):
        return []
    import skfuzzy

    X, _ = blobs(n, d, k)
    ours = FuzzyCMeans(k, fuzzifier=2.0, random_state=0)
    theirs = partial(skfuzzy.cmeans, X.T, k, 2.0, 0.005, 1000, seed=0)
    _, _, _, _, costs, steps, _ = theirs()
    ours.fit(X)
    note = (
        f"J {ours.objective_:.6g} and {costs[-1]:.6g}; 4 starts and 1; scikit-fuzzy makes {steps} "
        "iterations"
    )
    return beside(
        f"fuzzy c-means, n = {n}, d = {d}, k = {k}, to the end",
        partial(ours.fit, X),
        {"scikit-fuzzy": theirs},
        note,
    )


def mixtures(n: int = 20_000, d: int = 8, k: int = 8) -> list[Line]:
    X, _ = blobs(n, d, k)
    ours = GaussianMixture(k, n_init=1, max_iter=ITERATIONS, tol=0.0, random_state=0)
    peer = SklearnMixture(k, max_iter=ITERATIONS, tol=0.0, random_state=0)
    limit = roofline.limit(8 * n * d * ITERATIONS, 2 * n * d * (d + 3) * k * ITERATIONS)
    what = f"full mixture, n = {n}, d = {d}, k = {k}, one start, {ITERATIONS} iterations"
    return beside(
        what, partial(ours.fit, X), {"scikit-learn": partial(peer.fit, X)}, limit=limit, repeats=1
    )


def mixtures_to_the_end(n: int = 2000, d: int = 8, k: int = 8) -> list[Line]:
    """One start each, to the end: soft-clustering's from k-means, ours from agglomeration."""
    if not find_spec("soft_clustering"):
        return []
    import soft_clustering

    X, _ = blobs(n, d, k)
    ours = GaussianMixture(k, n_init=1, random_state=0).fit(X)
    theirs = soft_clustering.GMM(n_components=k, random_state=0)
    theirs.fit(X)
    steps = len(theirs.log_likelihood_trajectory_)
    note = (
        f"log-likelihood {n * ours.score(X):.1f} and {theirs.lower_bound_:.1f}; {ours.n_iter_} and "
        f"{steps} iterations"
    )
    what = f"full mixture, n = {n}, d = {d}, k = {k}, one start, to the end"
    return beside(what, partial(ours.fit, X), {"soft-clustering": partial(theirs.fit, X)}, note)


def mclust(d: int = 8, k: int = 8) -> list[Line]:
    """The same model, VVV, each to the end from its own start: agglomeration."""
    lines = []
    for n in (2000, 5000):
        X, _ = blobs(n, d, k)
        found = in_r(
            f'm <<- mclust::Mclust(X, G = {k}, modelNames = "VVV", verbose = FALSE)',
            "m$loglik",
            X,
            "library(mclust)",
            repeats=1,
        )
        if not found:
            return []
        ours = GaussianMixture(k, n_init=1, random_state=0)
        seconds = medians({"ours": partial(ours.fit, X)})["ours"]
        note = f"log-likelihood {n * ours.score(X):.1f} and {found[1]:.1f}"
        lines.append(
            Line(
                f"full mixture, n = {n}, d = {d}, k = {k}, to the end",
                seconds,
                found[0],
                "R mclust, VVV",
                "s",
                ">= 1",
                note,
            )
        )
    return lines


def neighbours(d: int = 8, k: int = 6) -> list[Line]:
    """From features to memberships by way of neighbours, hierarchy or graph, fit included."""
    if not find_spec("hdbscan"):
        return []
    import hdbscan

    def memberships(X: np.ndarray) -> Any:
        return hdbscan.all_points_membership_vectors(
            hdbscan.HDBSCAN(min_cluster_size=15, prediction_data=True).fit(X)
        )

    lines = []
    for n, repeats in ((600, 9), (5000, 3), (20_000, 1)):
        X, labels = blobs(n, d, k)
        ours, pairwise = (
            SpectralClustering(k, random_state=0),
            PairwiseProbabilisticClustering(k, random_state=0),
        )
        other = medians({"pairwise": partial(pairwise.fit, X)}, repeats)["pairwise"]
        found = (
            adjusted_rand_score(labels, ours.fit(X).labels_),
            adjusted_rand_score(labels, memberships(X).argmax(axis=1)),
        )
        note = (
            f"adjusted Rand index {found[0]:.3f} and {found[1]:.3f}; the pairwise model, with four "
            f"starts, takes {other:.3g} s"
        )
        what = f"SpectralClustering, memberships from neighbours, n = {n}, d = {d}"
        lines += beside(
            what, partial(ours.fit, X), {"hdbscan": partial(memberships, X)}, note, repeats=repeats
        )
    return lines


def consensus(n: int = 300, d: int = 8, k: int = 6, m: int = 50) -> list[Line]:
    """Consensus of as many resampled k-means with k clusters."""
    if not find_spec("consensusclustering"):
        return []
    from consensusclustering import ConsensusClustering

    X, _ = blobs(n, d, k)
    peer = ConsensusClustering(
        clustering_obj=KMeans(n_init=1), min_clusters=k, max_clusters=k + 1, n_resamples=m
    )
    ours = EvidenceAccumulation(
        k,
        ensemble=ClusteringEnsemble(m, algorithms="k-means", n_clusters=k, subsample=0.5),
        random_state=0,
    )
    what = f"consensus of {m} k-means, n = {n}"
    return beside(
        what, partial(ours.fit, X), {"consensusclustering": partial(peer.fit, X)}, repeats=1
    )


def clue() -> list[Line]:
    """As in ``bench_consensus``: the same objective on Iris."""
    return [line._replace(target=">= 1") for line in bench_consensus.beside_clue()[:1]]


def in_r(
    code: str, value: str, X: np.ndarray, before: str = "", repeats: int = 3
) -> tuple[float, float] | None:
    """Median seconds of a call in R and a number that it leaves.

    None without Rscript or the package.
    """
    if which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.csv"
        np.savetxt(path, X, delimiter=",")
        read = f'X <- as.matrix(read.csv("{path}", header = FALSE)); set.seed(0); {before}'
        script = f'{read}; s <- median(replicate({repeats}, system.time({code})[["elapsed"]])); cat("\\n", s, {value})'
        done = subprocess.run(
            ["Rscript", "-e", f"suppressMessages({{{script}}})"],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return None
    seconds, found = done.stdout.split()[-2:]
    return float(seconds), float(found)
