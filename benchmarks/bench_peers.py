"""Whole fits beside every peer that is installed (``make bench-peers`` does that): same data, clusters, starts and iterations."""

from __future__ import annotations

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
from sklearn.mixture import GaussianMixture as SklearnMixture

from sfumato import EvidenceAccumulation, FuzzyCMeans, GaussianMixture, PairwiseProbabilisticClustering

from .timing import Line, medians

TITLE = "Whole fits beside the peers"
ITERATIONS = 20


def run() -> list[Line]:
    if not any(find_spec(name) for name in ("skfuzzy", "fcmeans", "soft_clustering", "consensusclustering")):
        print("bench_peers: no peer is installed here; make bench-peers installs them")
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*fuzzy(), *mixtures(), *others()]


def blobs(n: int, d: int, k: int) -> np.ndarray:
    return make_blobs(n, n_features=d, centers=k, cluster_std=2.0, random_state=0)[0]


def beside(what: str, ours: Callable[[], Any], peers: dict[str, Callable[[], Any]], repeats: int = 1) -> list[Line]:
    """A line a peer."""
    times = medians({"ours": ours, **peers}, repeats)
    return [Line(what, times["ours"], times[name], name, "s", ">= 1") for name in peers]


def fuzzy(n: int = 20_000, d: int = 8, k: int = 8) -> list[Line]:
    X = blobs(n, d, k)
    peers: dict[str, Callable[[], Any]] = {}
    if find_spec("skfuzzy"):
        import skfuzzy

        peers["scikit-fuzzy"] = partial(skfuzzy.cmeans, X.T, k, 2.0, 0.0, ITERATIONS, seed=0)
    if find_spec("fcmeans"):
        from fcmeans import FCM

        peers["fuzzy-c-means"] = lambda: FCM(n_clusters=k, m=2.0, max_iter=ITERATIONS, error=1e-9, random_state=0).fit(X)
    ours = FuzzyCMeans(k, n_init=1, max_iter=ITERATIONS, tol=0.0, random_state=0)
    lines = beside(f"fuzzy c-means, n = {n}, d = {d}, k = {k}, {ITERATIONS} iterations", partial(ours.fit, X), peers)
    code = f"e1071::cmeans(X, {k}, iter.max = {ITERATIONS}, m = 2, control = list(reltol = 1e-15))"
    return lines + in_r(f"fuzzy c-means, n = {n}, d = {d}, k = {k}, {ITERATIONS} iterations", "R e1071", code, X, partial(ours.fit, X))


def mixtures(n: int = 20_000, d: int = 8, k: int = 8, few: int = 2000) -> list[Line]:
    X = blobs(n, d, k)
    ours = GaussianMixture(k, n_init=1, max_iter=ITERATIONS, tol=0.0, random_state=0)
    peer = SklearnMixture(k, max_iter=ITERATIONS, tol=0.0, random_state=0)
    what = f"full mixture, d = {d}, k = {k}, {ITERATIONS} iterations"
    lines = beside(f"{what}, n = {n}", partial(ours.fit, X), {"scikit-learn": partial(peer.fit, X)})
    if find_spec("soft_clustering"):
        import soft_clustering

        fit = partial(soft_clustering.GMM(n_components=k, random_state=0).fit, X[:few])
        lines += beside(
            f"full mixture, d = {d}, k = {k}, n = {few}, own stopping rules", partial(ours.fit, X[:few]), {"soft-clustering": fit}
        )
    return lines


def others(n: int = 600, d: int = 8, k: int = 6) -> list[Line]:
    """Soft memberships without given features' densities: hdbscan; consensus of 100 resampled k-means: consensusclustering."""
    X = blobs(n, d, k)
    lines = []
    if find_spec("hdbscan"):
        import hdbscan

        def memberships() -> Any:
            return hdbscan.all_points_membership_vectors(hdbscan.HDBSCAN(min_cluster_size=15, prediction_data=True).fit(X))

        lines += beside(
            f"memberships from neighbours, n = {n}",
            partial(PairwiseProbabilisticClustering(k, random_state=0).fit, X),
            {"hdbscan": memberships},
        )
    if find_spec("consensusclustering"):
        from consensusclustering import ConsensusClustering

        peer = ConsensusClustering(clustering_obj=KMeans(n_init=1), min_clusters=k, max_clusters=k + 1, n_resamples=100)
        lines += beside(
            f"consensus of 100 clusterings, n = {n}",
            partial(EvidenceAccumulation(k, random_state=0).fit, X),
            {"consensusclustering": partial(peer.fit, X)},
        )
    return lines


def in_r(what: str, name: str, code: str, X: np.ndarray, ours: Callable[[], Any]) -> list[Line]:
    """A line for a call in R, timed there; none without Rscript or the package."""
    if which("Rscript") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.csv"
        np.savetxt(path, X, delimiter=",")
        read = f'X <- as.matrix(read.csv("{path}", header = FALSE)); set.seed(0)'
        script = f'{read}; cat(median(replicate(3, system.time({code})[["elapsed"]])))'
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
    if done.returncode:
        return []
    return [Line(what, medians({"ours": ours}, 3)["ours"], float(done.stdout.split()[-1]), name, "s", ">= 1")]
