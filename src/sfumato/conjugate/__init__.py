"""Conjugate pairs: a prior that, given data, becomes a posterior of the same class.

Every object is an immutable prior. ``prior.posterior(data)`` is another object of the same class,
so batches are learnt by a chain of posteriors (Gelman et al. 2013, Bayesian Data Analysis, chapters
2 and 3). Parameters may be arrays: one object then holds many priors, and ``data`` one data set for
each leading index. Missing values (NaN) are left out; the classes for vectors
(``DirichletMultinomial``, ``NormalInverseWishart``) refuse vectors with missing entries.
"""

from .counts import BetaBinomial, DirichletMultinomial
from .normal import (
    Moments,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownMean,
    NormalKnownVariance,
)

__all__ = [
    "BetaBinomial", "DirichletMultinomial", "Moments", "NormalInverseGamma", "NormalInverseWishart",
    "NormalKnownMean", "NormalKnownVariance",
]  # fmt: skip
