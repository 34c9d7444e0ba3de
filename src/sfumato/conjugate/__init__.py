"""Conjugate pairs: a prior, some data, and a posterior of the same kind.

Every class is an immutable prior. ``prior.posterior(data)`` is another object of the same class, so
that learning in batches is a chain of posteriors, and a posterior has everything a prior has:
``mean``, ``mode``, ``interval``, ``sample``, ``predictive``, ``log_predictive``, ``log_evidence``.
Parameters may be arrays: then one object holds many priors, and ``data`` many data sets, one for
each leading index. Missing numbers (NaN) are left out; the classes of vectors
(``DirichletMultinomial``, ``NormalInverseWishart``) refuse vectors in which some are missing.

Reference: Gelman et al. (2013), Bayesian Data Analysis, 3rd edition, chapters 2 and 3.
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
    "BetaBinomial",
    "DirichletMultinomial",
    "Moments",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalKnownMean",
    "NormalKnownVariance",
]
