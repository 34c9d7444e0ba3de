"""Probability and information of tables of (soft) counts."""

import numpy as np
from scipy.special import gammaln, xlogy


def log_posterior(r: np.ndarray, prior: np.ndarray) -> float:
    """Log probability of the classes given the clusters; class distributions integrated out."""
    within = gammaln(prior + r) - gammaln(prior)
    return float(within.sum() - (gammaln(prior.sum() + r.sum(axis=1)) - gammaln(prior.sum())).sum())


def mutual_information(r: np.ndarray) -> float:
    """Mutual information in nats between the two sides of a table of (soft) counts."""
    total = r.sum()
    expected = np.outer(r.sum(axis=1), r.sum(axis=0)) / total
    ratio = np.divide(r, expected, out=np.ones_like(r), where=(r > 0) & (expected > 0))
    return max(0.0, float(xlogy(r, ratio).sum() / total))


def distortion(r: np.ndarray, distributions: np.ndarray, entropy: float) -> float:
    """Expected Kullback-Leibler divergence between the class distributions of objects and those of
    their clusters, sum_x w_x sum_j u_j(x) KL(q(x) | psi_j) / sum_x w_x, from the soft counts ``r``
    (k, classes) and the entropy sum_x w_x H(q(x)).
    """
    explained = float(xlogy(r, np.maximum(distributions, np.finfo(np.float64).tiny)).sum())
    return max(0.0, -(explained + entropy) / float(r.sum()))
