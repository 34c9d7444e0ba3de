"""Calibration of memberships, and temperatures that improve it.

Tempered memberships are  u_ir^(1/T) / sum_s u_is^(1/T):  T > 1 makes them less certain, T < 1 more
certain; the order of clusters stays. The best T has the least squared error of co-occurrences
u_i'u_j against pairs whose truth is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from ..array.types import ArrayLike, Estimator, RandomState
from ..array.validation import check_number
from ..datasets import make_gaussians
from ..memberships import align, check_memberships, cooccurrence, harden
from ..metrics import brier_score, calibration_curve
from ..numerics.simplex import softmax

__all__ = ["Reliability", "calibration_report", "fit_temperature", "temper"]


def temper(memberships: ArrayLike, temperature: float) -> np.ndarray:
    """Memberships made less certain (temperature above 1) or more certain (below 1).

    Parameters
    ----------
    memberships : array of shape (n, k)
    temperature : float
        Positive; 1 changes nothing. Memberships of exactly 0 stay 0.

    Returns
    -------
    memberships : array of shape (n, k)

    Examples
    --------
    >>> from sfumato.selection import temper
    >>> temper([[0.8, 0.2]], 0.5).round(3)
    array([[0.941, 0.059]])
    """
    U = np.asarray(check_memberships(memberships))
    temperature = check_number(temperature, "temperature", low=0, high=np.inf, strict=True)
    # log 0 is minus infinity, which softmax turns into 0 again.
    with np.errstate(divide="ignore"):
        return softmax(np.log(np.clip(U, 0, None)) / U.dtype.type(temperature))[0]


def fit_temperature(
    memberships: ArrayLike,
    reference: Any = None,
    *,
    pairs: Any = None,
    together: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The temperature at which co-occurrences have the least Brier score against the truth.

    Parameters
    ----------
    memberships : array of shape (n, k)
        Of objects that were not used to choose anything else.
    reference : labels of shape (n,) or memberships of shape (n, k'), optional
        What is known about the objects. Their names need not match the clusters.
    pairs, together : integer array of shape (m, 2) and array of shape (m,), optional
        In place of ``reference``: pairs of objects, and whether they belong together (0 or 1, or a
        chance).
    sample_weight : array of shape (n,), optional
        With ``reference``: a pair counts as often as the product of its two weights.

    Returns
    -------
    temperature : float
        Between 1/50 and 50. Above 1 the memberships were too confident.

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
    if truth is not None and truth.shape != (len(pairs),):
        raise ValueError(
            f"together must hold one value for each of the {len(pairs)} pairs, got shape "
            f"{truth.shape}"
        )

    def loss(log_temperature: float) -> float:
        tempered = temper(U, float(np.exp(log_temperature)))
        if truth is None:
            return float(brier_score(reference, tempered, sample_weight=sample_weight))
        return float(np.mean((cooccurrence(tempered, pairs) - truth) ** 2))

    # The loss may have several minima: a grid finds the basin, then a bounded search the minimum.
    grid = np.linspace(-np.log(50), np.log(50), 27)
    best = int(np.argmin([loss(value) for value in grid]))
    bracket = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    return float(
        np.exp(minimize_scalar(loss, bounds=bracket, method="bounded", options={"xatol": 1e-4}).x)
    )


class Reliability(NamedTuple):
    """A row of a calibration report, means over draws.

    ``confidence`` is the mean largest membership and should equal ``accuracy``; ``distance`` is the
    root mean square distance to the true posterior, ``calibration_error`` that of the
    co-occurrences, ``temperature`` the best one.
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
        """Confidence minus accuracy: 0 for calibrated memberships, above 0 for those too sure."""
        return self.confidence - self.accuracy


def calibration_report(
    estimators: Mapping[str, Any],
    *,
    separations: Iterable[float] = (2.0, 3.0, 4.0),
    n_objects: int = 300,
    n_draws: int = 3,
    random_state: RandomState = 0,
) -> list[Reliability]:
    """Calibration of the memberships of models.

    On overlapping Gaussians, where the true posterior is known.

    Parameters
    ----------
    estimators : mapping from names to clusterers of features
        Fitted, as clones, to three clusters in the plane; the number of clusters is set for them.
    separations : iterable of float
        See ``make_gaussians``.
    n_objects, n_draws : int
        Size and number of the data sets for each separation.
    random_state : None, int or Generator

    Returns
    -------
    report : list of Reliability
        One row for each model and separation.

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


def _reliability(estimator: Estimator, draw: Any) -> tuple[float, ...]:
    model = clone(estimator).set_params(n_clusters=draw.memberships.shape[1])
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        U = align(np.asarray(model.fit(draw.evidence).memberships_), draw.memberships)
    return (
        float(np.mean(harden(U) == draw.labels)),
        float(U.max(axis=1).mean()),
        float(np.sqrt(np.mean(np.sum((U - draw.memberships) ** 2, axis=1)))),
        calibration_curve(draw.labels, U).error,
        fit_temperature(U, draw.labels),
    )
