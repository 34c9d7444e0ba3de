"""Table 1 and Figures 1 and 2 of Rota Bulo and Pelillo (2010): four methods on similarities."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from .. import datasets, plot
from ..array.labels import encode
from ..array.types import Similarity
from ..engine import loop
from ..memberships import align, one_hot
from ..metrics import matched_accuracy
from ..models.factorization import CompletelyPositiveFactorization
from ..models.pairwise import kernel
from ..models.pairwise.estimator import PairwiseProbabilisticClustering
from ..models.spectral import SpectralClustering
from ..numerics import simplex
from ..similarity import cluster_kernel, doubly_stochastic, gaussian, self_tuning
from .shelf import Outcome, ResultTable, Shelf, included, mean_and_deviation

PUBLISHED = {  # Baum-Eagon, completely positive, normalized cuts, Ng-Jordan-Weiss
    "S-Block": (".995±.013", ".556±.143", "1.000±.000", ".596±.010"),
    "Digits": (".700±.042", ".430±.142", ".566±.096", ".657±.000"),
    "Iris": (".993±.000", ".991±.003", ".993±.000", ".993±.000"),
    "Scop": (".706±.001", ".703±.000", ".568±.000", ".630±.000"),
}


def published(name: str) -> dict[str, str]:
    """Values that the source prints for a data set, by method."""
    methods = ("Baum-Eagon", "completely positive", "normalized cuts", "Ng-Jordan-Weiss")
    return dict(zip(methods, PUBLISHED.get(name, ()), strict=False))


class Evidence(NamedTuple):
    """A similarity with known classes and a description of how it was made."""

    name: str
    W: np.ndarray
    labels: np.ndarray
    source: str


def evidence(shelf: Shelf) -> Iterator[Evidence]:
    """S-Block (or a simulated one), Iris, Digits, and the data sets on the shelf."""
    yield _s_block(shelf)
    iris, digits = included("iris"), included("digits")
    yield Evidence("Iris", gaussian(iris.X, bandwidth=0.5), iris.labels, "exp(-d^2 / (2 * 0.5^2))")
    D = cdist(digits.X[:1000], digits.X[:1000], "sqeuclidean")
    made = "first 1000, exp(-d^2 / q), q the 1% quantile of d^2"
    yield Evidence("Digits", np.exp(-D / np.quantile(D, 0.01)), digits.labels[:1000], made)
    votes = shelf.find("house votes")
    if votes is not None:
        made = "share of the votes on which two members agree"
        yield Evidence("House votes", 1 - cdist(votes.X, votes.X, "hamming"), votes.labels, made)
    for name, kind, X, labels in shelf.own():
        title = next((known for known in PUBLISHED if known.lower() == name.lower()), name)
        W, made = self_tuning(X), f"self-tuning kernel of {name}-features.csv"
        if kind == "similarity":
            W, made = (X + X.T) / 2, f"{name}-similarity.csv, made symmetric"
        yield Evidence(title, W, labels, made)


def origins(shelf: Shelf) -> list[str]:
    """Notes on external data sets: where they came from, or why they are missing."""
    missing = (
        "S-Block: simulated; for the published set pass --data DIR with s100-similarity.csv "
        "(100 x 100 numbers) and s100-labels.csv (100 numbers), without headers."
    )
    here = shelf.path("s100-similarity.csv") is not None
    return shelf.notes_on("house votes") + ([] if here else [missing])


def _s_block(shelf: Shelf) -> Evidence:
    path, classes = shelf.path("s100-similarity.csv"), shelf.path("s100-labels.csv")
    if path is not None and classes is not None:
        W, labels = np.loadtxt(path, delimiter=","), np.loadtxt(classes, dtype=int)
        return Evidence("S-Block", (W + W.T) / 2, labels, "S100 of Verma and Meila")
    simulated = datasets.make_block_similarity(100, 5, random_state=0)
    made = "simulated to resemble S100"
    return Evidence("S-Block", simulated.evidence, simulated.labels, made)


def published_rule(W: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Labels by the published algorithm."""
    return baum_eagon(W, k, seed).U[:, 0].argmax(axis=1)


def baum_eagon(W: np.ndarray, k: int, seed: int) -> kernel.State:
    """The published algorithm from a random start; W need not be symmetric."""
    problem = kernel.Problem(kernel.Explicit(W), False, None)
    start = kernel.start(problem, simplex.draw(np.random.default_rng(seed), (W.shape[0], 1, k)))
    step = partial(kernel.baum_eagon_step, problem)
    return loop.iterate(step, start, max_iter=3000, tol=1e-12).state


def fitted(model: Any, W: Similarity, k: int, seed: int, **settings: Any) -> np.ndarray:
    """Labels by one of our estimators."""
    return model(k, similarity="precomputed", random_state=seed, **settings).fit(W).labels_


def row_stochastic(W: np.ndarray, k: int) -> np.ndarray:
    """D^-1 W, which is not symmetric."""
    return W / W.sum(axis=1, keepdims=True)


def scaled(W: np.ndarray, k: int) -> np.ndarray:
    """The doubly stochastic scaling of W, as an array."""
    return doubly_stochastic(W).toarray()


# by its defaults: four starts, without the diagonal
descent = partial(fitted, PairwiseProbabilisticClustering)
entropic: Any = {"normalization": "relative-entropy", "n_init": 1}
published_update, exact_coordinate = (
    partial(fitted, CompletelyPositiveFactorization, solver=solver, **entropic)
    for solver in ("multiplicative", "coordinate")
)
normalized_cut, ng_jordan_weiss, bach_jordan = (
    partial(fitted, SpectralClustering, method=method)
    for method in ("normalized-cut", "ng-jordan-weiss", "bach-jordan")
)
METHODS: list[tuple[str, str, str, Callable[..., Any] | None, Callable[..., np.ndarray]]] = [
    ("Baum-Eagon", "published rule", "W", None, published_rule),
    ("Baum-Eagon", "published rule", "D^-1 W, not symmetric", row_stochastic, published_rule),
    ("Baum-Eagon", "published rule", "doubly stochastic", scaled, published_rule),
    ("Baum-Eagon", "coordinate descent", "W", None, descent),
    ("Baum-Eagon", "coordinate descent", "doubly stochastic", scaled, descent),
    ("Baum-Eagon", "coordinate descent", "cluster kernel of W", cluster_kernel, descent),
    ("completely positive", "published update", "doubly stochastic", None, published_update),
    ("completely positive", "exact coordinate", "doubly stochastic", None, exact_coordinate),
    ("normalized cuts", "", "W", None, normalized_cut),
    ("Ng-Jordan-Weiss", "", "W without its diagonal", None, ng_jordan_weiss),
    ("Bach-Jordan", "", "W", None, bach_jordan),
]


def announced(shelf: Shelf, notes: list[str]) -> Iterator[tuple[Any, int]]:
    """Every available similarity with its number of clusters; ``notes`` gets descriptions."""
    for item in evidence(shelf):
        k = len(np.unique(item.labels))
        notes.append(f"{item.name}: n = {len(item.labels)}, k = {k}, W = {item.source}.")
        shelf.say(f"working on {item.name}")
        yield item, k


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Matched accuracy (mean and deviation over seeds), with the published value."""
    rows: list[Any] = []
    notes: list[str] = []
    for item, k in announced(shelf, notes):
        for method, variant, given, prepare, labels in METHODS:
            W = item.W if prepare is None else prepare(item.W, k)
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                found = [labels(W, k, seed) for seed in range(n_seeds)]
            scores = [matched_accuracy(item.labels, each) for each in found]
            printed = published(item.name).get(method, "")
            rows.append((item.name, method, variant, given, printed, mean_and_deviation(scores)))
    if not any(row[0] == "Scop" for row in rows):
        rows += [
            ("Scop", method, "", "not said in the source", printed, "not run")
            for method, printed in published("Scop").items()
        ]
    notes += [
        f"Measured: mean and deviation of the matched accuracy over {n_seeds} "
        f"seed{'s' if n_seeds > 1 else ''}.",
        "The source does not say which matrix it gave to which method on S-Block; each row here "
        "names its own.",
        "The source does not name its Iris similarity; no setting tried reached its .993.",
        "Digits here are scikit-learn's 8 x 8 digits, not the NIST set of the source.",
        "Scop: the source does not say which 451 proteins it took, nor which similarity. House "
        "votes are not in the source.",
        *origins(shelf),
    ]
    columns = ("data", "method", "variant", "given to the method", "published", "measured")
    return Outcome(ResultTable("Clustering from similarities", columns, rows, tuple(notes)))


def figures(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Three panels each for S-Block and Iris, with the objects sorted by class."""
    import matplotlib.pyplot as plt

    pictures = {}
    for item in islice(evidence(shelf), 2):
        order = np.argsort(item.labels, kind="stable")
        W, truth = item.W[order][:, order], encode(item.labels[order])
        given, similarity = ("D^-1 W", row_stochastic(W, 0)) if item.name == "S-Block" else ("W", W)
        state = baum_eagon(similarity, truth.max() + 1, seed=0)
        U = align(state.U[:, 0], one_hot(truth))
        figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
        for axis, matrix, title in (
            (axes[0], similarity, f"similarity, {given}"),
            (axes[1], state.scale[0] * U @ U.T, "scale · U U'"),
        ):
            axis.imshow(matrix, cmap="magma", vmax=np.quantile(matrix, 0.99))
            axis.set(title=title, xlabel="objects", ylabel="objects")
        plot.profiles(U, ordered=False, ax=axes[2])
        figure.suptitle(
            f"{item.name}, W = {item.source}; the published rule on {given}, objects in the order "
            "of their classes"
        )
        pictures[f"similarity-{item.name.lower()}.png"] = figure
    return Outcome(figures=pictures)
