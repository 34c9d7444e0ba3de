"""Stability of a clustering: whether fits to resamples of the evidence find it again."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..array.types import ArrayLike, RandomState
from ..array.validation import as_generator, check_number
from ..metrics import adjusted_rand_index
from ._evidence import as_evidence, labels_of, with_clusters

__all__ = ["Stability", "stability"]


class Stability(NamedTuple):
    """Agreement of fits to resamples with the fit: the mean adjusted Rand index, and all."""

    agreement: float
    values: np.ndarray


def stability(
    estimator: Any,
    evidence: ArrayLike,
    n_clusters: int | None = None,
    *,
    n_resamples: int = 5,
    max_objects: int = 2000,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Stability:
    """How far fits to resamples agree with the fit to all: 1 is the same, 0 is chance.

    Resamples are bootstrap draws of the same size, fitted with the same settings, a search over
    numbers of clusters included; each model labels all objects.

    Parameters
    ----------
    estimator : clusterer
        Fitted to the evidence or not; it is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        As the estimator reads it. Objects are drawn; of labelings the partitions are. Of a
        similarity half of the objects are, since copies would be too similar.
    n_clusters : int, optional
        Number of clusters in place of that of the estimator.
    n_resamples : int
        Number of resamples.
    max_objects : int
        Resamples of more objects are of this size.
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
    >>> stability(GaussianMixture(3), X, n_resamples=1, random_state=0).agreement
    1.0
    """
    n_resamples = check_number(n_resamples, "n_resamples", low=1, integer=True)
    max_objects = check_number(max_objects, "max_objects", low=4, integer=True)
    rng = as_generator(random_state)
    data = as_evidence(estimator, evidence, sample_weight)
    if n_clusters is not None:
        most = data.n_objects
        k = check_number(n_clusters, "n_clusters", low=1, high=most, integer=True)
        estimator = with_clusters(estimator, k, None)
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = len(getattr(estimator, "labels_", ())) == data.n_objects
        reference = estimator if known else data.fit(clone(estimator))
        labels = labels_of(reference, data.data)
        for _ in range(n_resamples):
            drawn = data.resample(rng)
            if len(drawn) > max_objects:
                drawn = np.sort(rng.choice(drawn, max_objects, replace=False))
            model = data.part(drawn).fit(clone(estimator))
            found = np.asarray(model.predict(data.seen_from(drawn)))
            values.append(float(adjusted_rand_index(labels, found)))
    return Stability(float(np.mean(values)), np.array(values))
