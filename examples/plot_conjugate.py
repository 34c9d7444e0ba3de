"""
Prior, likelihood, posterior
============================

A conjugate prior stays in its family when data arrive: updating is addition. Every object below is
a prior, and its posterior is another object of the same class.
"""

# %%
# Seven successes in ten trials, seen from three priors. The likelihood is the posterior divided by
# the prior, scaled here to the same area as the densities.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import plot
from sfumato.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownVariance,
)

flips = [1, 1, 0, 1, 1, 0, 1, 1, 0, 1]
figure, axes = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
grid = np.linspace(0.002, 0.998, 499)
for ax, (a, b) in zip(axes, ((1, 1), (2, 8), (20, 20)), strict=True):
    plot.conjugate(BetaBinomial(a, b), flips, grid=grid, ax=ax).set_title(f"Beta({a}, {b})")

# %%
# A mean of readings with known variance: the posterior lies between prior and data, nearer to
# whichever is more precise.
rng = np.random.default_rng(0)
readings = rng.normal(1.5, 1.0, size=6)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for ax, variance in zip(axes, (4.0, 0.1), strict=True):
    plot.conjugate(
        NormalKnownVariance(0.0, variance, 1.0), readings, grid=np.linspace(-3, 4, 500), ax=ax
    )
    ax.set_title(f"prior variance {variance}")

# %%
# Batches or all at once: the same posterior. Statistics of batches add up.
prior = NormalInverseGamma(mean=0.0, kappa=0.1, shape=2.0, scale=1.0)
at_once = prior.posterior(readings)
in_batches = prior.posterior(readings[:2]).posterior(readings[2:])
added = prior.update(prior.statistics(readings[:2]) + prior.statistics(readings[2:]))
print(at_once.scale, in_batches.scale, added.scale)

# %%
# The marginal likelihood compares models: is one mean enough for two groups of measurements? The
# logarithm of the Bayes factor says.
one, two = rng.normal(0, 1, 20), rng.normal(1.5, 1, 20)
factor = (
    prior.log_marginal_likelihood(one)
    + prior.log_marginal_likelihood(two)
    - prior.log_marginal_likelihood(np.concatenate([one, two]))
)
print(f"log Bayes factor for two groups: {factor:.2f}")

# %%
# Many data sets at once: one object holds a prior for each leading index. Here a thousand coins are
# judged in one call.
coins = rng.random((1000, 25)) < rng.beta(5, 5, size=(1000, 1))
posterior = BetaBinomial(5, 5).posterior(coins.astype(int))
low, high = posterior.interval(0.9)
print(f"{np.mean(low > 0.5):.1%} of the coins lean to heads, {np.mean(high < 0.5):.1%} to tails")

# %%
# Counts and vectors work the same way; a predictive distribution is one of scipy's.
print(DirichletMultinomial(np.ones(3)).posterior([[3, 1, 0], [2, 2, 1]]).predictive(2).mean())
vectors = NormalInverseWishart(np.zeros(2), 0.1, 4.0, np.eye(2)).posterior(rng.normal(size=(30, 2)))
print(vectors.predictive().logpdf([0.0, 0.0]))
