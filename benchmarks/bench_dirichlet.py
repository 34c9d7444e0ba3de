"""Dirichlet process mixtures beside scikit-learn's BayesianGaussianMixture."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

from sfumato import DirichletProcessMixture
from sfumato.array.rows import Rows
from sfumato.components import conjugate as priors
from sfumato.conjugate import NormalInverseWishart
from sfumato.models.dirichlet_process import kernel, sampling
from sfumato.models.dirichlet_process import kernel as variational

from .timing import Line, medians

TITLE = "Dirichlet process mixtures"
ALPHA = kernel.Concentration(1.0, 1.0)


def run() -> list[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_iteration(), _sweep(), *_held_out(), _number_of_clusters()]


def _iteration() -> Line:
    """One pass over 100 000 objects: expectation and update, on one core."""
    n, d, k = 100_000, 16, 20
    rng = np.random.default_rng(0)
    X = 3.0 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    rows = Rows(X, None, n_jobs=1)
    component = priors.build(priors.default_prior(NormalInverseWishart, rows), rows)
    search = variational.Ascent(component, rows, ALPHA, 1, 0.0)
    state = search.starts(k, np.arange(1))[0]
    peer = BayesianGaussianMixture(
        n_components=k, max_iter=1, init_params="random", random_state=0
    ).fit(X)

    def ours() -> None:
        stats = rows.sum(lambda block, weights: kernel.summarize(component, state, block, weights))
        kernel.update(component, stats.sums, stats.counts, ALPHA, ALPHA)

    def theirs() -> None:
        _, log_responsibilities = peer._e_step(X)
        peer._m_step(X, log_responsibilities)

    with threadpool_limits(1):
        seconds = medians({"ours": ours, "theirs": theirs}, repeats=5)
    return Line(
        "variational iteration, n 100 000, d 16, k 20, one core",
        seconds["ours"],
        seconds["theirs"],
        "scikit-learn",
        target=">= 3",
    )


def _sweep() -> Line:
    """One sweep of the sampler with its split and merge proposals, on one core."""
    X, _ = make_blobs(10_000, n_features=4, centers=5, random_state=0)
    rows = Rows(X, None)
    component = priors.build(priors.default_prior(NormalInverseWishart, rows), rows)
    Z = component.features(X)
    chain = sampling.Chain.of(component, Z)
    first = chain.start(1.0, np.random.default_rng(0))

    def sweep() -> None:
        chain.sweep(first, ALPHA, np.random.default_rng(1))

    with threadpool_limits(1):
        seconds = medians({"sweep": sweep}, repeats=3)["sweep"]
    return Line("Gibbs sweep, n 10 000, d 4, one core", seconds, math.nan, "", target="under 2 s")


def _held_out() -> list[Line]:
    """exp(-mean log density) of the half that was not fitted: smaller is better."""
    rng = np.random.default_rng(77)
    centers, shapes, labels = (
        4 * rng.normal(size=(6, 4)),
        rng.normal(size=(6, 4, 4)),
        rng.integers(6, size=800),
    )
    sets = {
        "iris": load_iris().data,
        "wine": load_wine().data,
        "breast cancer, 10 features": load_breast_cancer().data[:, :10],
        "digits, 8 components": PCA(8, random_state=0).fit_transform(load_digits().data),
        "six normals": centers[labels]
        + np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(800, 4))),
    }
    lines = []
    for name, X in sets.items():
        order = np.random.default_rng(11).permutation(
            len(X)
        )  # not the split that the default prior was chosen on
        train, test = X[order[::2]], X[order[1::2]]
        ours = DirichletProcessMixture(random_state=0).fit(train)
        peers = {k: _peer(k, n_init=4).fit(train).score(test) for k in (2, 3, 5, 10, 20)}
        best = max(peers, key=peers.get)
        note = (
            f"{ours.n_clusters_} clusters; log density {ours.score(test):.3f} and "
            f"{peers[best]:.3f}, peer at its best, {best} components"
        )
        lines.append(
            Line(
                f"held-out perplexity: {name}",
                np.exp(-ours.score(test)),
                np.exp(-peers[best]),
                "scikit-learn",
                "",
                ">= 1",
                note,
            )
        )
    return lines


def _number_of_clusters() -> Line:
    """How often the posterior mode of the number of clusters is right in ten draws of five
    separated normals.
    """
    hits = {"ours": 0, "theirs": 0}
    for seed in range(10):
        X, _ = make_blobs(600, n_features=3, centers=5, cluster_std=0.6, random_state=seed)
        ours = DirichletProcessMixture(inference="gibbs", random_state=0).fit(X)
        hits["ours"] += int(ours.n_clusters_posterior_.argmax() == 5)
        hits["theirs"] += int(len(np.unique(_peer(20).fit_predict(X))) == 5)
    return Line(
        "right number of clusters in ten data sets",
        hits["ours"],
        hits["theirs"],
        "scikit-learn",
        "",
        ">= 9",
        "more is better",
    )


def _peer(k: int, n_init: int = 1) -> BayesianGaussianMixture:
    return BayesianGaussianMixture(n_components=k, n_init=n_init, max_iter=1000, random_state=0)
