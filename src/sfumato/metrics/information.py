"""Mutual information and matching of clusters, computed from the (soft) table  T = V'WU.

With P = T / sum T and its margins r and c: I = sum P log(P / r c'), H(r) = -sum r log r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from ..array.types import ArrayLike
from ..array.validation import reserve
from ..numerics.contingency import log_posterior
from ._sides import Side, comparison, is_hard, overlap, total


def _information(table: Any) -> tuple[float, float, float]:
    """Mutual information of a table and the entropies of its margins."""
    cells = sp.coo_array(table)
    mass = cells.data.sum()
    rows, columns = (np.asarray(table.sum(axis=axis)).ravel() / mass for axis in (1, 0))
    cell = cells.data / mass
    filled = cell > 0
    cell, r, c = cell[filled], rows[cells.coords[0][filled]], columns[cells.coords[1][filled]]
    shared = float(np.sum(cell * (np.log(cell) - np.log(r) - np.log(c))))
    return max(0.0, shared), -float(xlogy(rows, rows).sum()), -float(xlogy(columns, columns).sum())


def _expected(table: np.ndarray, left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Expected mutual information when one side is shuffled.

    Exact (hypergeometric) for labels with whole weights, otherwise to second order in the
    deviations of the table, whose variances under shuffling are known: sum_rs S_r S_s / ((n - 1) 2
    a_r b_s), S_r = sum_i w_i (u_ir - mean)^2.
    """
    counts = sp.csr_matrix(table) if is_hard(left) and is_hard(right) else None
    if counts is not None and np.array_equal(counts.data, np.rint(counts.data)):
        from sklearn.metrics.cluster import expected_mutual_information

        counts = counts.astype(np.int64)
        counts = counts[np.diff(counts.indptr) > 0]
        counts = counts[:, np.asarray(counts.sum(axis=0)).ravel() > 0]
        return float(expected_mutual_information(counts, int(counts.sum())))
    mass = table.sum()
    if mass <= 1:
        return 0.0
    product = 1 / (2 * (mass - 1))
    for side in (left, right):  # sum_r S_r / a_r over the clusters that are not empty
        sizes = total(side, weights)
        squares = sizes if is_hard(side) else np.diagonal(overlap(side, side, weights))
        used = sizes > 0
        product *= np.sum((squares[used] - sizes[used] ** 2 / mass) / sizes[used])
    return float(product)


@comparison
def normalized_mutual_information(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Mutual information of the two labels of an object, divided by the mean of their entropies.

    On memberships the two labels are drawn independently from the two rows, so a soft clustering
    scores below 1 against itself.
    Between 0 and 1; not corrected for chance. ``normalized_mutual_info_score`` in scikit-learn.

    %(objects)s

    Examples
    --------
    >>> from sfumato.metrics import normalized_mutual_information
    >>> round(normalized_mutual_information([0, 0, 1, 1], ["b", "b", "a", "a"]), 12)
    1.0
    """
    shared, row_entropy, column_entropy = _information(overlap(left, right, weights))
    if row_entropy <= 1e-15 and column_entropy <= 1e-15:
        return 1.0
    return 0.0 if shared <= 1e-15 else 2 * shared / (row_entropy + column_entropy)


@comparison
def adjusted_mutual_information(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Mutual information above chance, (I - E) / (mean entropy - E); E is its value by chance.

    Vinh et al. (2010). E is exact for labels with whole weights. For memberships it is a
    second-order approximation, accurate when clusters hold several objects. At most 1, near 0 for
    chance. ``adjusted_mutual_info_score`` in scikit-learn.

    %(objects)s

    Examples
    --------
    >>> from sfumato.metrics import adjusted_mutual_information
    >>> round(adjusted_mutual_information([0, 0, 1, 1], [1, 1, 0, 0]), 12)
    1.0
    """
    table = overlap(left, right, weights)
    shared, row_entropy, column_entropy = _information(table)
    if row_entropy <= 1e-15 or column_entropy <= 1e-15:
        return 1.0 if max(row_entropy, column_entropy) <= 1e-15 else 0.0
    expected = _expected(table, left, right, weights)
    below = (row_entropy + column_entropy) / 2 - expected
    return (shared - expected) / below if below > 1e-14 else 1.0


@comparison
def matched_accuracy(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Share of objects in the right cluster under the best one-to-one pairing of clusters.

    For memberships, the expected share when labels are drawn independently from both sides. If one
    side has more clusters, those left without a partner count as wrong.

    %(objects)s

    Examples
    --------
    >>> from sfumato.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1], ["y", "y", "x", "y"])
    0.75
    """
    table = overlap(left, right, weights)
    if sp.issparse(table):
        what = "the table of all clusters against all clusters"
        reserve(table.shape, np.float64, what, "compare clusterings with fewer clusters")
        table = table.toarray()
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def contingency_bayes_factor(table: float | np.ndarray, prior: ArrayLike = 1.0) -> float:
    r"""Log Bayes factor (nats): a distribution for each row of a table, against one for all rows.

    .. math:: \log \prod_j \frac{B(p + r_j)}{B(p)} - \log \frac{B(p + \sum_j r_j)}{B(p)}, \qquad
              B(a) = \frac{\prod_i \Gamma(a_i)}{\Gamma(\sum_i a_i)}

    A value above 0 speaks for a dependence of rows and columns. The row totals are taken as given.

    Parameters
    ----------
    table : array of shape (n_rows, n_columns)
        Nonnegative counts, fractions allowed: clusters in rows, classes in columns.
    prior : float or array of shape (n_columns,), default 1.0
        Parameters of the Dirichlet prior of each distribution.

    References
    ----------
    .. [1] I. J. Good, On the application of symmetric Dirichlet distributions and their mixtures
       to contingency tables, Annals of Statistics 4, 1976.

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
        raise ValueError(f"table must hold clusters in rows, classes in columns; got {r.shape}")
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
