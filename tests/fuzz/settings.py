"""Parameters and arguments of ``fit``, drawn: every option of every estimator now and then."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

import sfumato
from sfumato import conjugate
from sfumato.models import MODELS

from . import evidence

CHEAP = {
    "n_init": 1,
    "max_iter": 30,
    "n_members": 3,
    "burn_in": 5,
    "n_draws": 5,
    "max_clusters": 4,
}
FAMILIES = ("full", "tied", "diag", "spherical", "EVE", "VEI", "EEV", "auto")
SIMILARITIES = ("cluster-kernel", "knn", "self-tuning", "gaussian", "cosine")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "covariance_type": FAMILIES,
    "noise_cluster": (None, 0.1, 3.0),
    "fuzzifier": (2.0, 1.3, 4.0, 1.0),
    "entropy": (None, 0.1, 1e-9, 1e9),
    "metric": ("mahalanobis", "gaussian", evidence.kernel),
    "solver": ("coordinate", "baum-eagon", "gradient"),
    "method": ("normalized-cut", "ng-jordan-weiss", "bach-jordan"),
    "rounding": ("k-means", "weighted-k-means", KMeans(2, n_init=1)),
    "similarity": SIMILARITIES,
    "normalization": (None, "relative-entropy", "frobenius", "l1", "symmetric"),
    "diagonal": ("include", "exclude"),
    "scale": ("fit", 1.0, 1e-200, 0.0),
    "inference": ("variational", "gibbs"),
    "concentration": ((1.0, 1.0), 0.01, 1e6, (1e-9, 1e9)),
    "component": (
        conjugate.NormalInverseGamma,
        conjugate.DirichletMultinomial,
        conjugate.BetaBinomial,
    ),
    "criterion": ("bic", "icl", "aic"),
    "prior": (None, "default"),
    "regularization": (0.0, 1e-9, 1e-2),
    "degrees_of_freedom": ("common", "each", 1.0, 1e5),
    "n_factors": (0, 1, 2, 9),
    "shared_uniquenesses": (True, False),
    "smoothing": (0.0, 1.0, 1e9),
    "n_components": (1, 2, "auto", (1, 3)),
    "consensus": (
        "coassociation",
        "coassociation-likelihood",
        "single",
        "complete",
        "cspa",
        "hgpa",
        "mcla",
        "hbgf",
    ),
    "n_bootstrap": (0, 3),
    "algorithms": ("k-means", "single", "ward", "All", KMeans(2, n_init=1)),
    "subsample": (0.1, 0.5, 1.0),
    "feature_fraction": (0.1, 1.0),
    "n_cuts": (1, 3),
    "n_axes": (1, 20),
    "max_objects": (5, 20000),
    "beta": (0.1, 1e6),
    "anneal": (True, False),
    "algorithm": ("map", "distortion", "online"),
    "bandwidth": (1e-9, 1.0, 1e9),
    "spread": (1e-3, np.inf),
    "size_penalty": (0.0, 1.0, 1e6),
}
PRIORS = {"DiscriminativeClustering": (1.0, 1e-9, 1e9)}  # a number there, a name elsewhere
COMPONENTS = {"MixtureEnsemble": (None, 1, (1, 3))}


def made(name: str, kind: str, rng: np.random.Generator) -> Any:
    """An estimator with cheap loops and some parameters drawn."""
    cls = getattr(sfumato, name)
    known = inspect.signature(cls).parameters
    chosen: dict[str, Any] = {key: value for key, value in CHEAP.items() if key in known}
    if "n_clusters" in known:
        chosen["n_clusters"] = [1, 2, 3, 8, "auto"][int(rng.integers(5))]
    for key, values in SETTINGS.items():
        if key not in known or rng.random() >= 0.15:
            continue
        values = PRIORS.get(name, values) if key == "prior" else values
        values = COMPONENTS.get(name, values) if key == "n_components" else values
        chosen[key] = values[int(rng.integers(len(values)))]
    if kind == "similarity":
        chosen["similarity"] = "precomputed"
    if kind in ("labelings", "members"):
        chosen["ensemble"] = "precomputed"
    elif "ensemble" in known and rng.random() < 0.15:
        chosen["ensemble"] = sfumato.ClusteringEnsemble(6, algorithms="k-means", random_state=0)
    if "random_state" in known:
        chosen["random_state"] = int(rng.integers(100))
    return cls(**chosen)


def kinds(name: str) -> tuple[str, ...]:
    """Kinds of evidence that an estimator reads, with those that only some can."""
    usual = next((entry.evidence for entry in MODELS if entry.name == name), ("features",))
    more = {
        "MixedMixture": ("frame", "frame"),
        "EvidenceAccumulation": ("members",),
        "PairwiseProbabilisticClustering": ("holes",),
        "SpectralClustering": ("holes",),
    }
    return (*usual, *more.get(name, ()))


def arguments(model: Any, X: Any, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """What ``fit`` is given beside X: classes, weights, links, errors of measurement."""
    known = inspect.signature(model.fit).parameters
    name = type(model).__name__
    extra: dict[str, Any] = {}
    if name in ("DiscriminativeClustering", "MixtureClassifier"):
        extra["y"] = rng.integers(0, int(rng.choice([1, 2, 3])), n)
    elif "must_link" in known and rng.random() < 0.1:
        extra["y"] = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), -1)
    if "sample_weight" in known:
        extra["sample_weight"] = evidence.weights(rng, n)
    if "partition_weight" in known and rng.random() < 0.2:
        m = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else len(X)
        extra["partition_weight"] = evidence.weights(rng, m)
    for key in ("must_link", "cannot_link"):
        if key in known and rng.random() < 0.15:
            extra[key] = evidence.pairs(rng, n)
    if "pair_weight" in known and rng.random() < 0.2:
        extra["pair_weight"] = evidence.pair_weights(rng, n)
    if "measurement_error" in known and rng.random() < 0.2:
        extra["measurement_error"] = evidence.errors(rng, X)
    return extra
