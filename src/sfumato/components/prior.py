"""Normal-inverse-Wishart priors of the components (Fraley and Raftery 2007), for MAP by EM.

    mu_j | Sigma_j ~ N(m, Sigma_j / kappa),      Sigma_j ~ IW(nu, S)

In the M step a prior is so many more objects: the means lean on m with mass kappa, and the scatter
of a component gains  kappa N_j / (kappa + N_j) (xbar_j - m)(xbar_j - m)' + S  with mass nu + d + 2.
So every covariance family keeps its M step. A covariance that all components share has the prior S
once; in other families the density of the prior is taken on the covariances of the family.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..conjugate import NormalInverseWishart
from ..numerics import families
from ..numerics.coordinates import Coordinates

__all__ = ["Prior", "default_prior", "inner_prior"]

DEFAULT_STRENGTH = 0.01  # kappa of mclust: the prior mean counts as a hundredth of an object


class Prior(NamedTuple):
    """Hyperparameters in the coordinates of the fit: mean (d,), strength, degrees, scale (d, d)."""

    mean: np.ndarray
    strength: float
    degrees: float
    scale: np.ndarray

    def means(self, average: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Posterior modes (k, d) of the means from averages and masses."""
        part = (mass / (mass + self.strength))[..., None]
        return part * average + (1.0 - part) * self.mean

    def scatter(
        self, scatter: np.ndarray, mass: np.ndarray, means: np.ndarray, family: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scatter about the posterior means and masses, with what the prior adds to them."""
        k, d = means.shape[-2:]
        share = 1.0 / k if families.has_one_covariance(family) else 1.0
        gap = means - self.mean
        outer = self.strength * gap[..., :, None] * gap[..., None, :] + share * self.scale
        more = families.reduced(outer, family)
        return scatter + more, mass + 1.0 + share * (self.degrees + d + 1.0)

    def log_density(self, means: np.ndarray, covariances: np.ndarray, family: str) -> np.ndarray:
        """Logarithm of the prior density at means (k, d) and covariances, up to a constant."""
        k, d = means.shape[-2:]
        share = 1.0 / k if families.has_one_covariance(family) else 1.0
        matrices = families.as_matrices(covariances, family, d)
        inverse = np.linalg.inv(matrices)
        gap = means - self.mean
        near = self.strength * np.einsum("...a,...ab,...b->...", gap, inverse, gap)
        trace = np.sum(inverse * self.scale, axis=(-2, -1))
        log_det = np.linalg.slogdet(matrices)[1]
        powers = 1.0 + share * (self.degrees + d + 1.0)
        return -0.5 * np.sum(powers * log_det + near + share * trace, axis=-1)


def default_prior(scale: np.ndarray) -> Prior:
    """mclust's prior for data about zero: a hundredth of an object, and d + 2 degrees."""
    d = len(scale)
    return Prior(np.zeros(d), DEFAULT_STRENGTH, d + 2.0, scale)


def inner_prior(prior: NormalInverseWishart, coordinates: Coordinates) -> Prior:
    """A prior given in the units of the data, in the coordinates of the fit."""
    mean = coordinates.inner(np.array(prior.mean, dtype=np.float64)[None])[0]
    scale = coordinates.inner_matrix()
    scale = scale.T @ np.asarray(prior.scale, dtype=np.float64) @ scale
    return Prior(mean, float(prior.kappa), float(prior.df), scale)
