"""Every estimator with every kind of evidence it takes.

What the membership contract is tested on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_iris

import sfumato
from sfumato.similarity import gaussian


@dataclass(frozen=True, eq=False)
class Case:
    """``make(seed)`` builds the estimator; ``evidence`` (n, ...) and ``y`` are given to ``fit``.

    ``larger``: whether the model raises its objective, a likelihood, or lowers it, a loss.
    """

    name: str
    make: Callable[[int], Any]
    evidence: Any
    y: Any = None
    kind: str = "features"
    inductive: bool = False
    weights: bool = False
    larger: bool = False

    def fit(self, seed: int = 0, evidence: Any = None, **params: Any) -> Any:
        evidence = self.evidence if evidence is None else evidence
        return self.make(seed).fit(evidence, self.y, **params)


def _iris() -> np.ndarray:
    """Every second flower, shaken a little: equal distances would leave neighbours to chance."""
    return load_iris().data[::2] + np.random.default_rng(0).normal(scale=0.01, size=(75, 4))


def _labelings(n: int = 75) -> np.ndarray:
    rng = np.random.default_rng(1)
    truth = np.arange(n) // (n // 3)
    L = np.stack([rng.permutation(6)[2 * truth + rng.integers(0, 2, n)] for _ in range(30)], axis=1)
    noisy = rng.random(L.shape) < 0.1
    L[noisy] = rng.integers(0, 6, noisy.sum())
    L[rng.random(L.shape) < 0.1] = -1
    return L


def _counts() -> np.ndarray:
    rng = np.random.default_rng(2)
    profiles = rng.dirichlet(np.full(8, 0.3), 3)
    return np.stack([rng.multinomial(60, profiles[i // 25]) for i in range(75)]).astype(float)


X, C = _iris(), load_iris().target[::2]
W = gaussian(X, bandwidth=0.5)

CASES = [
    Case(
        "pairwise-features",
        lambda s: sfumato.PairwiseProbabilisticClustering(3, random_state=s),
        X,
        weights=True,
    ),
    Case(
        "pairwise-knn",
        lambda s: sfumato.PairwiseProbabilisticClustering(3, similarity="knn", random_state=s),
        X,
        weights=True,
    ),
    Case(
        "pairwise-self-tuning",
        lambda s: sfumato.PairwiseProbabilisticClustering(
            3, similarity="self-tuning", random_state=s
        ),
        X,
        weights=True,
    ),
    Case(
        "pairwise-cosine",
        lambda s: sfumato.PairwiseProbabilisticClustering(2, similarity="cosine", random_state=s),
        X - X.mean(axis=0),
        weights=True,
    ),
    Case(
        "pairwise-dense",
        lambda s: sfumato.PairwiseProbabilisticClustering(
            3, similarity="precomputed", random_state=s
        ),
        W,
        kind="similarity",
        weights=True,
    ),
    Case(
        "pairwise-sparse",
        lambda s: sfumato.PairwiseProbabilisticClustering(
            3, similarity="precomputed", random_state=s
        ),
        sp.csr_array(W),
        kind="similarity",
        weights=True,
    ),
    Case(
        "pairwise-operator",
        lambda s: sfumato.PairwiseProbabilisticClustering(
            3, similarity="precomputed", random_state=s
        ),
        aslinearoperator(W),
        kind="operator",
    ),
    Case(
        "pairwise-baum-eagon",
        lambda s: sfumato.PairwiseProbabilisticClustering(
            3, similarity="precomputed", solver="baum-eagon", max_iter=5000, random_state=s
        ),
        W,
        kind="similarity",
        weights=True,
    ),
    Case(
        "spectral-features",
        lambda s: sfumato.SpectralClustering(3, random_state=s),
        X,
        weights=True,
    ),
    Case(
        "spectral-dense",
        lambda s: sfumato.SpectralClustering(3, similarity="precomputed", random_state=s),
        W,
        kind="similarity",
        weights=True,
    ),
    Case(
        "spectral-ng-jordan-weiss",
        lambda s: sfumato.SpectralClustering(
            3, similarity="precomputed", method="ng-jordan-weiss", random_state=s
        ),
        W,
        kind="similarity",
        weights=True,
    ),
    Case(
        "spectral-bach-jordan",
        lambda s: sfumato.SpectralClustering(
            3, similarity="precomputed", method="bach-jordan", random_state=s
        ),
        sp.csr_array(W),
        kind="similarity",
        weights=True,
    ),
    Case(
        "completely-positive-features",
        lambda s: sfumato.CompletelyPositiveFactorization(3, random_state=s),
        X,
        weights=True,
    ),
    Case(
        "completely-positive-dense",
        lambda s: sfumato.CompletelyPositiveFactorization(
            3, similarity="precomputed", random_state=s
        ),
        W,
        kind="similarity",
        weights=True,
    ),
    Case(
        "consensus-features",
        lambda s: sfumato.EvidenceAccumulation(3, random_state=s),
        X,
        weights=True,
    ),
    Case(
        "consensus-ensemble",
        lambda s: sfumato.EvidenceAccumulation(
            3,
            ensemble=sfumato.ClusteringEnsemble(20, algorithms=["KM", "average"], random_state=0),
            random_state=s,
        ),
        X,
        weights=True,
    ),
    Case(
        "consensus-members",
        lambda s: sfumato.EvidenceAccumulation(
            3,
            ensemble=sfumato.MixtureEnsemble(
                members=[sfumato.FuzzyCMeans(k, random_state=0) for k in (3, 4, 5)]
            ),
            random_state=s,
        ),
        X,
        weights=True,
    ),
    Case(
        "consensus-labelings",
        lambda s: sfumato.EvidenceAccumulation(3, ensemble="precomputed", random_state=s),
        _labelings(),
        kind="labelings",
        weights=True,
    ),
    Case(
        "consensus-coassociation",
        lambda s: sfumato.EvidenceAccumulation(
            3, ensemble="precomputed", consensus="coassociation", random_state=s
        ),
        _labelings(),
        kind="labelings",
        weights=True,
    ),
    Case(
        "consensus-average-linkage",
        lambda s: sfumato.EvidenceAccumulation(
            3, ensemble="precomputed", consensus="average", random_state=s
        ),
        _labelings(),
        kind="labelings",
        weights=True,
    ),
    Case(
        "fuzzy", lambda s: sfumato.FuzzyCMeans(3, random_state=s), X, inductive=True, weights=True
    ),
    Case(
        "gaussian-full",
        lambda s: sfumato.GaussianMixture(3, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "gaussian-tied",
        lambda s: sfumato.GaussianMixture(3, covariance_type="tied", random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "gaussian-diag",
        lambda s: sfumato.GaussianMixture(3, covariance_type="diag", random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "gaussian-spherical",
        lambda s: sfumato.GaussianMixture(3, covariance_type="spherical", random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "student-auto",
        lambda s: sfumato.StudentMixture(3, n_init=4, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "student-tied",
        lambda s: sfumato.StudentMixture(3, covariance_type="tied", tol=1e-12, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "student-diag",
        lambda s: sfumato.StudentMixture(
            3, covariance_type="VVI", degrees_of_freedom="each", random_state=s
        ),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "factor-each",
        lambda s: sfumato.FactorMixture(3, n_factors=1, reg_covar=0.05, tol=1e-12, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "factor-shared",
        lambda s: sfumato.FactorMixture(
            3, n_factors=1, shared_noise=True, tol=1e-12, random_state=s
        ),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "directional-cosine",
        lambda s: sfumato.DirectionalMixture(3, tol=1e-12, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "mixed-normal",
        lambda s: sfumato.MixedMixture(3, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "mixed-counts",
        lambda s: sfumato.MixedMixture(
            3, columns={0: "counts", 1: "counts", 2: "categorical"}, random_state=s
        ),
        np.minimum(_counts(), 12),
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "dirichlet-process",
        lambda s: sfumato.DirichletProcessMixture(random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "information-maximization",
        lambda s: sfumato.InformationMaximization(3, random_state=s),
        X,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "discriminative",
        lambda s: sfumato.DiscriminativeClustering(3, random_state=s),
        X,
        C,
        inductive=True,
        weights=True,
        larger=True,
    ),
    Case(
        "bottleneck-counts",
        lambda s: sfumato.InformationBottleneck(3, random_state=s),
        _counts(),
        kind="counts",
        inductive=True,
        weights=True,
    ),
]
