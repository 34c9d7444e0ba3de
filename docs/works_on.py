"""The page "what works on what": every cell is made by running it.

``python docs/works_on.py`` writes ``works-on.md``; a test fails where the page is stale. The column
of the GPU is made where there is one, by ``python docs/works_on.py gpu``, and kept in a file of its
own.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import sfumato
from sfumato.similarity import gaussian

PAGE = Path(__file__).parent / "works-on.md"
GPU = Path(__file__).parent / "works_on_gpu.json"
REFUSED = (ValueError, TypeError, AttributeError, NotImplementedError, IndexError)
COLUMNS = (
    "weights",
    "missing",
    "links",
    "labels",
    "sparse",
    "given",
    "new",
    "batches",
    "dask",
    "GPU",
)


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    return rng.normal(size=(60, 3)) + 6 * np.eye(3)[y] + 20, y


X, Y = _data()
COUNTS = np.random.default_rng(1).poisson(40 * np.eye(3)[Y] + 4).astype(float)
LABELS = np.where(np.arange(60) % 10 == 0, Y, -1)
MUST, CANNOT = np.array([[0, 1], [21, 25]]), np.array([[0, 30], [5, 50]])


class Model(NamedTuple):
    """A row of the table: how the model is made, and what it is fitted to."""

    name: str
    make: Callable[..., Any]
    X: np.ndarray = X
    y: np.ndarray | None = None
    given: Callable[[], Any] | None = None  # evidence that is no features, or None

    def fit(self, evidence: Any, y: Any = None, **more: Any) -> Any:
        """The model fitted to other evidence."""
        return self.make().fit(evidence, self.y if y is None else y, **more)


def _labelings() -> Any:
    L = np.stack([np.random.default_rng(b).permutation(3)[Y] for b in range(8)], axis=1)
    return sfumato.EvidenceAccumulation(3, ensemble="precomputed", random_state=0).fit(L)


def _similarity(kind: Any) -> Callable[[], Any]:
    return lambda: kind(3, similarity="precomputed", random_state=0).fit(gaussian(X))


MODELS = [
    Model(
        "EvidenceAccumulation",
        lambda: sfumato.EvidenceAccumulation(3, random_state=0),
        given=_labelings,
    ),
    Model(
        "PairwiseProbabilisticClustering",
        lambda: sfumato.PairwiseProbabilisticClustering(3, random_state=0),
        given=_similarity(sfumato.PairwiseProbabilisticClustering),
    ),
    Model(
        "CompletelyPositiveFactorization",
        lambda: sfumato.CompletelyPositiveFactorization(3, random_state=0),
        given=_similarity(sfumato.CompletelyPositiveFactorization),
    ),
    Model(
        "SpectralClustering",
        lambda: sfumato.SpectralClustering(3, random_state=0),
        given=_similarity(sfumato.SpectralClustering),
    ),
    Model("FuzzyCMeans", lambda: sfumato.FuzzyCMeans(3, random_state=0)),
    Model(
        "GaussianMixture",
        lambda: sfumato.GaussianMixture(3, covariance_type="diag", random_state=0),
    ),
    Model("StudentMixture", lambda: sfumato.StudentMixture(3, random_state=0)),
    Model("FactorMixture", lambda: sfumato.FactorMixture(3, n_factors=1, random_state=0)),
    Model("DirectionalMixture", lambda: sfumato.DirectionalMixture(3, random_state=0)),
    Model("MixedMixture", lambda: sfumato.MixedMixture(3, random_state=0)),
    Model(
        "DirichletProcessMixture",
        lambda: sfumato.DirichletProcessMixture(random_state=0, max_iter=50),
    ),
    Model(
        "DiscriminativeClustering",
        lambda: sfumato.DiscriminativeClustering(3, random_state=0),
        y=Y,
    ),
    Model("InformationMaximization", lambda: sfumato.InformationMaximization(3, random_state=0)),
    Model(
        "InformationBottleneck", lambda: sfumato.InformationBottleneck(3, random_state=0), COUNTS
    ),
]


def weights(model: Model) -> bool:
    """An object of weight zero has no say, weights are taken."""
    w = np.where(np.arange(60) % 7 == 3, 0.0, 2.0)
    return _sound(model.fit(model.X, sample_weight=w), 60)


def missing(model: Model) -> bool:
    """NaN among the features."""
    gaps = model.X.copy()
    gaps[::7, 1] = np.nan
    return _sound(model.fit(gaps), 60)


def links(model: Model) -> bool:
    """Pairs together share memberships, pairs apart do not share a label."""
    fitted = model.fit(model.X, must_link=MUST, cannot_link=CANNOT)
    U, labels = fitted.memberships_, fitted.labels_
    together = np.abs(U[MUST[:, 0]] - U[MUST[:, 1]]).max() < 1e-9
    return bool(together and (labels[CANNOT[:, 0]] != labels[CANNOT[:, 1]]).all())


def labels(model: Model) -> bool:
    """Labelled objects are in the cluster of their label, or of their class; -1 is unknown."""
    known = LABELS >= 0
    for names in ([1, 2, 0], [2, 0, 1]):
        renamed = np.where(known, np.array(names)[LABELS], -1)
        fitted = model.make().fit(model.X, renamed)
        found = fitted.labels_ if model.y is None else _classes(fitted, model.X)
        if (found[known] != renamed[known]).any():
            return False
    return True


def _classes(fitted: Any, X: np.ndarray) -> np.ndarray:
    """The most probable class of every object, whatever the number of its cluster."""
    return fitted.classes_[fitted.predict_class_proba(X).argmax(axis=1)]


def sparse(model: Model) -> bool:
    """Sparse features, with short and long indices."""
    for index in (np.int32, np.int64):
        S = sp.csr_array(model.X)
        S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
        if not _sound(model.fit(S), 60):
            return False
    return True


def given(model: Model) -> bool:
    """A similarity or labelings in place of features."""
    if model.given is None:
        return False
    return _sound(model.given(), 60)


def new(model: Model) -> bool:
    """Memberships of objects that were not fitted."""
    U = np.asarray(model.fit(model.X).predict_proba(model.X[:5]))
    return U.shape[0] == 5 and bool(np.isfinite(U).all())


def batches(model: Model) -> bool:
    """Learning batch by batch."""
    fitted = model.make()
    for half in (slice(None, None, 2), slice(1, None, 2)):
        y = None if model.y is None else model.y[half]
        more = {"classes": np.unique(model.y)} if model.y is not None else {}
        fitted.partial_fit(model.X[half], y, **more)
    return _sound(fitted, 30)


def dask(model: Model) -> bool:
    """A dask array of row blocks, on a cluster."""
    import dask.array as da

    return _sound(model.fit(da.from_array(model.X, chunks=(20, -1))), 60)


def on_gpu(model: Model) -> bool:
    """A PyTorch tensor on a CUDA device."""
    import torch

    return _sound(model.fit(torch.asarray(model.X, device="cuda")), 60)


def given_on_gpu(model: Model) -> bool:
    """The same for a similarity."""
    import torch

    W = torch.asarray(gaussian(X), device="cuda")
    return _sound(model.make().set_params(similarity="precomputed").fit(W), 60)


PAIRS = "PairwiseProbabilisticClustering CompletelyPositiveFactorization SpectralClustering"
DENSITIES = "GaussianMixture StudentMixture FactorMixture DirectionalMixture MixedMixture "
DENSITIES += "DirichletProcessMixture"
# Why cells are empty: models, columns, and the reason in one line.
REASONS = [
    (
        PAIRS,
        "batches",
        "memberships are solved for all pairs at once; predict_proba places later objects",
    ),
    (
        PAIRS,
        "dask",
        "a neighbour graph needs all features in one place; PairwiseProbabilisticClustering takes "
        "a given similarity as a dask array",
    ),
    (
        f"FuzzyCMeans {DENSITIES} DiscriminativeClustering InformationMaximization "
        "InformationBottleneck",
        "given",
        "centers, densities and classifiers are made of features, which a similarity does not have",
    ),
    (
        "StudentMixture FactorMixture DirectionalMixture MixedMixture",
        "GPU",
        "their steps are special functions and small solves, which the processor does in NumPy",
    ),
    (
        "InformationMaximization InformationBottleneck",
        "GPU",
        "tables of a few clusters by a few columns: a device would wait for the processor",
    ),
    (
        "DirectionalMixture",
        "missing",
        "an object that lacks a feature has no direction: its length is unknown, too",
    ),
    (
        "InformationMaximization",
        "missing",
        "a classifier without a density has nothing to integrate over",
    ),
    (
        "InformationBottleneck",
        "missing",
        "the shares of a row need all of its counts; give the columns that all rows have",
    ),
    (
        "DiscriminativeClustering InformationMaximization InformationBottleneck",
        "links",
        "the objective is information, to which a pair of objects adds no term; "
        "classes say which objects are alike, or use a mixture",
    ),
    (
        "InformationMaximization InformationBottleneck",
        "labels",
        "without labels by definition; with them DiscriminativeClustering is the model",
    ),
    (
        "DirichletProcessMixture",
        "batches",
        "the number of clusters is inferred from all objects; later batches could not reduce it",
    ),
    (
        "DirichletProcessMixture",
        "dask",
        "starts and merges compare clusters of all objects; GaussianMixture streams",
    ),
    (
        "InformationMaximization InformationBottleneck",
        "batches",
        "the balance of the clusters is a property of all objects; predict_proba places later ones",
    ),
    (
        "InformationBottleneck",
        "dask",
        "the joint table is small: sum counts by dask first, then fit the table",
    ),
]


def reason(model: str, column: str) -> str:
    """Why a cell is empty, "" where nothing says so."""
    return next(
        (why for models, at, why in REASONS if at == column and model in models.split()), ""
    )


CHECKS: dict[str, Callable[[Model], bool]] = {
    check.__name__: check
    for check in (weights, missing, links, labels, sparse, given, new, batches, dask)
}


def _sound(fitted: Any, n: int) -> bool:
    U = fitted.memberships_
    U = U.compute() if hasattr(U, "compute") else U.cpu() if hasattr(U, "cpu") else U
    U = np.asarray(U)
    return U.shape[0] == n and bool(np.isfinite(U).all()) and np.allclose(U.sum(axis=1), 1)


def cell(model: Model, check: Callable[[Model], bool]) -> str:
    """``yes``, or nothing where the model refuses or does not keep its word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "yes" if check(model) else ""
        except REFUSED:
            return ""


def row(model: Model) -> str:
    """A row of the table, each empty cell with the number of its reason."""
    found = [cell(model, check) for check in CHECKS.values()]
    found.append(json.loads(GPU.read_text(encoding="utf-8"))[model.name])
    whys = [why for _, _, why in REASONS]
    cells = [
        value or f"[{whys.index(reason(model.name, column)) + 1}](#why-not)"
        for value, column in zip(found, COLUMNS, strict=True)
    ]
    return f"| `{model.name}` | {' | '.join(cells)} |"


def page() -> str:
    """The whole page."""
    head = f"| model | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    rows = "\n".join(map(row, MODELS))
    whys = "\n".join(f"{i}. **{at}**: {why}." for i, (_, at, why) in enumerate(REASONS, 1))
    return f"{PAGE_TEXT.strip()}\n\n{head}{rows}\n\n## Why not\n\n{whys}\n"


PAGE_TEXT = """
# What works on what

Every cell is made by running the model with its defaults. A number stands for a reason below the
table.

- **weights**: `fit(X, sample_weight=w)`; a weight of w is w copies, 0 is absence
- **missing**: missing values (NaN) among the features
- **links**: `must_link` and `cannot_link`, pairs of row numbers (from 0) that belong together or
  apart, such as `must_link=[[0, 150]]`; a third number is the weight of a soft link. They hold for
  the fitted objects, not in `predict_proba`
- **labels**: `y` with the labels of some objects, -1 for the others
- **sparse**: sparse features
- **given**: a similarity (`similarity="precomputed"`) or labelings (`ensemble="precomputed"`) in
  place of features
- **new**: `predict_proba` of objects that were not fitted
- **batches**: `partial_fit`
- **dask**: a dask array of row blocks, with a running `distributed.Client`
- **GPU**: features as a PyTorch tensor on a CUDA device, or only a given similarity
"""


def main(arguments: list[str]) -> None:
    """Write the page, or with ``gpu`` the column of the GPU."""
    if arguments == ["gpu"]:
        found = {model.name: cell(model, on_gpu) for model in MODELS}
        for model in MODELS:
            if not found[model.name] and cell(model, given_on_gpu):
                found[model.name] = "given"
        GPU.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    import distributed

    with distributed.Client(processes=False, dashboard_address=None):
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
