"""How much memberships and co-occurrences would change if the evidence were gathered again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..array.memory import reserve
from ..array.types import ArrayLike, Estimator, RandomState
from ..array.validation import as_generator, check_number
from ..memberships import align, cooccurrence
from ._evidence import Evidence, as_evidence, memberships_of, with_clusters
from .choose import Progress

__all__ = ["Interval", "Uncertainty", "bootstrap"]


class Interval(NamedTuple):
    """Values with their intervals, arrays of one shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Uncertainty(NamedTuple):
    """Memberships (n, k) of the fit, and ``draws`` (n_resamples, n, k) of resampled fits with their
    clusters in the same order.
    """

    memberships: np.ndarray
    draws: np.ndarray
    estimator: Any

    @property
    def standard_error(self) -> np.ndarray:
        """Standard deviation of every membership over the resamples, (n, k)."""
        return self.draws.std(axis=0, ddof=1)

    def interval(self, level: float = 0.95) -> Interval:
        """Percentile intervals of the memberships, (n, k)."""
        return Interval(self.memberships, *_percentiles(self.draws, level))

    def cooccurrence(self, pairs: ArrayLike, level: float = 0.95) -> Interval:
        """Percentile intervals of u_i'u_j for chosen pairs (m, 2).

        No matching of clusters enters.
        """
        values = np.stack([cooccurrence(draw, pairs) for draw in self.draws])
        return Interval(cooccurrence(self.memberships, pairs), *_percentiles(values, level))


def _percentiles(values: np.ndarray, level: float) -> np.ndarray:
    level = check_number(level, "level", low=0, high=1, strict=True)
    return np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)


def bootstrap(
    estimator: Estimator,
    evidence: ArrayLike,
    n_resamples: int = 100,
    *,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Uncertainty:
    """Memberships of every object under fits to resampled evidence.

    Objects (features), halves of the objects (similarities) or partitions (labelings) are drawn
    anew, the estimator is fitted to them, and its memberships of **all** objects are put in the
    order of the fit to all the evidence by optimal assignment, so that the order of clusters in a
    fit does not matter.

    Parameters
    ----------
    estimator : clusterer
        With the number of clusters wanted. It is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        As the estimator reads it.
    n_resamples : int
    sample_weight : array of shape (n,), optional
        Passed to ``fit``, with features.
    random_state : None, int, RandomState or Generator
    n_jobs : int, optional
        Resamples fitted at once, as in joblib. The answer does not depend on it.
    progress : callable, optional
        Called as ``progress(done, total)`` after every resample.

    Returns
    -------
    uncertainty : Uncertainty
        ``memberships``, ``draws``, ``standard_error``, ``interval(level)``, ``cooccurrence(pairs,
        level)``, and the fitted ``estimator``.

    Examples
    --------
    >>> from sfumato import FuzzyCMeans
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import bootstrap
    >>> X = make_gaussians(100, 2, separation=6, random_state=0).evidence
    >>> uncertainty = bootstrap(FuzzyCMeans(2), X, n_resamples=20, random_state=0)
    >>> value, low, high = uncertainty.cooccurrence([(0, 1)])
    >>> bool(low[0] <= value[0] <= high[0])
    True
    """
    data = as_evidence(estimator, evidence, sample_weight)
    n_resamples = check_number(n_resamples, "n_resamples", low=2, integer=True)
    rng = as_generator(random_state)
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=int(rng.integers(2**31)))
    model = data.fit(model)
    memberships = np.asarray(
        model.memberships_ if hasattr(model, "memberships_") else memberships_of(model, data.data)
    )
    reserve(
        (n_resamples, *memberships.shape),
        memberships.dtype,
        "the memberships of all resamples",
        "ask for fewer resamples",
    )
    jobs = (
        delayed(_resampled)(estimator, data, memberships.shape[1], stream)
        for stream in rng.spawn(n_resamples)
    )
    drawn: Iterable[np.ndarray] = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    draws = np.stack(
        [_in_order(U, memberships) for U in Progress(progress, n_resamples).each(drawn)]
    )
    return Uncertainty(memberships, draws, model)


def _resampled(
    estimator: Estimator, evidence: Evidence, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    chosen = evidence.resample(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = evidence.part(chosen).fit(with_clusters(estimator, n_clusters, rng))
        return memberships_of(model, evidence.seen_from(chosen))


def _in_order(memberships: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Aligned to the reference and as wide.

    Clusters without a partner add to none, so the rows are shared out again.
    """
    aligned = align(memberships, reference)
    k = reference.shape[1]
    return (
        aligned
        if aligned.shape[1] == k
        else aligned[:, :k] + aligned[:, k:].sum(axis=1, keepdims=True) / k
    )
