"""Tables of (soft) counts: their probability with the distributions integrated out, and their
information.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

__all__ = ["log_posterior", "mutual_information"]


def log_posterior(r: np.ndarray, prior: np.ndarray) -> float:
    """Log probability of the classes given the clusters, the distributions of the clusters
    integrated out: 0 for an empty table.
    """
    within = gammaln(prior + r) - gammaln(prior)
    return float(within.sum() - (gammaln(prior.sum() + r.sum(axis=1)) - gammaln(prior.sum())).sum())


def mutual_information(r: np.ndarray) -> float:
    """Mutual information in nats between the two sides of a table of (soft) counts."""
    total = r.sum()
    expected = np.outer(r.sum(axis=1), r.sum(axis=0)) / total
    return float(
        max(
            0.0,
            xlogy(
                r, np.divide(r, expected, out=np.ones_like(r), where=(r > 0) & (expected > 0))
            ).sum()
            / total,
        )
    )
