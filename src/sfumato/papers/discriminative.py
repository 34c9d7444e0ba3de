"""Discriminative clusters beside others on held-out halves, and the published online rule.

The rule (Sinkkonen and Kaski 2002) draws, for an object x of class distribution q, clusters j and l
from its memberships y(x):

    m_l     <- m_l - a (x - m_l) sum_i q_i log(psi_j(i) / psi_l(i))
    gamma_l <- gamma_l + a (q - psi_l),            psi_l = softmax(gamma_l)

The expected step of m is -s^2/2 times the gradient of the expected distortion E; the Gaussian prior
of the prototypes adds its own, which is none for ``spread=inf``. The rate a falls with the objects
t as  rate / (1 + t / n).  No step carries a prototype past the object, or away from it by more than
their distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax
from scipy.stats import ttest_rel
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from .. import datasets
from ..array.arrays import to_numpy
from ..array.types import Array
from ..models.discriminative import kernel
from ..models.discriminative.estimator import DiscriminativeClustering
from ..models.discriminative.problem import Problem
from ..numerics.contingency import log_posterior, mutual_information
from .shelf import Outcome, ResultTable, Shelf, mean_and_deviation


def simulated_vehicle(random_state: int = 0, n: int = 846) -> tuple[np.ndarray, np.ndarray]:
    """Four classes of two silhouettes each in 18 correlated features, of which five know the class.

    As many objects, features and classes as the Statlog vehicle data; three factors that have
    nothing to do with the class carry most of the variance.
    """
    rng = np.random.default_rng(random_state)
    relevant = np.arange(18) < 5
    silhouettes = 1.2 * rng.normal(size=(4, 2, 18)) * relevant
    loadings = 2.0 * rng.normal(size=(3, 18)) * np.where(relevant, 0.2, 1.0)
    c, kind = rng.integers(4, size=n), rng.integers(2, size=n)
    return silhouettes[c, kind] + rng.normal(size=(n, 18)) + rng.normal(size=(n, 3)) @ loadings, c


def data_sets(shelf: Shelf) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and classes by name; the vehicles are simulated where the shelf has none."""
    vehicle = shelf.find("vehicle")
    name = "vehicle (simulated)" if vehicle is None else "vehicle"
    return {
        "digits": datasets.load_digits(),
        "wine": datasets.load_wine(),
        "breast cancer (diagnostic)": datasets.load_breast_cancer(),
        name: simulated_vehicle() if vehicle is None else vehicle,
    }


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Ours beside k-means and a Gaussian mixture per class on ``n_seeds`` halves held out."""
    rows = []
    for name, (X, c) in data_sets(shelf).items():
        k = {"digits": 20, "vehicle": 12, "vehicle (simulated)": 12}.get(name, 6)
        shelf.say(f"working on {name}")
        splits = StratifiedShuffleSplit(n_seeds, test_size=0.5, random_state=0).split(X, c)
        scores = np.array(
            [_split(X, c, k, train, test, seed) for seed, (train, test) in enumerate(splits)]
        )
        for m, method in enumerate(("discriminative", "k-means", "mixture per class")):
            cells = [mean_and_deviation(scores[:, m, measure]) for measure in (0, 1)]
            p = [
                f"{ttest_rel(scores[:, 0, i], scores[:, m, i]).pvalue:.1g}"
                if m and n_seeds > 1
                else ""
                for i in (0, 1)
            ]
            rows.append((name, method, str(k), cells[0], p[0], cells[1], p[1]))
    notes = (
        "Every method is given the features, standardised on the training half; the classes go to "
        "all but k-means.",
        f"Means and deviations over {n_seeds} halves held out; the Voronoi cells (most probable "
        "Gaussians) are found on the other half.",
        "Log posterior: of the held-out classes given the cells, per object, prior counts 1. p: "
        "paired t-test of ours against that row.",
        "Mixture per class: a Gaussian mixture with one covariance for each class (mixture "
        "discriminant analysis).",
        "The notes this follows print no figures: there is nothing published to set beside these.",
        *shelf.told("vehicle"),
    )
    measured = ("log posterior", "p (log posterior)", "mutual information")
    columns = ("data", "clusters from", "clusters", *measured, "p (mutual information)")
    return Outcome(ResultTable("Clusters made for a class, held out", columns, rows, notes))


def _split(
    X: Array, c: np.ndarray, k: int, train: np.ndarray, test: np.ndarray, seed: int
) -> list[tuple[float, float]]:
    """Held-out log posterior per object and mutual information of the three methods."""
    scaler = StandardScaler().fit(X[train])
    A, B, a, b = scaler.transform(X[train]), scaler.transform(X[test]), c[train], c[test]
    partitions: list[Callable[[Any], np.ndarray]] = [
        DiscriminativeClustering(k, random_state=seed).fit(A, a).predict,
        KMeans(k, n_init=4, random_state=seed).fit(A).predict,
        mixture_per_class(A, a, k, seed),
    ]
    scores = []
    for partition in partitions:
        counts = np.zeros((k, c.max() + 1))
        np.add.at(counts, (partition(B), b), 1.0)
        posterior = log_posterior(counts, np.ones(counts.shape[1])) / len(test)
        scores.append((posterior, mutual_information(counts)))
    return scores


def mixture_per_class(
    X: np.ndarray, c: np.ndarray, k: int, seed: int
) -> Callable[[Any], np.ndarray]:
    """The most probable of k Gaussians, one covariance for each class of a mixture."""
    sizes = np.bincount(c)
    shares = np.ones(len(sizes), dtype=int)
    while shares.sum() < k:
        shares[np.argmax(sizes / (shares + 0.5))] += 1
    mixtures = [
        GaussianMixture(
            share, covariance_type="tied", n_init=4, reg_covar=1e-3, random_state=seed
        ).fit(X[c == i])
        for i, share in enumerate(shares)
    ]
    priors = np.log(sizes / sizes.sum())

    def partition(X: Array) -> np.ndarray:
        within = [
            prior + mixture.score_samples(X)[:, None] + np.log(mixture.predict_proba(X) + 1e-300)
            for prior, mixture in zip(priors, mixtures, strict=True)
        ]
        return np.concatenate(within, axis=1).argmax(axis=1)

    return partition


class Draws(NamedTuple):
    """Prototypes (k, p), logits (k, classes) of their classes, and the number of objects seen."""

    average: np.ndarray  # the prototypes themselves: the published rule does not average
    logits: np.ndarray
    seen: int

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Draws:
        """Given prototypes with the class distributions of their cells."""
        r = problem.prior + problem.table(centers, bandwidth)
        return cls(centers, np.log(r / r.sum(axis=1, keepdims=True)), 0)


def draws_pass(
    problem: Problem,
    state: Draws,
    bandwidth: float,
    rate: float,
    order: np.ndarray,
    rng: np.random.Generator,
) -> Draws:
    """The state after one step for each object in ``order``."""
    centers, logits, seen = state.average.copy(), state.logits.copy(), state.seen
    log_psi = log_softmax(logits, axis=1)
    share = problem.total / problem.rows.shape[0]
    prior = 0.5 * bandwidth**2 * problem.precision / problem.total
    weight = np.zeros((1, len(centers)))
    for x, q in _objects(problem, order):
        q = q / share
        a = rate / (1.0 + seen / len(order))
        reach = np.cumsum(kernel.memberships(x, centers, bandwidth)[0])
        j, l = np.minimum(np.searchsorted(reach, rng.random(2) * reach[-1]), len(reach) - 1)
        weight[0, l] = np.clip(a * (q @ (log_psi[l] - log_psi[j])), -1.0, 1.0)
        # the prior moves all prototypes, never past the middle
        back = min(a * prior, 1.0) * (centers - problem.frame.middle)
        centers += kernel.moved(x, weight, centers) - back
        weight[0, l] = 0.0
        logits[l] += a * (q - q.sum() * np.exp(log_psi[l]))
        log_psi[l] = log_softmax(logits[l])
        seen += 1
    return Draws(centers, logits, seen)


def _objects(problem: Problem, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each object as a row (1, p) in the frame, and its weighted class distribution."""
    (Q,) = problem.rows.columns
    for start in range(0, len(order), 1024):
        chunk = order[start : start + 1024]  # put into the frame at once
        given = problem.frame(problem.rows.X[chunk]), Q[chunk]
        X, q = (part.toarray() if sp.issparse(part) else to_numpy(part) for part in given)
        for i in range(len(chunk)):
            yield X[i : i + 1], q[i]
