"""The spectral cost of a known partition, as a function of the similarity (Bach and Jordan 2006),
and its gradient.

    J(W) = 1/2 |P - Pi|^2 = k - tr(P Pi),
            P = E E',  E the k leading eigenvectors of A = D^-1/2 W D^-1/2,
    Pi = sum_r q_r q_r' / v_r,
            q_r = sqrt(d) on cluster r and 0 elsewhere,  v_r = sum of d over the cluster

    dP = sum_{a <= k < b} (e_b'dA e_a) / (lambda_a - lambda_b) (e_a e_b' + e_b e_a'),  and d = W 1
    moves A and Pi too.

For the Gaussian similarity  W_ij = exp(-1/2 sum_f s_f^2 (x_if - x_jf)^2)  the chain ends in the
logarithms of the scales s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["gaussian", "neighbor_cost", "scale_gradient", "spectral_cost"]

Cost = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def spectral_cost(W: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """J of the partition ``labels`` (n,) in 0, ..., k - 1, all used, and dJ/dW (n, n) for changes
    that keep W symmetric.
    """
    k = int(labels.max()) + 1
    degree = W.sum(axis=1)
    s = degree**-0.5
    A = s[:, None] * W * s
    values, vectors = np.linalg.eigh(A)
    E, rest = vectors[:, -k:], vectors[:, :-k]
    gaps = np.maximum(values[-k:, None] - values[None, :-k], 1e-12)
    Q = (labels[:, None] == np.arange(k)) / s[:, None]
    volume = np.bincount(labels, degree)
    inner = E.T @ Q
    shares = (inner**2).sum(axis=0) / volume
    half = E @ (((inner / volume) @ (Q.T @ rest)) / gaps) @ rest.T
    along_A = -(half + half.T)
    pull = np.take_along_axis(E @ inner, labels[:, None], axis=1)[:, 0]
    along_degree = (
        shares[labels] / volume[labels]
        - pull * s / volume[labels]
        - (along_A * A).sum(axis=1) / degree
    )
    return float(k - shares.sum()), along_A * (s[:, None] * s) + along_degree[:, None]


def neighbor_cost(W: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Share of a random step along W (never in place) that leaves its cluster, and its gradient by
    W: a smooth guide to where J is low.
    """
    W = W - np.diag(W.diagonal())
    same = labels[:, None] == labels
    degree = W.sum(axis=1) + 1e-300
    stay = (W * same).sum(axis=1) / degree
    slope = (stay[:, None] - same) / (degree[:, None] * len(labels))
    np.fill_diagonal(slope, 0)
    return float(1 - stay.mean()), slope


def gaussian(X: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """W of the scaled features, (n, n)."""
    Y = (X - X.mean(axis=0)) * scales
    lengths = (Y**2).sum(axis=1)
    return np.exp(-0.5 * np.maximum(lengths[:, None] + lengths[None, :] - 2 * (Y @ Y.T), 0))


def scale_gradient(
    cost: Cost, X: np.ndarray, labels: np.ndarray, log_scales: np.ndarray
) -> tuple[float, np.ndarray]:
    """A cost of the Gaussian similarity and its gradient by the logarithms of the scales, (p,)."""
    scales = np.exp(log_scales)
    W = gaussian(X, scales)
    value, slope = cost(W, labels)
    N = slope * W
    X = X - X.mean(axis=0)
    squares = (N.sum(axis=0) + N.sum(axis=1)) @ X**2 - 2 * (X * (N @ X)).sum(axis=0)
    return value, -(scales**2) * squares
