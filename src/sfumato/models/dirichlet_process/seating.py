"""Clusters that an object may join: posteriors of their conjugate priors, cached and moved by one
object at a time.

A table has a fixed number of seats; an empty one holds the prior, and the first empty one is the
next new cluster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...conjugate.kernel import LOG_2PI
from .components import CountComponent, DiagonalComponent, FullComponent

__all__ = ["points", "seats", "sums"]


class FullSeats(NamedTuple):
    """Cached posteriors of normal clusters.

    ``counts`` (slots,), means (slots, d), inverse scales (slots, d, d), log |scale|.
    """

    counts: np.ndarray
    means: np.ndarray
    inverses: np.ndarray
    log_dets: np.ndarray
    kappa: float
    df: float
    table: np.ndarray  # the part of the log predictive density that depends on the count alone
    empty: tuple[np.ndarray, np.ndarray, float]


class DiagonalSeats(NamedTuple):
    """Cached posteriors of normal clusters with independent features.

    Seen (slots, d), means (slots, d), scales (slots, d).
    """

    counts: np.ndarray
    seen: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    kappa: np.ndarray
    shape: np.ndarray
    table: np.ndarray
    empty: tuple[np.ndarray, np.ndarray]


class CountSeats(NamedTuple):
    """Posterior concentrations (slots, q) of the categories, and their totals (slots, groups)."""

    counts: np.ndarray
    concentrations: np.ndarray
    totals: np.ndarray
    n_groups: int
    empty: tuple[np.ndarray, np.ndarray]


def points(component: Any, Z: np.ndarray) -> np.ndarray:
    """What the seats need of the objects, one row each, out of their features (q, n)."""
    if isinstance(component, FullComponent):
        return np.ascontiguousarray(Z[1 : len(component.mean) + 1].T)
    if isinstance(component, DiagonalComponent):
        d = len(component.mean)
        return np.ascontiguousarray(np.where(Z[:d] > 0, Z[d : 2 * d], np.nan).T)
    return np.ascontiguousarray((Z.toarray() if hasattr(Z, "toarray") else Z).T)


def sums(Z: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Sums of features (k, q) of clusters 0 to k - 1; label -1 belongs to none."""
    return (labels[None] == np.arange(k)[:, None]).astype(np.float64) @ Z.T


def seats(component: Any, S: np.ndarray, counts: np.ndarray, n: int) -> Any:
    """Fresh caches for clusters with these sums of features (slots, q) and counts (slots,).

    Up to ``n`` objects will come.
    """
    counts = counts.astype(np.int64)
    total = np.arange(n + 2)
    if isinstance(component, FullComponent):
        d = len(component.mean)
        mean, _, _, scale = component.posterior(S)
        df, kappa = component.df + total, component.kappa + total
        table = (
            gammaln((df + 1) / 2)
            - gammaln((df + 1 - d) / 2)
            + 0.5 * d * np.log(kappa / ((kappa + 1) * np.pi))
        )
        log_dets = np.linalg.slogdet(scale)[1]
        empty = (
            component.mean,
            np.linalg.inv(component.scale),
            float(np.linalg.slogdet(component.scale)[1]),
        )
        return FullSeats(
            counts,
            mean,
            np.linalg.inv(scale),
            log_dets,
            component.kappa,
            component.df,
            table,
            empty,
        )
    if isinstance(component, DiagonalComponent):
        mean, _, _, scale = component.posterior(S)
        shape, kappa = component.shape + total[:, None] / 2, component.kappa + total[:, None]
        table = (
            gammaln(shape + 0.5) - gammaln(shape) + 0.5 * (np.log(kappa / (kappa + 1)) - LOG_2PI)
        )
        seen = np.rint(S[:, : len(component.mean)]).astype(np.int64)
        return DiagonalSeats(
            counts,
            seen,
            mean,
            scale,
            component.kappa,
            component.shape,
            table,
            (component.mean, component.scale),
        )
    assert isinstance(component, CountComponent)
    prior = component.prior.reshape(-1)
    groups = component.prior.sum(axis=0)
    totals = groups + S.reshape(-1, *component.prior.shape).sum(axis=1)
    return CountSeats(counts, prior + S, totals, len(groups), (prior, groups))
