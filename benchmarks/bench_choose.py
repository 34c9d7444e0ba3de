"""The true number of clusters found by the default and by peers, 18 families of data."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import silhouette_score

import sfumato

from .choose_sets import FAMILIES, SEEN, SET, wanted
from .timing import Line

TITLE = "How many clusters: the true number found, candidates 1 to 20"
DRAWS = int(os.environ.get("SFUMATO_DRAWS", "2"))
FIRST = int(os.environ.get("SFUMATO_FIRST", "0"))  # draw to begin with, for a run in parts
MOST, SEED = 20, 21000  # nothing was set on draws with this seed


def _silhouette(X: np.ndarray) -> int:
    fits = {k: KMeans(k, n_init=3, random_state=0).fit_predict(X) for k in range(2, MOST + 1)}
    return max(fits, key=lambda k: silhouette_score(X, fits[k]))


def _gap(X: np.ndarray) -> int:
    rng = np.random.default_rng(0)
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2]
    scores = (X - X.mean(axis=0)) @ axes.T
    draws = [rng.uniform(scores.min(axis=0), scores.max(axis=0), scores.shape) for _ in range(5)]
    spread = [
        [KMeans(k, n_init=1, random_state=0).fit(Y).inertia_ for k in range(1, MOST + 1)]
        for Y in (X, *draws)
    ]
    logs = np.log(np.maximum(spread, np.finfo(float).tiny))
    gap = logs[1:].mean(axis=0) - logs[0]
    error = logs[1:].std(axis=0) * np.sqrt(1 + 1 / len(logs[1:]))
    # The first gap that is at least the next one less its standard error.
    enough = gap[:-1] >= (gap - error)[1:]
    return int(np.argmax(enough)) + 1 if enough.any() else MOST


def _bic(X: np.ndarray) -> int:
    """BIC over fourteen families of covariances, as mclust does it."""
    return int(sfumato.GaussianMixture("auto", n_init=2, random_state=0).fit(X).n_clusters_)


def _hdbscan(X: np.ndarray) -> int:
    return int(HDBSCAN(min_cluster_size=max(5, len(X) // 50)).fit_predict(X).max()) + 1


def _ours(X: np.ndarray) -> int:
    return int(sfumato.EvidenceAccumulation("auto", random_state=0).fit(X).n_clusters_)


SEARCHES = {"ours": _ours, "HDBSCAN": _hdbscan, "silhouette": _silhouette, "gap": _gap, "BIC": _bic}


def _true_numbers() -> dict[str, dict[str, list[bool]]]:
    hits: dict[str, dict[str, list[bool]]] = {name: {} for name in SEARCHES}
    for draw in range(FIRST, FIRST + DRAWS):
        for place, (family, make) in enumerate(FAMILIES.items()):
            if not wanted(family):
                continue
            rng = np.random.default_rng([SEED, draw, place])
            X, truth = make(420 if family == "14 groups" else 240, rng)
            for name, search in SEARCHES.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    right = search(X) == truth.max() + 1
                hits[name].setdefault(family, []).append(right)
            print(family, draw, {name: hits[name][family][-1] for name in hits}, flush=True)
    return hits


def _share(values: list[bool]) -> float:
    return 100.0 * float(np.mean(values)) if values else math.nan


def run() -> list[Line]:
    lines = []
    hits = _true_numbers()
    groups = {
        "all families": tuple(FAMILIES),
        "families that set the test": SET,
        "families seen for the rule": SEEN,
        "families kept aside": tuple(f for f in FAMILIES if f not in SET + SEEN),
    }
    for group, families in groups.items():
        shares = {n: _share([h for f in families for h in hits[n].get(f, [])]) for n in SEARCHES}
        missed = [f for f in families if not all(hits["ours"].get(f, []))]
        for peer in list(SEARCHES)[1:]:
            what = f"true number found, {group} ({len(families)})"
            note = f"ours missed: {', '.join(missed)}" if peer == "HDBSCAN" and missed else ""
            line = Line(what, shares["ours"], shares[peer], peer, "%", "80", note, larger=True)
            lines.append(line)
    return lines
