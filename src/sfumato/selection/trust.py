"""How far to trust a clustering: a verdict, a calibration report, and temperatures.

Tempered memberships are u_ir^(1/T) / sum_s u_is^(1/T): T > 1 makes them less certain, T < 1 more
certain. The best T minimises the squared error of co-occurrences u_i'u_j on pairs whose truth is
known.
"""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from ..array.arrays import to_numpy
from ..array.types import ArrayLike, Estimator, RandomState
from ..array.validation import check_number
from ..datasets import Simulated, make_gaussians
from ..engine.structure import CONFIDENT, Structure
from ..memberships import align, check_memberships, cooccurrence, harden
from ..metrics import brier_score, calibration_curve
from ..numerics.simplex import softmax
from ._evidence import TUNING
from .choose import Choice


def temper(memberships: ArrayLike, temperature: float) -> np.ndarray:
    """Memberships (n, k) made less certain (temperature above 1) or more certain (below 1).

    Parameters
    ----------
    memberships : array of shape (n, k)
    temperature : float
        Positive; 1 changes nothing. Memberships of exactly 0 stay 0.

    Examples
    --------
    >>> from sfumato.selection import temper
    >>> temper([[0.8, 0.2]], 0.5).round(3)
    array([[0.941, 0.059]])
    """
    U = np.asarray(check_memberships(memberships))
    temperature = check_number(temperature, "temperature", low=0, high=np.inf, strict=True)
    # log 0 is minus infinity, which softmax turns back into 0.
    with np.errstate(divide="ignore"):
        return softmax(np.log(np.clip(U, 0, None)) / U.dtype.type(temperature))[0]


def fit_temperature(
    memberships: ArrayLike,
    reference: ArrayLike | None = None,
    *,
    pairs: ArrayLike | None = None,
    together: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Temperature, from 1/50 to 50, at which co-occurrences have the smallest Brier score.

    A value above 1 means that the memberships were too confident.

    Parameters
    ----------
    memberships : array of shape (n, k)
    reference : labels of shape (n,) or memberships of shape (n, k'), optional
        Known classes of the objects; they need not correspond to the clusters.
    pairs, together : integer array of shape (m, 2) and array of shape (m,), optional
        Instead of ``reference``: pairs of objects, and the chance (or 0 or 1) that they belong
        together.
    sample_weight : array of shape (n,), optional
        With ``reference``: a pair counts as often as the product of its two weights.

    Examples
    --------
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import fit_temperature, temper
    >>> simulated = make_gaussians(1000, 3, separation=2, random_state=0)
    >>> too_sure = temper(simulated.memberships, 0.25)
    >>> round(fit_temperature(too_sure, simulated.labels) / 4, 1)
    1.0
    """
    U = np.asarray(check_memberships(memberships))
    if (reference is None) == (pairs is None) or (pairs is None) != (together is None):
        raise ValueError("give either reference, or pairs with together")
    truth = None if together is None else np.asarray(together, dtype=np.float64)
    n_pairs = len(np.asarray(pairs)) if truth is not None else 0
    if truth is not None and truth.shape != (n_pairs,):
        raise ValueError(f"together must hold a value for {n_pairs} pairs, got shape {truth.shape}")

    def loss(log_temperature: float) -> float:
        tempered = temper(U, float(np.exp(log_temperature)))
        if truth is None:
            return float(brier_score(reference, tempered, sample_weight=sample_weight))
        return float(np.mean((cooccurrence(tempered, pairs) - truth) ** 2))

    # The loss may have several minima, so a grid search comes before the bounded search.
    grid = np.linspace(-np.log(50), np.log(50), 27)
    best = int(np.argmin([loss(value) for value in grid]))
    bracket = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    found = minimize_scalar(loss, bounds=bracket, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))


class Reliability(NamedTuple):
    """A row of a calibration report, averaged over draws. ``confidence``, the mean largest
    membership, should equal ``accuracy``; ``distance`` is that to the true posterior,
    ``calibration_error`` the error of the co-occurrences.
    """

    model: str
    separation: float
    accuracy: float
    confidence: float
    distance: float
    calibration_error: float
    temperature: float

    @property
    def overconfidence(self) -> float:
        """Confidence minus accuracy: 0 if calibrated, positive if too confident."""
        return self.confidence - self.accuracy


def calibration_report(
    estimators: Mapping[str, Any],
    *,
    separations: Iterable[float] = (2.0, 3.0, 4.0),
    n_objects: int = 300,
    n_draws: int = 3,
    random_state: RandomState = 0,
) -> list[Reliability]:
    """Calibration of models on overlapping Gaussians with known posterior: one row for each model
    and separation.

    Parameters
    ----------
    estimators : mapping from names to clusterers of features
        Clones are fitted to three clusters in the plane.
    separations : iterable of float
    n_objects, n_draws : int
        Size and number of the data sets for each separation.
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.selection import calibration_report
    >>> row = calibration_report({"mixture": GaussianMixture()}, separations=[4.0], n_draws=1)[0]
    >>> abs(row.overconfidence) < 0.05
    True
    """
    if not isinstance(estimators, Mapping):
        raise TypeError(
            f"estimators must map names to estimators, such as {{'mixture': GaussianMixture()}}, "
            f"got {estimators!r}"
        )
    rows = []
    for separation in separations:
        draws = [
            make_gaussians(n_objects, 3, separation=separation, random_state=rng)
            for rng in np.random.default_rng(random_state).spawn(n_draws)
        ]
        for name, estimator in estimators.items():
            values = np.mean([_reliability(estimator, draw) for draw in draws], axis=0)
            rows.append(Reliability(name, float(separation), *map(float, values)))
    return rows


def _reliability(estimator: Estimator, draw: Simulated) -> tuple[float, ...]:
    model = clone(estimator).set_params(n_clusters=draw.memberships.shape[1])
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    with warnings.catch_warnings(action="ignore"):
        U = align(np.asarray(model.fit(draw.evidence).memberships_), draw.memberships)
    return (
        float(np.mean(harden(U) == draw.labels)),
        float(U.max(axis=1).mean()),
        float(np.sqrt(np.mean(np.sum((U - draw.memberships) ** 2, axis=1)))),
        calibration_curve(draw.labels, U).error,
        fit_temperature(U, draw.labels),
    )


class Verdict(NamedTuple):
    """How far to trust a clustering: ``kind`` is "good", "note" or "caution"."""

    kind: str
    text: str


def verdict(
    clustering: Any,
    *,
    structure: Structure | None = None,
    stability: float | None = None,
    automatic: bool = False,
    noise_cluster: bool = False,
) -> Verdict:
    """How far to trust a clustering, in one or two sentences.

    Parameters
    ----------
    clustering : fitted clusterer, or memberships of shape (n, k)
    structure : Structure, optional
        Result of the structure test; ``structure_`` of a fitted clusterer if not given.
    stability : float, optional
        Agreement of fits to resamples, such as ``stability(model, X).agreement``.
    automatic, noise_cluster : bool
        Whether the number of clusters was chosen from the data, and whether the last column is
        noise rather than a cluster; read from a fitted clusterer.

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import verdict
    >>> X = make_gaussians(200, 3, separation=8, random_state=0).evidence
    >>> verdict(GaussianMixture(3, random_state=0).fit(X), stability=1.0).text
    'Clear clusters: the data separate all 3, and fits to resamples agree to 1.00.'
    """
    failed, noise, labelings = "", noise_cluster, False
    if hasattr(clustering, "memberships_"):
        labelings = isinstance(getattr(clustering, "ensemble", None), str)
        failed = _failed(getattr(clustering, "selection_", None))
        structure = getattr(clustering, "structure_", None) if structure is None else structure
        automatic = automatic or getattr(clustering, "n_clusters", None) == "auto"
        noise = noise_cluster or getattr(clustering, "noise_cluster", None) is not None
        clustering = clustering.memberships_
    U = check_memberships(to_numpy(clustering))
    k = U.shape[1] - noise
    if k == 1 and failed:
        return Verdict(
            "caution",
            f"One cluster, because no fit of several succeeded: {failed}. Leave out columns that "
            "hold few values, or try another model.",
        )
    if k == 1:
        why = "no division into several is supported by the data" if automatic else "as asked for"
        return Verdict("note", f"One cluster: {why}.")
    steady = stability is not None and stability >= TUNING.strong
    agree = "" if stability is None else f"fits to resamples agree to {stability:.2f}"
    if structure is None:
        if not agree:
            return Verdict("note", f"Untested: whether the {k} clusters are separate is not known.")
        if steady:
            return Verdict("good", f"Stable clusters: {agree}.")
        return Verdict("caution", f"Unstable clusters: {agree} only (1 is the same, 0 is chance).")
    if structure.supported:
        every = "both" if k == 2 else f"all {k}"
        return _separate(every, structure.split, agree, stability, labelings)
    vague = float(np.asarray(U).max(axis=1).mean()) < CONFIDENT
    return _not_separate(k, int(structure.n_apart), agree, steady, vague, automatic)


def _failed(choice: Choice | None) -> str:
    """Reason of the first failure, if every number of clusters above one failed."""
    reasons = [row.failure or "" for row in choice.table if row.n_clusters > 1] if choice else []
    return reasons[0] if reasons and all(reasons) else ""


def _separate(
    every: str, split: int | None, agree: str, stability: float | None, labelings: bool
) -> Verdict:
    found = f"the {'labelings' if labelings else 'data'} separate {every}"
    if stability is not None and stability < TUNING.strong:
        what, advice = "whose borders move", "Look at uncertain objects before acting on labels."
        if stability < TUNING.weak:
            what, advice = "of this sample", "Another sample may well show other clusters."
        text = f"Separate clusters {what}: {found}, but {agree} only. {advice}"
        return Verdict("caution", text)
    found += f", and {agree}" if agree else ""
    if split is not None:
        return Verdict(
            "note",
            f"Too few clusters: {found}, but cluster {split} falls into pieces with an empty "
            "region between them. Try more clusters.",
        )
    if labelings:  # clusterings of one kind may share cuts through a cloud without any gap
        text = f"Shared clusters: {found}. Only features can tell whether there are gaps as well."
        return Verdict("note", text)
    return Verdict("good", f"Clear clusters: {found}.")


def _not_separate(k: int, apart: int, agree: str, steady: bool, vague: bool, auto: bool) -> Verdict:
    gaps = "no gap lies between the clusters"
    if apart > 1:
        gaps = f"the data separate {apart} groups, fewer than the {k} clusters"
    advice = f" Try {apart} clusters." if 1 < apart < k and not auto else ""
    if steady:
        text = f"Clusters that shade into each other: {gaps}, but {agree}. Read them as a steady "
        return Verdict("note", f"{text}division of a continuum, not as separate groups.{advice}")
    if vague:
        return Verdict("note", f"Vague memberships, and rightly so: {gaps}.{advice}")
    more = f", and {agree} only" if agree else ""
    if apart > 1:
        title = "More clusters than separate groups" if auto else "Too many clusters"
        text = f"{title}: {gaps}{more}. Some are parts of one group.{advice}"
    else:
        text = f"No clusters to rely on: {gaps}{more}. The memberships cut a continuum, or noise."
    return Verdict("caution", text)
