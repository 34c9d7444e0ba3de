"""The public functions of memberships, metrics, similarity, selection, conjugate and plot."""

from __future__ import annotations

from typing import Any

import numpy as np

import sfumato
from sfumato import conjugate, datasets, growth, memberships, metrics, selection, similarity
from sfumato.selection.criteria import CRITERIA as NAMES

from . import evidence
from .judge import attempt, no_nan
from .settings import made

PAIRS = (
    "rand_index",
    "adjusted_rand_index",
    "pair_f1",
    "pair_precision",
    "pair_recall",
    "pair_confusion",
    "normalized_mutual_information",
    "adjusted_mutual_information",
    "matched_accuracy",
    "brier_score",
    "calibration_curve",
)
ROWS = (
    "harden",
    "entropy",
    "margin",
    "sizes",
    "cooccurrence",
    "project_simplex",
    "most_uncertain",
    "strongest",
    "check_memberships",
)
CRITERIA = (*NAMES, "auto")


def function(rng: np.random.Generator) -> str:
    """Call one public function."""
    drawn = (_of_rows, _of_pairs, _of_features, _of_similarity, _of_priors, _of_datasets)
    name, call, given, options = drawn[int(rng.integers(len(drawn)))](rng)
    no_nan(attempt(lambda: call(*given, **options), *given, *options.values()), name)
    shapes = tuple(getattr(thing, "shape", thing) for thing in given)
    return f"{name}{shapes}, {options}"


Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def _one(rng: np.random.Generator, *calls: tuple[Any, ...]) -> Call:
    call, given, options = calls[int(rng.integers(len(calls)))]
    return call.__name__, call, given, options


def _of_rows(rng: np.random.Generator) -> Call:
    U = evidence.memberships(rng)
    others = [U, *(evidence.memberships(rng, len(U)) for _ in range(2))]
    labels = rng.integers(-1, 3, len(U))
    weight = {"sample_weight": evidence.weights(rng, len(U))}
    return _one(
        rng,
        *((getattr(memberships, name), (U,), {}) for name in ROWS),
        (memberships.align, (U, others[1]), {}),
        (memberships.average, (others,), {"partition_weight": evidence.weights(rng, 3)}),
        (memberships.average, ([U, U],), {}),
        (memberships.one_hot, (labels,), {}),
        (memberships.sizes, (U,), weight),
        (memberships.cooccurrence, (U, evidence.pairs(rng, len(U))), {}),
        (selection.fit_temperature, (U, labels), weight),
        (selection.temper, (U, float(rng.choice([0.0, 1e-9, 0.5, 3.0, 1e9, -1.0]))), {}),
        (growth.growth_step, (U, rng.random(U.shape) * float(rng.choice([0, 1, 1e300]))), {}),
    )


def _of_pairs(rng: np.random.Generator) -> Call:
    U = evidence.memberships(rng)
    n = len(U)
    sides = [U, evidence.memberships(rng, n), rng.integers(-1, 3, n), rng.integers(0, 9, n)]
    left, right = sides[int(rng.integers(4))], sides[int(rng.integers(4))]
    weight = {"sample_weight": evidence.weights(rng, n)} if rng.random() < 0.4 else {}
    interval = {"interval": 0.9} if rng.random() < 0.1 else {}
    missing = {"missing": str(rng.choice(["ignore", "cluster", "singletons"]))}
    X = rng.normal(size=(n, 2)) * float(rng.choice(evidence.SCALES))
    table = rng.poisson(3.0, size=(2, 3)) * float(rng.choice([0.0, 1.0, 1e6]))
    return _one(
        rng,
        *((getattr(metrics, name), (left, right), {**weight, **missing}) for name in PAIRS),
        *((getattr(metrics, name), (left, right), {**weight}) for name in PAIRS),
        (metrics.partition_coefficient, (U,), {**weight, **interval, "normalized": True}),
        (metrics.partition_entropy, (U,), {**weight, **interval}),
        (metrics.fuzzy_silhouette, (X, U), {**weight, **interval}),
        (metrics.xie_beni, (X, U), {**weight, **interval}),
        (metrics.contingency_bayes_factor, (table,), {}),
    )


def _of_features(rng: np.random.Generator) -> Call:
    X = evidence.features(rng)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    weights = {"sample_weight": evidence.weights(rng, n)} if rng.random() < 0.3 else {}
    near = {"n_neighbors": int(rng.choice([1, 5, 100])), **weights}
    labels = rng.integers(0, 2, n)
    return _one(
        rng,
        (similarity.gaussian, (X,), weights),
        (similarity.gaussian, (X, X), {"bandwidth": float(rng.choice([1e-200, 1.0, 1e200]))}),
        (similarity.self_tuning, (X,), near),
        (similarity.knn, (X,), near),
        (similarity.knn, (X,), {"metric": "cosine"}),
        (similarity.cosine, (X,), {}),
        (similarity.learn_scales, (X, labels), {"max_iter": 5}),
    )


def _of_similarity(rng: np.random.Generator) -> Call:
    W = evidence.similarity(rng)
    n = W.shape[0] if hasattr(W, "shape") else len(W)
    weights = {"sample_weight": evidence.weights(rng, n)} if rng.random() < 0.3 else {}
    L = evidence.labelings(rng)
    transfer = {"transfer": str(rng.choice(["step", "linear", "polynomial", "linear-step"]))}
    return _one(
        rng,
        (similarity.doubly_stochastic, (W,), weights),
        (similarity.doubly_stochastic, (W,), {"divergence": "euclidean"}),
        (similarity.cluster_kernel, (W, int(rng.choice([1, 2, 50]))), weights),
        (similarity.cluster_kernel, (W, 2), transfer),
        (similarity.cluster_kernel, (W,), {}),
        (similarity.coassociation, (L,), {}),
        (similarity.coassociation, (L, evidence.weights(rng, L.shape[1])), {}),
        (similarity.spectral_cost_gradient, (W, rng.integers(0, 2, n)), {}),
        (similarity.pair_cost_gradient, (W, 2), {"must_link": rng.integers(0, n, (3, 2))}),
    )


def _of_priors(rng: np.random.Generator) -> Call:
    scale = float(rng.choice([1e-300, 1e-3, 1.0, 1.0, 1e6, 1e300]))
    priors = (
        conjugate.BetaBinomial(scale, 1.0),
        conjugate.DirichletMultinomial([1.0, scale, 0.5]),
        conjugate.NormalInverseGamma(0.0, 1.0, 1.0, scale),
        conjugate.NormalKnownMean(1.0, scale),
        conjugate.NormalKnownVariance(0.0, scale, 1.0),
    )
    prior = priors[int(rng.integers(len(priors)))]
    n = int(rng.choice([0, 1, 5]))
    draws = [
        rng.normal(size=n),
        rng.integers(0, 2, n),
        rng.poisson(3.0, (n, 3)),
        rng.random(n) * scale,
        np.full(n, np.nan),
    ]
    data = draws[int(rng.integers(5))]
    return _one(
        rng,
        (prior.update, (data,), {}),
        (prior.log_marginal_likelihood, (data,), {}),
        (prior.log_predictive, (data,), {}),
        (prior.interval, (float(rng.choice([0.0, 0.5, 0.95, 1.0])),), {}),
    )


def _of_datasets(rng: np.random.Generator) -> Call:
    n, k = int(rng.choice([0, 1, 3, 20])), int(rng.choice([1, 2, 30]))
    noise = {"noise": float(rng.choice([0.0, 0.2, 1e300, -1.0])), "random_state": 0}
    return _one(
        rng,
        (datasets.make_moons, (n,), noise),
        (datasets.make_rings, (n, k), noise),
        (datasets.make_spirals, (n, k), noise),
        (datasets.make_similarity, (n, k), noise),
        (datasets.make_labelings, (n, k), {"label_noise": noise["noise"], "random_state": 0}),
        (datasets.make_block_similarity, (n, k), noise),
        (datasets.make_gaussians, (n, k), {"random_state": 0}),
        (datasets.make_memberships, (n, k), {"concentration": float(rng.choice([1e-9, 1e9]))}),
        (datasets.make_uniform, (n,), {"n_features": k}),
    )


def search(rng: np.random.Generator) -> str:
    """Choose, resample or test with a small estimator."""
    name = str(rng.choice(["FuzzyCMeans", "GaussianMixture", "SpectralClustering", "labelings"]))
    if name == "labelings":
        model: Any = sfumato.EvidenceAccumulation(
            2, ensemble="precomputed", n_init=1, random_state=0
        )
        X = evidence.labelings(rng)
    else:
        model, X = made(name, "features", rng), evidence.features(rng)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if model.n_clusters == "auto":
        model.set_params(n_clusters=2)
    weights = {"sample_weight": evidence.weights(rng, n)} if rng.random() < 0.3 else {}
    criterion = str(CRITERIA[int(rng.integers(len(CRITERIA)))])
    few = {"n_resamples": 3, "random_state": 0}
    said, call, given, options = _one(
        rng,
        (
            selection.choose_n_clusters,
            (model, X),
            {"max_clusters": 3, "n_splits": 2, "criterion": criterion, **weights},
        ),
        (selection.stability, (model, X), {"n_resamples": 2, "random_state": 0, **weights}),
        (selection.bootstrap, (model, X), {**few, **weights}),
        (selection.parameter_intervals, (model, X), {**few, **weights}),
        (selection.bootstrap_likelihood_ratio, (model, X), {**few, "max_clusters": 2}),
    )
    no_nan(attempt(lambda: call(*given, **options), X, *options.values()), said)
    return f"{said} of {model} on {n} objects, {options}"
