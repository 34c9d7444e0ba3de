"""The feature space of a kernel: objects as rows F with F F' = K, also for new objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.validation import reserve
from ..numerics.eigen import waited
from ..similarity import gaussian


class KernelSpace(NamedTuple):
    """A kernel f(X, Y), the known objects, and a projection (n, r) of its values to coordinates."""

    function: Callable[..., Any]
    known: Any
    projection: np.ndarray

    @classmethod
    def of(cls, X: Any, function: Any, name: str, width: float) -> tuple[KernelSpace, np.ndarray]:
        """The space of the objects ``X``, and their coordinates (n, r) in its dtype. The bandwidth
        of "gaussian" is ``width`` times the root mean square distance to the mean.
        """
        n = X.shape[0]
        reserve((n, n), np.dtype(np.float64), "the kernel of all objects", "fit a sample")
        if not callable(function):
            dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
            bandwidth = max(width * float(dense.var(axis=0).sum()) ** 0.5, 1e-12)

            def function(A: Any, B: Any) -> Any:
                return gaussian(A, B, bandwidth=bandwidth)

        with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity are refused
            K = np.asarray(function(X, X), dtype=np.float64)
        if K.shape != (n, n) or not np.abs(K).max() <= 1e150:
            raise ValueError(
                f"{name}(X, X) must be ({n}, {n}) numbers of 1e+150 at most, got "
                f"shape {K.shape} and {np.abs(K).max(initial=0.0):g}: change the units of X"
            )
        F, projection = embed(K)
        return cls(function, X.copy(), projection), F.astype(X.dtype)

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (n, r) of new objects, and squared distances (n,) to the space."""
        F = np.asarray(self.function(X, self.known), dtype=np.float64) @ self.projection
        singly = (X[i : i + 1] for i in range(X.shape[0]))
        own = np.array([float(np.asarray(self.function(x, x)).ravel()[0]) for x in singly])
        return F, np.maximum(own - np.einsum("ir,ir->i", F, F), 0.0)


def embed(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F (n, r) with F F' = K (positive part), and P (n, r) from rows of K to rows of F."""
    values, vectors = waited(np.linalg.eigh, (K + K.T) / 2)
    good = values > 1e-10 * max(float(values[-1]), np.finfo(float).tiny)
    if not good.any():  # all objects are equal
        return np.zeros((len(K), 1)), np.zeros((len(K), 1))
    root = np.sqrt(values[good])
    F = vectors[:, good] * root
    flat = np.ptp(F, axis=0) <= 1e-12 * np.abs(F).max()  # rounding is no distance
    F[:, flat] = F[0, flat]
    return F, vectors[:, good] / root
