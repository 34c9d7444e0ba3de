"""Conjugate pairs: a prior, some data, and a posterior of the same kind.

Every class is an immutable prior. ``prior.posterior(data)`` is another object of the same class, so
that learning in batches is a chain of posteriors, and a posterior has everything a prior has:
``mean``, ``mode``, ``interval``, ``sample``, ``predictive``, ``log_predictive``, ``log_evidence``.
Parameters may be arrays: then one object holds many priors, and ``data`` many data sets, one for
each leading index. Missing numbers (NaN) are left out; the classes of vectors
(``DirichletMultinomial``, ``NormalInverseWishart``) refuse vectors in which some are missing.
"""

from .counts import BetaBinomial, DirichletMultinomial
from .kernel import Moments
from .normal import (
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownMean,
    NormalKnownVariance,
)
from .rates import GammaExponential, GammaPoisson, ParetoUniform

__all__ = [
    "BetaBinomial",
    "DirichletMultinomial",
    "GammaExponential",
    "GammaPoisson",
    "Moments",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalKnownMean",
    "NormalKnownVariance",
    "ParetoUniform",
]
