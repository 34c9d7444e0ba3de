"""Features without variance: they tell no components apart and are left out of a fit.

Every component would be a plane there, of a density without bound that has nothing to do with the
clusters. What is published has all features again: the constant as mean, no covariance with
others, and a variance of ``regularization`` in units of the constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Constant"]

LOG_2PI = float(np.log(2.0 * np.pi))


class Constant(NamedTuple):
    """Places of the features that vary, the values (d,) of the others and their variances (d,)."""

    varying: np.ndarray
    values: np.ndarray
    variances: np.ndarray

    @classmethod
    def of(cls, low: np.ndarray, varies: np.ndarray, regularization: float) -> Constant:
        """From the least value of every feature, and which features vary."""
        unit = np.where(low == 0, 1.0, np.clip(np.abs(low), 1e-100, 1e100))
        return cls(np.flatnonzero(varies), low, regularization * unit**2)

    def part(self, X: Any) -> Any:
        """The features that vary: as a view where they lie side by side."""
        first, last = int(self.varying[0]), int(self.varying[-1]) + 1
        return X[:, first:last] if last - first == len(self.varying) else X[:, self.varying]

    def points(self, inner: np.ndarray) -> np.ndarray:
        """Points (m, d) out of the features that vary."""
        found = np.tile(self.values, (len(inner), 1))
        found[:, self.varying] = inner
        return found

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Log density (n,) of the features that do not vary, as narrow as they are published.

        Missing ones (NaN) have none.
        """
        fixed = np.delete(np.arange(len(self.values)), self.varying)
        variances = self.variances[fixed]
        gaps = (np.asarray(X[:, fixed], dtype=np.float64) - self.values[fixed]) / variances**0.5
        with np.errstate(over="ignore"):  # a gap so wide that its square is no number
            level = -0.5 * np.minimum(gaps**2, 1e300) - 0.5 * np.log(variances)
        return np.nansum(level - 0.5 * LOG_2PI, axis=1)

    def spread(self, found: np.ndarray, covariance_type: str, power: float = 1.0) -> np.ndarray:
        """Covariances of all features, or factors of their inverses (``power`` -1/2)."""
        if covariance_type == "spherical":
            return found
        own = self.variances**power
        if covariance_type == "diag":
            rows = np.tile(own, (len(found), 1))
            rows[:, self.varying] = found
            return rows
        matrices = np.zeros((*found.shape[:-2], len(own), len(own)))
        matrices[..., np.arange(len(own)), np.arange(len(own))] = own
        matrices[..., self.varying[:, None], self.varying] = found
        return matrices
