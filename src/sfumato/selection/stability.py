"""Stability of a clustering: agreement of fits to disjoint halves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.types import ArrayLike, RandomState
from ..core.validation import as_generator, check_number
from ._evidence import Evidence, Labelings, as_evidence
from .trials import Trial, held_out

__all__ = ["Stability", "stability"]


class Stability(NamedTuple):
    """Agreement of fits on disjoint halves: the mean adjusted Rand index, and all of them."""

    agreement: float
    values: np.ndarray


def stability(
    estimator: Any,
    evidence: ArrayLike,
    n_clusters: int | None = None,
    *,
    n_splits: int = 5,
    max_objects: int = 2000,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Stability:
    """How far two halves of the evidence, clustered apart, agree: 1 is the same, 0 is chance.

    Parameters
    ----------
    estimator : clusterer
        Fitted or not; it is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        As the estimator reads it. Objects are halved; of labelings the partitions are.
    n_clusters : int, optional
        Number of clusters; that of the fit, or of the parameter, if not given.
    n_splits : int
        Splits into halves; two fits each.
    max_objects : int
        Larger evidence is sampled.
    sample_weight : array of shape (n,), optional
        Passed to ``fit``, with features.
    random_state : None, int, RandomState or Generator

    Returns
    -------
    stability : Stability

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import stability
    >>> X = make_gaussians(200, 3, separation=8, random_state=0).evidence
    >>> stability(GaussianMixture(3), X, n_splits=1, random_state=0).agreement
    1.0
    """
    n_splits = check_number(n_splits, "n_splits", low=1, integer=True)
    max_objects = check_number(max_objects, "max_objects", low=4, integer=True)
    rng = as_generator(random_state)
    data = as_evidence(estimator, evidence, sample_weight)
    k = check_number(
        _number(estimator) if n_clusters is None else n_clusters,
        "n_clusters",
        low=1,
        high=data.n_objects // 2,
        integer=True,
    )
    if data.n_objects > max_objects:
        data = _some(data, np.sort(rng.permutation(data.n_objects)[:max_objects]))
    values = held_out(Trial(estimator, data, n_splits, int(rng.integers(2**31)), {}), k)
    return Stability(float(values.mean()), values)


def _number(estimator: Any) -> Any:
    """Number of clusters of a fitted estimator, without noise, or of the parameter."""
    if hasattr(estimator, "n_clusters_"):
        return estimator.n_clusters_ - (getattr(estimator, "noise", None) is not None)
    parameters = estimator.get_params(deep=False)
    number = parameters.get("n_clusters", parameters.get("n_components"))
    if not isinstance(number, (int, np.integer)):
        raise ValueError(f"n_clusters is {number!r}: fit the estimator first, or give a number")
    return number


def _some(data: Evidence, rows: np.ndarray) -> Evidence:
    return Labelings(data.data[rows]) if isinstance(data, Labelings) else data.part(rows)
