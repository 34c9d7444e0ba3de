"""Evidence of every kind, from well behaved to hostile, drawn from a generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from .hard import sparing

SCALES = (1.0, 1.0, 1.0, 1e-310, 1e-300, 1e-160, 1e-12, 1e-3, 1e3, 1e12, 1e75, 1e150, 1e300)
SPARSE = (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array)


def features(rng: np.random.Generator) -> Any:
    """Features (n, p): clusters or noise, at any scale, dtype, layout and sparse form."""
    n = int(rng.choice([1, 2, 3, 5, 12, 30, 60]))
    p = int(rng.choice([1, 2, 3, 8]))
    X = rng.normal(size=(n, p)) + 6.0 * rng.integers(0, 3, size=(n, 1))
    if rng.random() < 0.2:
        X = X[rng.integers(0, max(1, n // 3), size=n)]  # duplicates
    if rng.random() < 0.15:
        X[:, rng.integers(p)] = rng.choice([0.0, 1.0, -3.0])  # a constant column
    if rng.random() < 0.15:
        X = np.round(X)
    with np.errstate(over="ignore"):
        X = X * float(rng.choice(SCALES)) + float(rng.choice([0.0, 0.0, 0.0, 1e6, -1e12]))
    if rng.random() < 0.06:
        X[rng.integers(n), rng.integers(p)] = rng.choice([np.nan, np.inf, -np.inf])
    return _dressed(X, rng)


def counts(rng: np.random.Generator) -> Any:
    """A table of counts (n, p), some rows empty."""
    n, p = int(rng.choice([1, 2, 5, 20])), int(rng.choice([1, 2, 6]))
    X = rng.poisson(rng.choice([0.1, 2.0, 50.0]), size=(n, p)).astype(float)
    if rng.random() < 0.1:
        X[rng.integers(n), rng.integers(p)] = rng.choice([-1.0, np.nan, 1e300])
    return _dressed(X, rng)


def similarity(rng: np.random.Generator) -> Any:
    """Similarities (n, n): blocks or noise, with zero rows, negative or missing entries now and
    then.
    """
    n = int(rng.choice([1, 2, 3, 10, 30]))
    blocks = (rng.integers(0, 3, n)[:, None] == rng.integers(0, 3, n)).astype(float)
    W = rng.random((n, n)) + 2.0 * np.maximum(blocks, blocks.T)
    W = (W + W.T) / 2
    if rng.random() < 0.2:
        W *= (rng.random((n, n)) < 0.3) | (rng.random((n, n)) < 0.3).T
        W = np.maximum(W, W.T)
    if rng.random() < 0.15:
        row = rng.integers(n)
        W[row], W[:, row] = 0.0, 0.0
    W *= float(rng.choice(SCALES[:-1]))
    odd = rng.random()
    if odd < 0.04:
        W[rng.integers(n), rng.integers(n)] = np.nan
    elif odd < 0.08:
        W[rng.integers(n), rng.integers(n)] *= -1.0
    elif odd < 0.12:
        W[rng.integers(n), rng.integers(n)] += 1.0
    if rng.random() < 0.1 and np.isfinite(W).all():
        return aslinearoperator(W)
    return _dressed(W, rng)


def labelings(rng: np.random.Generator) -> Any:
    """Labels (n, m): noisy copies of one partition, some objects not seen, names or numbers."""
    n, m = int(rng.choice([1, 2, 5, 25])), int(rng.choice([1, 2, 10]))
    truth = rng.integers(0, 3, n)
    L = np.stack([rng.permutation(3)[truth] for _ in range(m)], axis=1)
    noisy = rng.random(L.shape) < rng.choice([0.0, 0.1, 1.0])
    L[noisy] = rng.integers(0, 3, noisy.sum())
    L[rng.random(L.shape) < rng.choice([0.0, 0.2, 0.9])] = -1
    return L.astype(str) if rng.random() < 0.1 else L


def memberships(rng: np.random.Generator, n: int | None = None) -> Any:
    """Memberships (n, k), rows on the simplex, seldom off it."""
    n = int(rng.choice([1, 2, 7, 30])) if n is None else n
    U = rng.dirichlet(np.full(int(rng.choice([1, 2, 5])), rng.choice([0.05, 1.0])), size=n)
    if rng.random() < 0.05:
        U[rng.integers(n)] = rng.choice([np.nan, -1.0, 7.0])
    return U.astype(np.float32) if rng.random() < 0.2 else U


def weights(rng: np.random.Generator, n: int) -> Any:
    """Weights of n objects, or None."""
    w = rng.random(n)
    usable = 4  # the first ones, that most fits take
    return [
        None,
        None,
        w,
        rng.integers(0, 3, n),
        np.zeros(n),
        w * 1e300,
        w * 1e-300,
        -w,
        w[: n // 2],
        np.where(w < 0.1, np.nan, w),
    ][int(rng.integers(usable if sparing(rng) else 10))]


def frame(rng: np.random.Generator) -> Any:
    """A data frame with numbers, counts, words and truth values, some of them missing; an array
    where pandas is not there.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        return features(rng)
    n = int(rng.choice([1, 2, 5, 30]))
    group = rng.integers(0, 3, n)
    columns = {
        "size": (rng.normal(size=n) + 4 * group) * float(rng.choice(SCALES)),
        "count": rng.poisson(2.0 + 3 * group),
        "colour": rng.choice(["red", "green", "", "=x"], n),
        "kind": pd.Categorical(rng.choice(["a", "b"], n), categories=["a", "b", "never"]),
        "yes": rng.random(n) < 0.5,
        "constant": np.ones(n),
        "whole": pd.array(rng.integers(-3, 4, n), dtype="Int64"),
        "empty": np.full(n, np.nan),
        "day": pd.date_range("2020-01-01", periods=n),
    }
    likely = [0.6, 0.5, 0.6, 0.4, 0.4, 0.15, 0.2, 0.04, 0.04]
    chosen = [name for name, p in zip(columns, likely, strict=True) if rng.random() < p]
    table = pd.DataFrame({name: columns[name] for name in chosen})
    if table.shape[1] and rng.random() < 0.3:
        table = table.mask(rng.random(table.shape) < 0.2)
    return table


def members(rng: np.random.Generator) -> Any:
    """Soft partitions of the same objects: a list of membership matrices."""
    n = int(rng.choice([1, 2, 5, 25]))
    truth = np.eye(3)[rng.integers(0, 3, n)]
    drawn = [
        0.7 * truth[:, rng.permutation(3)] + 0.3 * rng.dirichlet(np.ones(3), n)
        for _ in range(int(rng.choice([1, 2, 6])))
    ]
    if rng.random() < 0.2:
        drawn.append(memberships(rng, n))
    if rng.random() < 0.1:
        drawn.append(memberships(rng, n + 1))
    return drawn


def holes(rng: np.random.Generator) -> Any:
    """Similarities of which some, or all of an object, were not measured."""
    n = int(rng.choice([1, 2, 3, 10, 30]))
    blocks = np.equal.outer(*2 * (rng.integers(0, 3, n),)).astype(float)
    W = (blocks + 0.1 * rng.random((n, n))) * float(rng.choice(SCALES[:-1]))
    W = (W + W.T) / 2
    unknown = rng.random((n, n)) < rng.choice([0.05, 0.5, 1.0])
    W[unknown & unknown.T if rng.random() < 0.5 else unknown | unknown.T] = np.nan
    return W.astype(np.float32) if rng.random() < 0.2 else W


def pairs(rng: np.random.Generator, n: int) -> Any:
    """Pairs of rows, now and then with weights, with a row that does not exist, or twice."""
    m = int(rng.choice([0, 1, 3, 10])) if n else 0
    chosen = rng.integers(0, max(1, n), size=(m, 2))
    if rng.random() < 0.7:
        chosen = chosen[chosen[:, 0] != chosen[:, 1]]
    if rng.random() < 0.05:
        chosen = chosen + n
    if rng.random() < 0.3:
        weight = rng.random(len(chosen)) * float(rng.choice([0.0, 1.0, 1e300, -1.0]))
        return np.column_stack([chosen, weight])
    return chosen.tolist() if rng.random() < 0.2 else chosen


def pair_weights(rng: np.random.Generator, n: int) -> Any:
    """How much each similarity counts: zeros, huge, sparse, or not symmetric."""
    P = rng.random((n, n)) * float(rng.choice([1.0, 1.0, 0.0, 1e300, 1e-300]))
    P = P if rng.random() < 0.1 else (P + P.T) / 2
    P *= np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= rng.choice([0, 2, n])
    if rng.random() < 0.1:
        P[0, 0] = rng.choice([np.nan, -1.0])
    return sp.csr_array(P) if rng.random() < 0.3 and np.isfinite(P).all() else P


def errors(rng: np.random.Generator, X: Any) -> Any:
    """Variances or covariances of the error of every value of X."""
    n, p = X.shape if hasattr(X, "shape") and len(X.shape) == 2 else (len(X), 1)
    scale = float(rng.choice([0.0, 1e-300, 1e-3, 1.0, 1e12, 1e300]))
    if rng.random() < 0.1:
        scale = -scale
    if rng.random() < 0.5:
        return rng.random((n, p)) * scale
    A = rng.normal(size=(n, p, p))
    return A @ A.transpose(0, 2, 1) * scale


def kernel(X: Any, Y: Any) -> Any:
    """A kernel for fuzzy c-means: the scalar product."""
    product = X @ Y.T
    return product.toarray() if sp.issparse(product) else product


def _dressed(X: np.ndarray, rng: np.random.Generator) -> Any:
    """The same numbers in another dtype, layout or container; arrays are often read-only."""
    kind = rng.random()
    if kind < 0.15 and np.isfinite(X).all():
        return SPARSE[int(rng.integers(len(SPARSE)))](X)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind < 0.3:
            X = X.astype(np.float32)
        elif kind < 0.35 and np.isfinite(X).all() and np.abs(X).max(initial=0) < 1e9:
            X = X.astype(np.int64)
    if kind > 0.95:
        return X.tolist()
    if 0.5 < kind < 0.6:
        X = np.asfortranarray(X)
    elif 0.6 < kind < 0.7:
        X = np.repeat(X, 2, axis=0)[::2]
    X.flags.writeable = bool(rng.random() < 0.5)
    return X
