"""How strongly two labelings depend on each other, as a Bayes factor of their contingency table."""

from __future__ import annotations

import numpy as np

from ..array.types import ArrayLike
from ..numerics.contingency import log_posterior

__all__ = ["contingency_bayes_factor"]


def contingency_bayes_factor(table: float | np.ndarray, prior: ArrayLike = 1.0) -> float:
    r"""Logarithm of the Bayes factor that the rows of a table have distributions of their own,
    against one that they share.

    .. math:: \log \prod_j \frac{B(p + r_j)}{B(p)} - \log \frac{B(p + \sum_j r_j)}{B(p)}, \qquad
              B(a) = \frac{\prod_i \Gamma(a_i)}{\Gamma(\sum_i a_i)}

    Above 0 the rows (clusters) and columns (classes) depend on each other, below 0 they are better
    described as independent. The row totals are taken as given.

    Parameters
    ----------
    table : array of shape (n_rows, n_columns)
        Nonnegative counts, fractions allowed: clusters in rows, classes in columns.
    prior : float or array of shape (n_columns,), default 1.0
        Parameters of the Dirichlet prior of each distribution.

    Returns
    -------
    log_bayes_factor : float
        In nats.

    References
    ----------
    .. [1] I. J. Good, "On the application of symmetric Dirichlet distributions and their mixtures
       to contingency tables", Annals of Statistics 4, 1976.

    Examples
    --------
    >>> from sfumato.metrics import contingency_bayes_factor
    >>> round(contingency_bayes_factor([[20, 0], [0, 20]]), 2)
    23.27
    >>> contingency_bayes_factor([[10, 10], [10, 10]]) < 0
    True
    """
    r = np.asarray(table, dtype=np.float64)
    if r.ndim != 2 or 0 in r.shape:
        raise ValueError(
            "table must hold clusters in rows and classes in columns, both at least 1; got shape "
            f"{r.shape}"
        )
    if not np.isfinite(r).all() or r.min() < 0:
        raise ValueError(
            f"table must hold finite nonnegative counts, got {r.min():g} as the smallest: count "
            "the pairs of labels first"
        )
    p = np.asarray(prior, dtype=np.float64)
    if p.shape not in ((), (1,), r.shape[1:]) or not np.isfinite(p).all() or p.min() <= 0:
        raise ValueError(
            f"prior must be a positive number or {r.shape[1]} of them, one for each column of "
            f"table; got {prior!r}"
        )
    p = np.broadcast_to(p, r.shape[1:])
    return log_posterior(r, p) - log_posterior(r.sum(axis=0, keepdims=True), p)
