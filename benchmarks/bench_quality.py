"""The default for features beside its peers: shapes, further sets and real tables.

Mean adjusted Rand index, the number of clusters given and unknown. Tables are those of scikit-learn
and the files of ``--data DIR`` (comma-separated numbers, the classes in the last column). Peers
that are not installed are left out; ``VERBOSE=1`` prints every set.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

import sfumato
from sfumato.array.arrays import cpu_count

from .quality_sets import ASIDE, CHOOSING, REAL, make
from .quality_shapes import FURTHER
from .timing import Line

TITLE = "Quality of the default for features: mean adjusted Rand index"
MOST = 20  # clusters that a search over k tries, for all that search
LARGE = 200_000  # numbers in a table beyond which the slow ones are not asked

Set = tuple[np.ndarray, np.ndarray]
Method = Callable[[np.ndarray, int], np.ndarray]


def _genie(X: np.ndarray, k: int) -> np.ndarray:
    from genieclust import Genie  # its licence keeps it out of our dependencies

    return Genie(n_clusters=k).fit_predict(X)


def _leiden(X: np.ndarray, k: int) -> np.ndarray:
    import igraph  # the licences of both keep them out of our dependencies
    import leidenalg

    Y = PCA(min(50, *X.shape)).fit_transform(X)
    W = kneighbors_graph(Y, min(15, len(X) - 1)).maximum(kneighbors_graph(Y, 15).T).tocoo()
    graph = igraph.Graph(len(X), list(zip(W.row.tolist(), W.col.tolist(), strict=True)))
    found = leidenalg.find_partition(
        graph.simplify(), leidenalg.RBConfigurationVertexPartition, seed=0
    )
    return np.array(found.membership)


def _mapped(X: np.ndarray) -> np.ndarray:
    from umap import UMAP

    return UMAP(n_neighbors=15, min_dist=0.0, random_state=0).fit_transform(X)


def _mclust(X: np.ndarray, k: int) -> np.ndarray:
    if shutil.which("Rscript") is None:
        raise ImportError("R is not installed")
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder) / "x.csv", X, delimiter=",")
        call = f'library(mclust); m <- Mclust(read.csv("x.csv", header=FALSE), G={k or "1:20"}, '
        call += 'verbose=FALSE); write(m$classification, "y.txt", 1)'
        subprocess.run(["Rscript", "-e", call], cwd=folder, check=True, capture_output=True)
        return np.loadtxt(Path(folder) / "y.txt").ravel()


def _hdbscan(X: np.ndarray, k: int) -> np.ndarray:
    return HDBSCAN(min_cluster_size=max(5, len(X) // 50), copy=True).fit_predict(X)


def _bic(X: np.ndarray, k: int) -> np.ndarray:
    fits = [GaussianMixture(j, random_state=0).fit(X) for j in range(1, min(MOST, len(X) // 3) + 1)]
    return min(fits, key=lambda fit: fit.bic(X)).predict(X)


def _silhouette(X: np.ndarray, k: int) -> np.ndarray:
    fits = [KMeans(j, n_init=3, random_state=0).fit_predict(X) for j in range(2, MOST + 1)]
    return max(fits, key=lambda labels: silhouette_score(X, labels))


KNOWN: dict[str, Method] = {
    "ours": lambda X, k: sfumato.EvidenceAccumulation(k, random_state=0).fit_predict(X),
    "our mixture": lambda X, k: sfumato.GaussianMixture(k, random_state=0).fit_predict(X),
    "Genie": _genie,
    "SpectralClustering": lambda X, k: SpectralClustering(
        k, affinity="nearest_neighbors", random_state=0
    ).fit_predict(X),
    "GaussianMixture": lambda X, k: GaussianMixture(k, n_init=3, random_state=0).fit_predict(X),
    "KMeans": lambda X, k: KMeans(k, n_init=5, random_state=0).fit_predict(X),
    "KMeans, scaled": lambda X, k: KMeans(k, n_init=5, random_state=0).fit_predict(
        StandardScaler().fit_transform(X)
    ),
    "UMAP, KMeans": lambda X, k: KMeans(k, n_init=5, random_state=0).fit_predict(_mapped(X)),
    "mclust": _mclust,
}
UNKNOWN: dict[str, Method] = {
    "ours": lambda X, k: sfumato.EvidenceAccumulation(random_state=0).fit_predict(X),
    "HDBSCAN": _hdbscan,
    "Leiden": _leiden,
    "GaussianMixture, BIC": _bic,
    "KMeans, silhouette": _silhouette,
    "UMAP, HDBSCAN": lambda X, k: _hdbscan(_mapped(X), k),
    "mclust": lambda X, k: _mclust(X, 0),
}
SLOW = ("SpectralClustering", "GaussianMixture, BIC", "KMeans, silhouette", "mclust")


def parts() -> dict[str, dict[str, Set]]:
    """Sets of every part and half."""
    found: dict[str, dict[str, Set]] = {
        "shapes looked at": {name: make(name) for name in CHOOSING if name not in REAL},
        "shapes kept aside": {name: make(name) for name in ASIDE if name not in REAL},
        "further sets, all kept aside": {
            name: draw(np.random.default_rng(i)) for i, (name, draw) in enumerate(FURTHER.items())
        },
    }
    tables = {name: make(name) for name in REAL} | given()
    names = sorted(tables)
    found["tables looked at"] = {name: tables[name] for name in names[::2]}
    found["tables kept aside"] = {name: tables[name] for name in names[1::2]}
    return found


def given() -> dict[str, Set]:
    """Tables of ``--data DIR``: objects of which nothing is missing, and their classes."""
    tables = {}
    if folder := os.environ.get("SFUMATO_TABLES"):
        for path in sorted(Path(folder).glob("*.csv")):
            values = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)
            X = values[:, :-1].astype(float)
            known = np.isfinite(X).all(axis=1)
            tables[path.stem] = X[known], np.unique(values[known, -1], return_inverse=True)[1]
    return tables


def _score(name: str, data: Set, method: str, known: bool) -> tuple[float, float]:
    """Adjusted Rand index, and number of clusters less the true one; NaN without the peer."""
    X, y = data
    k = len(np.unique(y))
    if method in SLOW and X.size > LARGE:
        return math.nan, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = np.asarray((KNOWN if known else UNKNOWN)[method](X.copy(), k))
        except ImportError:
            return math.nan, math.nan
        except Exception as error:  # a peer that fails has found nothing
            print(name, method, repr(error)[:100], flush=True)
            return 0.0, math.nan
    found = adjusted_rand_score(y, labels), len(set(labels.tolist()) - {-1}) - k
    if os.environ.get("VERBOSE"):
        print(f"{name} {X.shape} {k} {method}: {found[0]:.3f} {found[1]:+d}", flush=True)
    return found


def run() -> list[Line]:
    return compare(parts())


def compare(parts: dict[str, dict[str, Set]]) -> list[Line]:
    """Means over the sets of every part, ours beside every peer."""
    lines = []
    for known, methods in ((True, KNOWN), (False, UNKNOWN)):
        for part, sets in parts.items():
            tasks = [(name, method) for name in sets for method in methods]
            scores = Parallel(cpu_count())(
                delayed(_score)(name, sets[name], method, known) for name, method in tasks
            )
            found = np.array(scores).reshape(len(sets), len(methods), 2)
            title = f"k {'given' if known else 'unknown'}, {part} ({len(sets)})"
            for i, peer in enumerate(methods):
                both = np.isfinite(found[:, i, 0])
                if i == 0 or not both.any():
                    continue
                right = (found[both][:, [0, i], 1] == 0).mean(axis=0)
                note = "" if known else f"right k {right[0]:.0%}, {peer} {right[1]:.0%}"
                note += "" if both.all() else f" on {both.sum()} sets"
                ours, theirs = found[both][:, [0, i], 0].mean(axis=0)
                lines.append(Line(title, ours, theirs, peer, "", "", note, True))
    return lines
