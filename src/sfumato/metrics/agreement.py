"""Agreement of two clusterings, computed from the (soft) table  T = V'WU of their clusters.

A side is an array (n, k): memberships as they are, labels as a sparse one-hot array, so that even a
million labels in many clusters stay small. p_ij = u_i'u_j is the chance that the tested clustering
puts i and j together, and q_ij = v_i'v_j the same for the reference. Sums run over pairs i < j with
weights w_i w_j. With T = V'WU:

    sum p q = (|T|^2 - sum_i w_i^2 |u_i|^2 |v_i|^2) / 2
            sum p = (|U'w|^2 - sum_i w_i^2 |u_i|^2) / 2

so no n x n matrix is needed: O(n k k'). For labels these are the classical measures; for
memberships the counts are expectations over labels drawn independently from both sides. With P = T
/ sum T and its margins r and c, the mutual information is I = sum P log(P / r c'), and H(r) = -sum
r log r.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import cleandoc
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from ..array.arrays import to_numpy
from ..array.docs import TEXTS, documented
from ..array.labels import encode
from ..array.types import ArrayLike, RandomState, Weights
from ..array.validation import as_generator, check_choice, check_weights, refuse_mask, reserve
from ..memberships import check_memberships, cooccurrence
from ..numerics.contingency import log_posterior

Side = Any
_PARAMETERS = f"""\
Parameters
----------
reference, clustering : labels of shape (n,) or memberships of shape (n, k)
sample_weight : array of shape (n,), optional
    A weight of w counts as w copies of the object; in measures of pairs, each pair of objects has
    the product of its two weights.
missing : {{"ignore", "cluster"}}
    Labels of -1 mean that a clustering did not see the object. Such objects are left out, or
    count as one more cluster.
{TEXTS["bootstrap"]}"""


class Estimate(NamedTuple):
    """A value with its bootstrap interval; the fields may be arrays."""

    value: Any
    low: Any
    high: Any

    def __float__(self) -> float:
        return float(self.value)


def as_side(clustering: ArrayLike, name: str = "clustering") -> Side:
    """Checked memberships (n, k), or labels (n,) of any type as a sparse one-hot array (n, k)."""
    refuse_mask(clustering, name)
    values = to_numpy(clustering)
    if values.ndim == 2:
        return check_memberships(values, name)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must be labels (n,) or memberships (n, k), got {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} contains NaN or infinity: drop those objects, or label them")
    codes, n = encode(values), len(values)
    return sp.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, int(codes.max()) + 1))


def as_sides(
    reference: ArrayLike, clustering: ArrayLike, sample_weight: ArrayLike | None, missing: str
) -> tuple[Side, Side, Any]:
    """Both sides and the weights, for the objects that both clusterings saw."""
    check_choice(missing, "missing", ("ignore", "cluster"))
    left, right = to_numpy(reference), to_numpy(clustering)
    if missing == "ignore" and left.ndim and right.ndim and len(left) == len(right):
        seen = _seen(left) & _seen(right)
        if not seen.any():
            raise ValueError(
                "no object has a label in both clusterings (-1 means no label): set "
                "missing='cluster' to count them as a cluster"
            )
        if not seen.all():
            reference, clustering = left[seen], right[seen]
            weights = check_weights(sample_weight, seen)
            sample_weight = None if weights is None else weights[seen]
    sides = as_side(reference, "reference"), as_side(clustering, "clustering")
    if len({side.shape[0] for side in sides}) > 1:
        found = " and ".join(str(side.shape[0]) for side in sides)
        raise ValueError(f"reference and clustering must describe the same objects, got {found}")
    return *sides, sample_weight


def _seen(values: np.ndarray) -> np.ndarray:
    """Mask (n,) of the objects with a label; -1 means not seen by the clustering."""
    if values.ndim == 1 and values.dtype.kind in "if":
        return values != -1
    return np.ones(len(values), dtype=bool)


def is_hard(side: Side) -> bool:
    """Whether the side was given as labels."""
    return sp.issparse(side)


def overlap(left: Side, right: Side, weights: Weights) -> Any:
    """Soft contingency table  sum_i w_i u_ir v_is,  (k, k'); sparse for labels of many clusters."""
    if is_hard(left) and is_hard(right):
        (n, k), k_right = left.shape, right.shape[1]
        # A dense table is counted faster, unless it would be much larger than the labels.
        if k * k_right <= 4 * n + 1024:
            cells = left.indices.astype(np.int64) * k_right + right.indices
            counts = np.bincount(cells, weights, minlength=k * k_right)
            return counts.reshape(k, k_right).astype(np.float64)
        return left.T @ (right if weights is None else sp.diags_array(weights) @ right)
    if is_hard(right):
        return overlap(right, left, weights).T
    table = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, left.shape[0], 2**15):
        rows = slice(start, start + 2**15)
        block = right[rows].astype(np.float64, copy=False)
        block = block if weights is None else block * weights[rows, None]
        table += left[rows].T.astype(np.float64, copy=False) @ block
    return table


def total(side: Side, weights: Weights) -> np.ndarray:
    """Soft sizes (k,): weighted column sums."""
    if is_hard(side):
        return np.bincount(side.indices, weights, minlength=side.shape[1]).astype(np.float64)
    return side.sum(axis=0, dtype=np.float64) if weights is None else weights @ side


def measure(
    function: Callable[[np.ndarray | None], float],
    n: int,
    sample_weight: ArrayLike | None,
    interval: float | None,
    random_state: RandomState,
) -> float | Estimate:
    """``function(weights)``, with a percentile bootstrap over objects if ``interval`` is given."""
    weights = check_weights(sample_weight, np.empty((n, 0)))
    value = float(function(weights))
    if interval is None:
        return value
    rng = as_generator(random_state)
    draws = [function(resampled) for resampled in bootstrap_weights(rng, n, weights, interval)]
    # Linear interpolation between infinite draws would give NaN.
    between: Literal["linear", "nearest"] = "linear" if np.isfinite(draws).all() else "nearest"
    low, high = np.quantile(draws, [(1 - interval) / 2, (1 + interval) / 2], method=between)
    return Estimate(value, float(low), float(high))


def comparison(
    formula: Callable[[Side, Side, np.ndarray | None], float],
) -> Callable[..., float | Estimate]:
    """A public measure of agreement, made from a formula and its docstring."""

    @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def agreement(
        reference: ArrayLike,
        clustering: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        missing: str = "ignore",
        interval: float | None = None,
        random_state: RandomState = 0,
    ) -> float | Estimate:
        left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
        n = left.shape[0]
        return measure(lambda w: formula(left, right, w), n, sample_weight, interval, random_state)

    del agreement.__wrapped__  # hide the parameters of the formula from inspect.signature
    if agreement.__doc__:  # no docstrings with ``python -OO``
        said, example = cleandoc(agreement.__doc__).split("\n\n>>> ")
        head = f"Examples\n--------\n>>> from sfumato.metrics import {agreement.__name__}\n>>> "
        agreement.__doc__ = f"{said}\n\n{_PARAMETERS}\n\n{head}{example}\n"
    return agreement


def bootstrap_weights(
    rng: np.random.Generator, n: int, weights: Weights, interval: float
) -> Iterator[np.ndarray]:
    """Weights of bootstrap draws: multinomial counts of the objects times their weights."""
    if not 0 < interval < 1:
        raise ValueError(f"interval must be a level such as 0.95, or None; got {interval!r}")
    for _ in range(400):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        resampled = counts if weights is None else counts * weights
        # A draw may contain only objects of weight zero.
        yield resampled if resampled.any() else np.ones(n)


class Pairs(NamedTuple):
    """Expected numbers of pairs that are together in neither clustering, only in the tested one,
    only in the reference, in both; and the sum of p(1-p) + q(1-q).
    """

    tn: float
    fp: float
    fn: float
    tp: float
    vagueness: float

    @property
    def all(self) -> float:
        """Number of pairs."""
        return self.tn + self.fp + self.fn + self.tp

    @property
    def brier(self) -> float:
        """Mean of (p - q)^2."""
        return max(0.0, self.fp + self.fn - self.vagueness) / self.all if self.all > 0 else 0.0


def count_pairs(
    reference: Side, clustering: Side, weights: Weights, *, squares: bool = False
) -> Pairs:
    """Expected pair counts; ``vagueness``, which needs two more tables, only with ``squares``."""
    w2 = np.ones(reference.shape[0]) if weights is None else weights**2
    mass = float(reference.shape[0] if weights is None else weights.sum())
    v2, u2 = (
        1.0 if is_hard(side) else np.einsum("ij,ij->i", side, side, dtype=np.float64)
        for side in (reference, clustering)
    )
    table = overlap(reference, clustering, weights)
    entries = table.data if sp.issparse(table) else table
    tp = (np.square(entries).sum() - np.sum(w2 * v2 * u2)) / 2
    both = ((reference, v2), (clustering, u2))
    q, p = ((np.square(total(side, weights)).sum() - np.sum(w2 * norm)) / 2 for side, norm in both)
    pairs = (mass**2 - w2.sum()) / 2
    vagueness = 0.0
    for side, norm, together in ((reference, v2, q), (clustering, u2, p)):
        if squares and not is_hard(side):
            squared = np.square(overlap(side, side, weights)).sum() - np.sum(w2 * norm**2)
            vagueness += together - squared / 2
    counts = (pairs - p - q + tp, p - tp, q - tp, tp, vagueness)
    return Pairs(*(max(0.0, float(count)) for count in counts))


@documented
def pair_confusion(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    missing: str = "ignore",
) -> np.ndarray:
    """Expected numbers of pairs ``[[TN, FP], [FN, TP]]``: rows apart or together in the reference,
    columns in the clustering.

    Pairs are counted once, i < j; scikit-learn's ``pair_confusion_matrix`` counts them twice.

    Parameters
    ----------
    reference, clustering, sample_weight, missing
        As for ``rand_index``.

    Examples
    --------
    >>> from sfumato.metrics import pair_confusion
    >>> pair_confusion([0, 0, 1, 1], ["a", "a", "a", "b"])
    array([[2., 2.],
           [1., 1.]])
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
    counts = count_pairs(left, right, check_weights(sample_weight, left))
    return np.array([[counts.tn, counts.fp], [counts.fn, counts.tp]])


@comparison
def rand_index(left: Side, right: Side, weights: Weights) -> float:
    """Share of pairs on which the two clusterings agree: together in both or apart in both.

    For memberships, the expectation over independently drawn labels: a soft clustering then scores
    below 1 against itself (use ``1 - brier_score`` for an index that gives 1). 1 is perfect.
    ``rand_score`` in scikit-learn.

    >>> rand_index([0, 0, 1, 1], [[1, 0], [1, 0], [0.5, 0.5], [0, 1]])
    0.75
    """
    c = count_pairs(left, right, weights)
    return (c.tp + c.tn) / c.all if c.all > 0 else 1.0


@comparison
def adjusted_rand_index(left: Side, right: Side, weights: Weights) -> float:
    """Rand index corrected for chance: (sum pq - E) / ((sum p^2 + sum q^2)/2 - E).

    E = sum p sum q / pairs. For labels this is the index of Hubert and Arabie (1985); a soft
    clustering scores 1 against itself. 1 is perfect, 0 is chance, at least -1/2.
    ``adjusted_rand_score`` in scikit-learn.

    >>> adjusted_rand_index([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    c = count_pairs(left, right, weights, squares=True)
    p, q = c.tp + c.fp, c.tp + c.fn
    below = (p * (c.all - q) + q * (c.all - p) - c.all * c.vagueness) / 2
    if below <= 1e-14 * c.all**2:
        return 1.0 if c.brier <= 1e-14 else 0.0
    return (c.tp * c.tn - c.fp * c.fn) / below


@comparison
def pair_precision(left: Side, right: Side, weights: Weights) -> float:
    """Share of the clustering's pairs that are together in the reference; 1 if it has none.

    >>> pair_precision([0, 0, 1, 1], [0, 0, 1, 2])
    1.0
    """
    c = count_pairs(left, right, weights)
    return c.tp / (c.tp + c.fp) if c.tp + c.fp > 0 else 1.0


@comparison
def pair_recall(left: Side, right: Side, weights: Weights) -> float:
    """Share of the reference's pairs that are together in the clustering; 1 if it has none.

    >>> pair_recall([0, 0, 1, 1], [0, 0, 1, 2])
    0.5
    """
    c = count_pairs(left, right, weights)
    return c.tp / (c.tp + c.fn) if c.tp + c.fn > 0 else 1.0


@comparison
def pair_f1(left: Side, right: Side, weights: Weights) -> float:
    """Harmonic mean of pair precision and pair recall:  2 TP / (2 TP + FP + FN).

    >>> round(pair_f1([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    c = count_pairs(left, right, weights)
    return 2 * c.tp / (2 * c.tp + c.fp + c.fn) if c.tp + c.fp + c.fn > 0 else 1.0


@comparison
def brier_score(left: Side, right: Side, weights: Weights) -> float:
    """Mean squared difference (p_ij - q_ij)^2 of co-occurrences over pairs; 0 is perfect.

    Against labels it is a proper score for the probabilities of belonging together: the true
    probabilities have the smallest expected value. For two sets of labels it is one minus the Rand
    index.

    >>> brier_score([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return count_pairs(left, right, weights, squares=True).brier


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


def _expected(table: np.ndarray, left: Side, right: Side, weights: Weights) -> float:
    """Expected mutual information when one side is shuffled: exact for labels with whole weights,
    otherwise to second order, sum_rs S_r S_s / ((n - 1) 2 a_r b_s) with S_r = sum_i w_i (u_ir -
    mean)^2.
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
def normalized_mutual_information(left: Side, right: Side, weights: Weights) -> float:
    """Mutual information of the two labels of an object, divided by the mean of their entropies.

    On memberships the two labels are drawn independently from the two rows, so a soft clustering
    scores below 1 against itself.
    Between 0 and 1; not corrected for chance. ``normalized_mutual_info_score`` in scikit-learn.

    >>> round(normalized_mutual_information([0, 0, 1, 1], ["b", "b", "a", "a"]), 12)
    1.0
    """
    shared, row_entropy, column_entropy = _information(overlap(left, right, weights))
    if row_entropy <= 1e-15 and column_entropy <= 1e-15:
        return 1.0
    return 0.0 if shared <= 1e-15 else 2 * shared / (row_entropy + column_entropy)


@comparison
def adjusted_mutual_information(left: Side, right: Side, weights: Weights) -> float:
    """Mutual information above chance, (I - E) / (mean entropy - E); E is its value by chance.

    Vinh et al. (2010). E is exact for labels with whole weights. For memberships it is a
    second-order approximation, accurate when clusters hold several objects. At most 1, near 0 for
    chance. ``adjusted_mutual_info_score`` in scikit-learn.

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
def matched_accuracy(left: Side, right: Side, weights: Weights) -> float:
    """Share of objects in the right cluster under the best one-to-one pairing of clusters.

    For memberships, the expected share when labels are drawn independently from both sides. If one
    side has more clusters, those left without a partner count as wrong.

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

    A value above 0 speaks for a dependence of rows and columns (Good 1976). The row totals are
    taken as given.

    Parameters
    ----------
    table : array of shape (n_rows, n_columns)
        Nonnegative counts, fractions allowed: clusters in rows, classes in columns.
    prior : float or array of shape (n_columns,), default 1.0
        Parameters of the Dirichlet prior of each distribution.

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
        raise ValueError(f"table must hold finite nonnegative counts, got {r.min():g}: count first")
    p = np.asarray(prior, dtype=np.float64)
    if p.shape not in ((), (1,), r.shape[1:]) or not np.isfinite(p).all() or p.min() <= 0:
        raise ValueError(
            f"prior must be a positive number or {r.shape[1]} of them, one for each column of "
            f"table; got {prior!r}"
        )
    p = np.broadcast_to(p, r.shape[1:])
    return log_posterior(r, p) - log_posterior(r.sum(axis=0, keepdims=True), p)


class CalibrationCurve(NamedTuple):
    """Pairs binned by predicted chance: mean prediction, observed share, weight and interval.

    Arrays over the bins that hold pairs; ``low`` and ``high`` are ``None`` unless asked for.
    """

    predicted: np.ndarray
    observed: np.ndarray
    weight: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    @property
    def error(self) -> float:
        """Expected calibration error: mean of |predicted - observed| over pairs."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.weight))


@documented
def calibration_curve(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    n_bins: int = 10,
    n_pairs: int = 1_000_000,
    sample_weight: ArrayLike | None = None,
    missing: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> CalibrationCurve:
    """How often pairs that should be together with chance p are together in the reference.

    Parameters
    ----------
    reference, clustering, sample_weight, missing
        As for ``rand_index``.
    n_bins : int
        Bins of equal width on [0, 1]; empty ones are left out.
    n_pairs : int
        If there are more pairs than this, this many are drawn at random.
    interval : float, optional
        Level of bootstrap intervals over objects for the observed shares, such as 0.95.
    random_state : None, int or Generator
        Seed for drawing pairs and for the bootstrap.

    Examples
    --------
    >>> from sfumato.metrics import calibration_curve
    >>> curve = calibration_curve([0, 0, 1, 1], [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> round(curve.error, 3)
    0.097
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
    n = left.shape[0]
    if n < 2:
        raise ValueError("calibration needs pairs: give at least two objects")
    rng = np.random.default_rng(random_state)
    pairs = _pairs(rng, n, n_pairs)
    truth, chance = _together(left, pairs), _together(right, pairs)
    # A chance of exactly 1 belongs to the last bin.
    bins = np.minimum((chance * n_bins).astype(int), n_bins - 1)
    weights = check_weights(sample_weight, left)

    def shares(weights: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pair_weight = 1.0 if weights is None else weights[pairs].prod(axis=1)
        weight, predicted, observed = (
            np.bincount(bins, pair_weight * value, minlength=n_bins)
            for value in (np.ones(len(pairs)), chance, truth)
        )
        # NaN in empty bins, which are dropped below.
        filled = np.where(weight > 0, weight, np.nan)
        return weight, predicted / filled, observed / filled

    weight, predicted, observed = shares(weights)
    used = weight > 0
    if not used.any():
        raise ValueError("calibration needs pairs: give two objects a sample_weight above 0")
    low = high = None
    if interval is not None:
        resamples = bootstrap_weights(rng, n, weights, interval)
        draws = [shares(resampled)[2][used] for resampled in resamples]
        low, high = np.nanquantile(draws, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
    return CalibrationCurve(predicted[used], observed[used], weight[used], low, high)


def _pairs(rng: np.random.Generator, n: int, n_pairs: int) -> np.ndarray:
    """All pairs i < j, or ``n_pairs`` of them at random."""
    if n * (n - 1) // 2 <= n_pairs:
        return np.stack(np.triu_indices(n, 1), axis=1)
    first = rng.integers(n, size=n_pairs)
    # An offset of 1 to n - 1 never pairs an object with itself.
    return np.stack([first, (first + rng.integers(1, n, size=n_pairs)) % n], axis=1)


def _together(side: Side, pairs: np.ndarray) -> np.ndarray:
    if is_hard(side):
        return (side.indices[pairs[:, 0]] == side.indices[pairs[:, 1]]).astype(np.float64)
    # Rounding may leave values slightly outside [0, 1].
    return np.clip(cooccurrence(side, pairs), 0.0, 1.0)
