"""The information bottleneck (Tishby, Pereira and Bialek 1999) and its hard, sequential form
(Slonim, Friedman and Tishby 2002).

x are objects with weight p(x) and a distribution q(c|x); clusters v have p(v) and p(c|v). For
memberships p(v|x):

    minimise   F = I(X;V) - beta I(C;V)

    p(v|x) = p(v) exp(beta sum_c q(c|x) log p(c|v)) / Z(x),    p(v, c) = sum_x p(x) p(v|x) q(c|x)

Each line minimises F over its left side, and after the first, F = - sum_x p(x) log Z(x) - beta
H(C): a sum over row blocks that never rises. For beta = infinity, I(C;V) is maximised over hard
clusters by moving single objects to the cluster with the lowest cost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from ...array.types import Array
from ...numerics.contingency import mutual_information
from ...numerics.simplex import normalize, softmax

TINY = np.finfo(np.float64).tiny


class Bottleneck(NamedTuple):
    """Cluster weights p(v) (k,), relevant distributions p(c|v) (k, classes), and the trade-off."""

    weights: np.ndarray
    distributions: np.ndarray
    beta: float


class Totals(NamedTuple):
    """p(v, c) of a block (k, classes), and its part of - sum_x p(x) log Z(x)."""

    joint: np.ndarray
    objective: float


def _scores(Q: Array, state: Bottleneck) -> np.ndarray:
    """sum_c q(c|x) log p(c|v): minus the divergence of x from v, up to a term that depends on x."""
    return np.asarray(Q @ np.log(np.maximum(state.distributions, TINY)).T)


def assign(Q: Array, state: Bottleneck) -> tuple[np.ndarray, np.ndarray]:
    """Memberships p(v|x) and log Z(x) for rows q(c|x), dense or sparse."""
    with np.errstate(divide="ignore"):
        return softmax(np.log(state.weights) + state.beta * _scores(Q, state))


def nearest(Q: Array, state: Bottleneck) -> np.ndarray:
    """One-hot memberships in the cluster of smallest divergence; empty clusters get no object."""
    scores = np.where(state.weights > 0, _scores(Q, state), -np.inf)
    return np.eye(len(state.weights))[scores.argmax(axis=1)]


def summarize(Q: Any, mass: np.ndarray, state: Bottleneck) -> Totals:
    """Statistics of a block at a state."""
    Y, log_normalizer = assign(Q, state)
    return Totals(joint(Y, Q, mass), -float(mass @ log_normalizer))


def joint(Y: np.ndarray, Q: Array, mass: np.ndarray) -> np.ndarray:
    """p(v, c) = sum_x p(x) p(v|x) q(c|x)."""
    weighted = Y * mass[:, None]
    return np.asarray((Q.T @ weighted).T) if sp.issparse(Q) else weighted.T @ Q


def update(table: np.ndarray, beta: float) -> Bottleneck:
    """The state that follows from a joint table p(v, c)."""
    return Bottleneck(table.sum(axis=1) / table.sum(), normalize(table), beta)


def pack(state: Bottleneck) -> np.ndarray:
    """The state as one vector of logarithms, without constraints."""
    return np.log(np.maximum(np.column_stack([state.weights, state.distributions]), TINY)).ravel()


def unpack(vector: np.ndarray, like: Bottleneck) -> Bottleneck:
    """The state that ``pack`` turned into a vector."""
    logs = vector.reshape(len(like.weights), -1)
    return Bottleneck(softmax(logs[:, 0].copy())[0], softmax(logs[:, 1:].copy())[0], like.beta)


def entropy(p: np.ndarray) -> float:
    """- sum p log p in nats."""
    return -float(xlogy(p, p).sum())


def compression(Y: np.ndarray, mass: np.ndarray, weights: np.ndarray) -> float:
    """I(X;V) of a block of memberships."""
    ratio = np.divide(Y, weights, out=np.ones_like(Y), where=Y > 0)
    return float(mass @ xlogy(Y, ratio).sum(axis=1))


def sequential(
    Q: np.ndarray, mass: np.ndarray, labels: np.ndarray, k: int
) -> tuple[np.ndarray, float]:
    """Labels after moving each object in turn to the cheapest cluster, and their I(C;V).

    I(C;V) = H(C) + sum_v phi(v) with phi(v) = sum_c p(v, c) log p(v, c) - p(v) log p(v), so x
    belongs to the cluster with the smallest phi(v) - phi(v + x). Only the classes of x change. An
    object that is alone in its cluster stays.
    """
    T = sp.csr_array(Q * mass[:, None] if isinstance(Q, np.ndarray) else Q.multiply(mass[:, None]))
    labels = labels.copy()
    table = np.zeros((T.shape[1], k))
    for v in range(k):
        table[:, v] = T[labels == v].sum(axis=0)
    sizes = table.sum(axis=0)
    for x in np.flatnonzero(mass):
        entries = slice(T.indptr[x], T.indptr[x + 1])
        support, own = T.indices[entries], T.data[entries]
        home, weight = labels[x], own.sum()
        part = table[support]
        # Subtracting what was added may leave a negative rounding error.
        part[:, home] = np.maximum(part[:, home] - own, 0.0)
        sizes[home] = max(sizes[home] - weight, 0.0)
        joined, grown = part + own[:, None], sizes + weight
        cost = (xlogy(part, part) - xlogy(joined, joined)).sum(axis=0)
        cost += xlogy(grown, grown) - xlogy(sizes, sizes)
        to = int(cost.argmin())
        # The gain must exceed rounding errors, or sweeps might never end.
        labels[x] = to if cost[to] < cost[home] - 1e-13 * weight else home
        part[:, labels[x]] = joined[:, labels[x]]
        sizes[labels[x]] = grown[labels[x]]
        table[support] = part
    return labels, mutual_information(table)


def seeds(Q: Array, mass: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Starting distributions (k, classes).

    They are rows of ``Q``, each drawn far (in divergence) from those before it, mixed with the mean
    of all rows.
    """
    key = np.asarray(Q @ np.random.default_rng(0).normal(size=Q.shape[1]))
    order = np.argsort(key, kind="stable")
    Q, mass = Q[order], mass[order]  # the same seeds for any order of the objects
    mean = np.asarray(mass @ Q) / mass.sum()
    own = np.asarray(row_entropies(Q))
    chosen: list[np.ndarray] = []
    divergence = np.ones(Q.shape[0])
    for _ in range(k):
        reach = np.cumsum(mass * divergence)
        x = int(np.argmax(mass))
        if reach[-1] > 0:
            x = int(np.searchsorted(reach, rng.random() * reach[-1], side="right"))
        row = Q[[min(x, Q.shape[0] - 1)]]
        # Mixed with the mean, so that no class has probability zero.
        chosen.append(0.5 * mean + 0.5 * np.asarray(row.toarray() if sp.issparse(row) else row)[0])
        found = -own - np.asarray(Q @ np.log(np.maximum(chosen[-1], TINY)))
        divergence = np.maximum(found if len(chosen) == 1 else np.minimum(divergence, found), 0.0)
    return normalize(np.stack(chosen))


def row_entropies(Q: Any) -> np.ndarray:
    """Entropy H(q(c|x)) of every row, dense or sparse."""
    if sp.issparse(Q):
        logs = Q.copy()
        logs.data = xlogy(Q.data, Q.data)
        return -np.asarray(logs.sum(axis=1)).ravel()
    return -xlogy(Q, Q).sum(axis=1)
