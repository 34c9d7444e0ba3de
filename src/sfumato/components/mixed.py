"""Mixture of independent columns of different kinds (the latent class model).

    maximise  sum_i w_i log sum_j pi_j prod_c f_c(x_ic | theta_jc)  +  log p(pi, theta)

    normal, log-normal   f = N(y | mu, s2), y = x or log x           binary, categorical   f = p_x
    counts               f = exp(-r) r^x / x!                        missing               f = 1

Every log f is linear in features z(x) of the column, so that with  z = (1, log base, ...)

    log( pi_j prod_c f_c )  =  C_j . z(x_i)        (one product per block: E step)
    sums of cluster j       =  sum_i w_i u_ij z(x_i)    (another one: M step)

The prior is conjugate and has the weight of ``amount`` objects, ``amount / k`` per cluster (the
Bayes constants of Vermunt and Magidson 2005). Weights, probabilities and rates are shrunk towards
those of all the data, a variance towards the column's variance / k^2 and, with a hundredth of the
weight, a mean towards the column's mean (Fraley and Raftery 2007). No parameter reaches its
boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ..array.arrays import to_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..engine.component import Component
from ..engine.search import Objects
from ..numerics import seeding
from ..numerics.distances import weighted_columns
from ..numerics.seeding import SCREEN, Sample

MEAN_SHARE = 0.01  # of the weight on variances (Fraley and Raftery 2007)


class Layout(NamedTuple):
    """Columns by kind. Normal ones also have a shift and a scale, and may be logarithmic."""

    normal: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    logarithmic: np.ndarray  # 1.0 for log-normal columns, whose codes are already logarithms
    counts: np.ndarray
    categorical: np.ndarray
    n_levels: np.ndarray

    @property
    def cuts(self) -> tuple[int, int, int, int, int]:
        """Where each part of z(x) begins: which normal columns are observed, their values, their
        squares, counts, and categories."""
        a, b = len(self.normal), len(self.counts)
        return 2, 2 + a, 2 + 2 * a, 2 + 3 * a, 2 + 3 * a + 2 * b

    @property
    def offsets(self) -> np.ndarray:
        """First level of every categorical column among all levels."""
        return np.concatenate([[0], np.cumsum(self.n_levels)[:-1]]).astype(np.int64)


class State(NamedTuple):
    """Weights (k,), means and variances (k, a), rates (k, b), probabilities (k, levels)."""

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    rates: np.ndarray
    probabilities: np.ndarray


class Stats(NamedTuple):
    """Sums of z(x) per cluster (k, q), and the objective of the state used for them."""

    sums: np.ndarray
    objective: float


class Prior(NamedTuple):
    """Weight per cluster, and the variance, rates and probabilities that it is shrunk to."""

    amount: float
    variance: float
    rates: np.ndarray
    probabilities: np.ndarray


def expand(X: np.ndarray, layout: Layout) -> np.ndarray:
    """Features z(x) (b, q) of coded rows; missing values (NaN) have zero features."""
    X = np.asarray(X, dtype=np.float64)
    first, values, squares, counts, levels = layout.cuts
    Z = np.zeros((len(X), levels + int(layout.n_levels.sum())))
    Z[:, 0] = 1.0
    if len(layout.normal):
        Y = X[:, layout.normal]
        seen = ~np.isnan(Y)
        with np.errstate(over="ignore"):
            inner = np.where(seen, (Y - layout.shift) * layout.scale, 0.0)
        inner = np.clip(inner, -1e140, 1e140)  # squares of larger values would overflow
        Z[:, first:values], Z[:, values:squares], Z[:, squares:counts] = seen, inner, inner * inner
        Z[:, 1] += seen @ np.log(layout.scale) - np.where(seen, Y, 0.0) @ layout.logarithmic
    if len(layout.counts):
        N = X[:, layout.counts]
        seen, b = ~np.isnan(N), len(layout.counts)
        N = np.where(seen, N, 0.0)
        Z[:, counts : counts + b], Z[:, counts + b : levels] = seen, N
        Z[:, 1] -= gammaln(N + 1.0).sum(axis=1)
    for column, offset in zip(layout.categorical, layout.offsets, strict=False):
        seen = np.flatnonzero(~np.isnan(X[:, column]))
        Z[seen, levels + offset + X[seen, column].astype(np.int64)] = 1.0
    return Z


def embed(Z: np.ndarray, sums: np.ndarray, layout: Layout) -> np.ndarray:
    """Coordinates (b, r) for k-means from z(x); every column of the table has variance about one.
    Counts are replaced by their square roots, whose variance does not depend on the rate, and
    missing values by the mean."""
    _, values, squares, counts, levels = layout.cuts
    b = len(layout.counts)
    seen, N = Z[:, counts : counts + b], Z[:, counts + b : levels]
    roots = 2.0 * (np.sqrt(N) - np.sqrt(sums[counts + b : levels] / sums[counts : counts + b]))
    shares = _normalized(np.maximum(sums[None, levels:], 0.5), layout)[0]
    hot = Z[:, levels:]
    if layout.n_levels.size:
        spread = 1.0 - np.add.reduceat(shares**2, layout.offsets)
        unit = np.repeat(1.0 / np.sqrt(np.maximum(spread, 1e-3)), layout.n_levels)
        there = np.add.reduceat(hot, layout.offsets, axis=1)
        hot = (hot - shares * np.repeat(there, layout.n_levels, axis=1)) * unit
    return np.hstack([Z[:, values:squares], roots * seen, hot])


def _normalized(P: np.ndarray, layout: Layout) -> np.ndarray:
    """Probabilities (k, levels), normalised within every column of the data."""
    if not P.shape[1]:
        return P
    totals = np.add.reduceat(P, layout.offsets, axis=1)
    return P / np.repeat(totals, layout.n_levels, axis=1)


def coefficients(state: State) -> np.ndarray:
    """C (k, q) such that log( pi_j f(x_i) ) = C_j . z(x_i)."""
    pull = state.means / state.variances
    constant = -0.5 * (np.log(2.0 * np.pi * state.variances) + state.means * pull)
    first = [np.log(state.weights)[:, None], np.ones((len(state.weights), 1)), constant, pull]
    logs = [np.log(state.rates), np.log(state.probabilities)]
    return np.hstack([*first, -0.5 / state.variances, -state.rates, *logs])


@dataclass(frozen=True, eq=False)
class Mixed(Component):
    """Clusters of independent columns. ``overall`` (q,) are sums of z over all the data;
    ``smoothing`` is the weight of the prior in objects."""

    n_clusters: int
    layout: Layout
    overall: np.ndarray
    smoothing: float

    @property
    def setting(self) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters}

    @cached_property
    def prior(self) -> Prior:
        """The prior for this number of clusters."""
        layout, k = self.layout, self.n_clusters
        _, _, _, counts, levels = layout.cuts
        b = len(layout.counts)
        seen, total = self.overall[counts : counts + b], self.overall[counts + b : levels]
        # At least half an object, so that a column of zeros still has a positive rate.
        rates = np.maximum(total, 0.5) / seen
        held = np.maximum(self.overall[None, levels:], 0.5)
        return Prior(self.smoothing / k, 1.0 / k**2, rates, _normalized(held, layout)[0])

    def rows(self, X: Array, *columns: Any) -> Rows:
        layout = self.layout
        return Rows(X, *columns, view=lambda block: expand(to_numpy(block), layout))

    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> State:
        """State after one M step from groups of objects, given as z(x)."""
        return self.update(Stats(R @ X, 0.0))

    def ready(self, state: State) -> np.ndarray:
        return coefficients(state)

    def logits(self, block: Array, ready: np.ndarray) -> np.ndarray:
        return ready @ np.asarray(block).T

    def summarize(
        self, block: Array, weights: Weights, ready: np.ndarray, given: Weights = None
    ) -> Stats:
        U, level = weighted_columns(self.logits(block, ready), weights, given)
        return Stats(U @ np.asarray(block), float(level.sum()))

    def update(self, stats: Stats, state: State | None = None) -> State:
        S, prior, more = stats.sums, self.prior, self.prior.amount
        first, values, squares, counts, levels = self.layout.cuts
        N, mean, square = S[:, first:values], S[:, values:squares], S[:, squares:counts]
        held = MEAN_SHARE * more
        means = mean / (N + held)
        scatter = np.maximum(square - (N + held) * means**2, 0.0)
        variances = (scatter + more * prior.variance) / (N + held + more)
        b = len(self.layout.counts)
        rates = (S[:, counts + b : levels] + more * prior.rates) / (
            S[:, counts : counts + b] + more
        )
        weights = S[:, 0] + more
        shares = _normalized(S[:, levels:] + more * prior.probabilities, self.layout)
        return State(weights / weights.sum(), means, variances, rates, shares)

    def log_prior(self, state: State) -> float:
        prior, more, held = self.prior, self.prior.amount, MEAN_SHARE * self.prior.amount
        variance = (more + held) * np.log(state.variances)
        pull = (more * prior.variance + held * state.means**2) / state.variances
        return float(
            more * np.log(state.weights).sum()
            - 0.5 * (variance + pull).sum()
            + more * (prior.rates * np.log(state.rates) - state.rates).sum()
            + more * (prior.probabilities * np.log(state.probabilities)).sum()
        )

    def n_parameters(self) -> int:
        layout, k = self.layout, self.n_clusters
        each = 2 * len(layout.normal) + len(layout.counts) + int((layout.n_levels - 1).sum())
        return k - 1 + k * each

    @staticmethod
    def pack(state: State) -> np.ndarray:
        parts = (state.variances, state.rates, state.probabilities)
        logs = [np.log(part).ravel() for part in parts]
        return np.concatenate([np.log(state.weights), state.means.ravel(), *logs])

    def unpack(self, vector: np.ndarray, like: State) -> State:
        ends = np.cumsum([part.size for part in like])[:-1]
        cut = zip(np.split(vector, ends), like, strict=True)
        logs, means, *rest = (part.reshape(shape.shape) for part, shape in cut)
        # Extrapolation may overshoot, so exponents are kept in the range of exp.
        variances, rates, shares = (np.exp(np.clip(part, -300, 300)) for part in rest)
        weights = np.maximum(np.exp(logs - logs.max()), 1e-300)  # its logarithm must be finite
        shares = _normalized(shares, self.layout)
        return State(weights / weights.sum(), means, variances, rates, shares)

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> dict[int, Any]:
        layout, drawn = self.layout, {}
        for at, i in enumerate(layout.normal):
            inner = rng.normal(state.means[labels, at], np.sqrt(state.variances[labels, at]))
            drawn[int(i)] = inner / layout.scale[at] + layout.shift[at]
        for at, i in enumerate(layout.counts):
            drawn[int(i)] = rng.poisson(state.rates[labels, at])
        ends = layout.offsets + layout.n_levels
        for first, end, i in zip(layout.offsets, ends, layout.categorical, strict=False):
            cumulative = np.cumsum(state.probabilities[:, first:end], axis=1)[labels]
            codes = (rng.random(len(labels))[:, None] > cumulative).sum(axis=1)
            drawn[int(i)] = np.minimum(codes, end - first - 1)
        return drawn


def mixed_sample(data: Objects, layout: Layout, overall: np.ndarray) -> Sample:
    """Sample of objects as z(x); k-means sees every column of the table with variance about one."""
    rows = Rows(data.X, data.weights, view=lambda block: expand(to_numpy(block), layout))

    def places(Z: np.ndarray) -> np.ndarray:
        return embed(Z, overall, layout)

    Z, weights, _ = seeding.sorted_sample(rows, SCREEN, np.random.default_rng(0), key=places)
    return Sample(Z, weights, [places(Z)])
