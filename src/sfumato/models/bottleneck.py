"""The information bottleneck (Tishby, Pereira and Bialek 1999) and its hard, sequential form
(Slonim, Friedman and Tishby 2002).

x are objects with weight p(x) and a distribution q(c|x); clusters v have p(v) and p(c|v). For
memberships p(v|x):

    minimise   F = I(X;V) - beta I(C;V)

    p(v|x) = p(v) exp(beta sum_c q(c|x) log p(c|v)) / Z(x),    p(v, c) = sum_x p(x) p(v|x) q(c|x)

Each line minimises F over its left side, and after the first, F = - sum_x p(x) log Z(x) - beta
H(C): a sum over row blocks that never rises. For beta = infinity, I(C;V) is maximised over hard
clusters by moving single objects to the cluster with the lowest cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from ..array.docs import documented
from ..array.rows import Rows
from ..array.types import Array, ArrayLike, RandomState
from ..array.validation import InputSize, check_number, check_weights
from ..array.warn import warn
from ..data.features import check_features, refuse_tensors
from ..engine import loop
from ..engine.base import InductiveClusterer
from ..engine.clusterer import plain_features
from ..engine.loop import climb
from ..numerics import contingency
from ..numerics.distances import largest_first
from ..numerics.simplex import normalize, softmax
from ..selection.automatic import AutomaticClusters

TINY = np.finfo(np.float64).tiny


class Bottleneck(NamedTuple):
    """Cluster weights p(v) (k,), relevant distributions p(c|v) (k, classes), and the trade-off."""

    weights: np.ndarray
    distributions: np.ndarray
    beta: float


class Totals(NamedTuple):
    """p(v, c) of a block (k, classes), and its part of - sum_x p(x) log Z(x)."""

    joint: np.ndarray
    objective: float


def _scores(Q: Array, state: Bottleneck) -> np.ndarray:
    """sum_c q(c|x) log p(c|v): minus the divergence of x from v, up to a term that depends on x."""
    return np.asarray(Q @ np.log(np.maximum(state.distributions, TINY)).T)


def assign(Q: Array, state: Bottleneck) -> tuple[np.ndarray, np.ndarray]:
    """Memberships p(v|x) and log Z(x) for rows q(c|x), dense or sparse."""
    with np.errstate(divide="ignore"):
        return softmax(np.log(state.weights) + state.beta * _scores(Q, state))


def nearest(Q: Array, state: Bottleneck) -> np.ndarray:
    """One-hot memberships in the cluster of smallest divergence; empty clusters get no object."""
    scores = np.where(state.weights > 0, _scores(Q, state), -np.inf)
    return np.eye(len(state.weights))[scores.argmax(axis=1)]


def summarize(Q: Any, mass: np.ndarray, state: Bottleneck) -> Totals:
    """Statistics of a block at a state."""
    Y, log_normalizer = assign(Q, state)
    return Totals(joint(Y, Q, mass), -float(mass @ log_normalizer))


def joint(Y: np.ndarray, Q: Array, mass: np.ndarray) -> np.ndarray:
    """p(v, c) = sum_x p(x) p(v|x) q(c|x)."""
    weighted = Y * mass[:, None]
    return np.asarray((Q.T @ weighted).T) if sp.issparse(Q) else weighted.T @ Q


def update(table: np.ndarray, beta: float) -> Bottleneck:
    """The state that follows from a joint table p(v, c)."""
    return Bottleneck(table.sum(axis=1) / table.sum(), normalize(table), beta)


def pack(state: Bottleneck) -> np.ndarray:
    """The state as one vector of logarithms, without constraints."""
    return np.log(np.maximum(np.column_stack([state.weights, state.distributions]), TINY)).ravel()


def unpack(vector: np.ndarray, like: Bottleneck) -> Bottleneck:
    """The state that ``pack`` turned into a vector."""
    logs = vector.reshape(len(like.weights), -1)
    return Bottleneck(softmax(logs[:, 0].copy())[0], softmax(logs[:, 1:].copy())[0], like.beta)


def entropy(p: np.ndarray) -> float:
    """- sum p log p in nats."""
    return -float(xlogy(p, p).sum())


def compression(Y: np.ndarray, mass: np.ndarray, weights: np.ndarray) -> float:
    """I(X;V) of a block of memberships."""
    ratio = np.divide(Y, weights, out=np.ones_like(Y), where=Y > 0)
    return float(mass @ xlogy(Y, ratio).sum(axis=1))


def sequential(
    Q: np.ndarray, mass: np.ndarray, labels: np.ndarray, k: int
) -> tuple[np.ndarray, float]:
    """Labels after moving each object in turn to the cheapest cluster, and their I(C;V). I(C;V) =
    H(C) + sum_v phi(v) with phi(v) = sum_c p(v, c) log p(v, c) - p(v) log p(v), so x belongs to the
    cluster with the smallest phi(v) - phi(v + x). Only the classes of x change. An object that is
    alone in its cluster stays."""
    T = sp.csr_array(Q * mass[:, None] if isinstance(Q, np.ndarray) else Q.multiply(mass[:, None]))
    labels = labels.copy()
    table = np.zeros((T.shape[1], k))
    for v in range(k):
        table[:, v] = T[labels == v].sum(axis=0)
    sizes = table.sum(axis=0)
    for x in np.flatnonzero(mass):
        entries = slice(T.indptr[x], T.indptr[x + 1])
        support, own = T.indices[entries], T.data[entries]
        home, weight = labels[x], own.sum()
        part = table[support]
        # Subtracting what was added may leave a negative rounding error.
        part[:, home] = np.maximum(part[:, home] - own, 0.0)
        sizes[home] = max(sizes[home] - weight, 0.0)
        joined, grown = part + own[:, None], sizes + weight
        cost = (xlogy(part, part) - xlogy(joined, joined)).sum(axis=0)
        cost += xlogy(grown, grown) - xlogy(sizes, sizes)
        to = int(cost.argmin())
        # The gain must exceed rounding errors, or sweeps might never end.
        labels[x] = to if cost[to] < cost[home] - 1e-13 * weight else home
        part[:, labels[x]] = joined[:, labels[x]]
        sizes[labels[x]] = grown[labels[x]]
        table[support] = part
    return labels, contingency.mutual_information(table)


def seeds(Q: Array, mass: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Starting distributions (k, classes). They are rows of ``Q``, each drawn far (in divergence)
    from those before it, mixed with the mean of all rows."""
    key = np.asarray(Q @ np.random.default_rng(0).normal(size=Q.shape[1]))
    order = np.argsort(key, kind="stable")
    Q, mass = Q[order], mass[order]  # the same seeds for any order of the objects
    mean = np.asarray(mass @ Q) / mass.sum()
    own = np.asarray(row_entropies(Q))
    chosen: list[np.ndarray] = []
    divergence = np.ones(Q.shape[0])
    for _ in range(k):
        reach = np.cumsum(mass * divergence)
        x = int(np.argmax(mass))
        if reach[-1] > 0:
            x = int(np.searchsorted(reach, rng.random() * reach[-1], side="right"))
        row = Q[[min(x, Q.shape[0] - 1)]]
        # Mixed with the mean, so that no class has probability zero.
        chosen.append(0.5 * mean + 0.5 * np.asarray(row.toarray() if sp.issparse(row) else row)[0])
        found = -own - np.asarray(Q @ np.log(np.maximum(chosen[-1], TINY)))
        divergence = np.maximum(found if len(chosen) == 1 else np.minimum(divergence, found), 0.0)
    return normalize(np.stack(chosen))


def row_entropies(Q: Any) -> np.ndarray:
    """Entropy H(q(c|x)) of every row, dense or sparse."""
    if sp.issparse(Q):
        logs = Q.copy()
        logs.data = xlogy(Q.data, Q.data)
        return -np.asarray(logs.sum(axis=1)).ravel()
    return -xlogy(Q, Q).sum(axis=1)


@documented
class InformationBottleneck(AutomaticClusters, InductiveClusterer):
    """Clusters of the rows of a table of counts that keep the information about its columns.

    Rows are objects x (documents, cells) and columns describe them (words, genes, classes).
    Minimises I(X;V) - beta I(C;V): the information that clusters keep about the objects, against
    the information they keep about the columns.

    Parameters
    ----------
    %(automatic)s
    beta : float, default 20.0
        Trade-off between relevance and compression. Memberships become harder as it grows;
        ``np.inf`` gives hard clusters by the sequential algorithm.
    anneal : bool, default True
        Increase beta from 1 to its value, where each solution starts the next.
    n_init : int, default 4
        Number of starts; the best is kept.
    max_iter : int, default 1000
        Largest number of iterations at each beta, or of sweeps of the sequential algorithm.
    tol : float, default 1e-9
        Change of the objective, in nats, at which to stop.
    random_state : int, Generator or None
        Random seed.

    Attributes
    ----------
    relevance_, compression_ : float
        I(C;V) and I(X;V) in nats.
    information_ : float
        I(X;C), the upper bound of ``relevance_``.
    distortion_ : float
        Expected Kullback-Leibler divergence between rows and their clusters, in nats:
        sum_x p(x) sum_v p(v|x) KL(q(c|x) | p(c|v)), which is ``information_ - relevance_``.
    information_curve_ : array of shape (n_levels, 3)
        beta, compression and relevance of the best solution found at each beta of the annealing; a
        concave curve.
    weights_ : array of shape (n_clusters,)
        p(v).
    class_distributions_ : array of shape (n_clusters, n_columns)
        p(c|v).
    memberships_, labels_, n_clusters_, objective_, history_, n_iter_, converged_
        As in every estimator; ``objective_`` is compression - beta * relevance, and -relevance for
        an infinite beta.

    References
    ----------
    .. [1] Tishby, Pereira and Bialek, The information bottleneck method, Allerton, 1999.
    .. [2] Slonim, Friedman and Tishby, Sequential information maximization, SIGIR, 2002.

    Examples
    --------
    >>> from sfumato import InformationBottleneck
    >>> counts = [[9, 1, 0], [8, 2, 0], [1, 8, 1], [0, 9, 1], [0, 1, 9]]
    >>> model = InformationBottleneck(3, random_state=0).fit(counts)
    >>> model.labels_[0] == model.labels_[1], model.labels_[2] == model.labels_[3]
    (np.True_, np.True_)
    >>> bool(model.relevance_ > 0.9 * model.information_)
    True
    """

    _relative = False
    _streams = False  # row shares need the whole table
    unit_free = True
    may_empty_clusters = True

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = "auto",
        *,
        max_clusters: int = 20,
        beta: float = 20.0,
        anneal: bool = True,
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-9,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.beta, self.anneal = beta, anneal
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_number(self.beta, "beta", low=0)
        self._visited: list[tuple[float, float]] = []

    def _prepare(self, X: Any, sample_weight: ArrayLike | None) -> Rows:
        refuse_tensors(self, X)
        X = check_features(self, X, reset=True)
        Q, totals = self._distributions(X)
        mass = _mass(X, totals, sample_weight)
        self._dtype = X.dtype
        return Rows(Q, mass)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        needed = super()._memory_needed(size)
        distributions = 3 * size.stored * (8 + 4 * size.sparse)
        return needed | {"a copy of X": 0, "distributions of the rows": distributions}

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        if not size.sparse:
            yield "give the counts as a sparse array if most of them are 0", 0
        yield from super()._smaller_alternatives(size)

    def _distributions(self, X: Any) -> tuple[Any, np.ndarray]:
        """Distributions q(c|x) of rows (zero if empty), and row totals over the largest count."""
        values = X.data if sp.issparse(X) else X
        if values.size and values.min() < 0:
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: X must hold counts, "
                f"its smallest is {values.min():g}"
            )
        largest = np.full(X.shape[0], float(values.max(initial=0.0)))
        Q = _divided(X.astype(np.float64), largest)
        totals = np.asarray(Q.sum(axis=1)).ravel()
        return _divided(Q, totals), totals

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """Square roots of the shares; their Euclidean distance is the Hellinger distance."""
        counts = plain_features(evidence)
        if counts is None:
            return None, ""
        shares = self._distributions(counts)[0]
        return (shares.sqrt() if sp.issparse(shares) else np.sqrt(shares)), "features"

    def _start(self, rows: Rows, rng: np.random.Generator) -> Bottleneck:
        k = self.n_clusters
        distributions = seeds(rows.X, rows.columns[0], k, rng)
        return Bottleneck(np.full(k, 1.0 / k), distributions, float(self.beta))

    _summarize = staticmethod(summarize)

    def _update(self, stats: Totals, state: Bottleneck) -> Bottleneck:
        return update(stats.joint, state.beta)

    def _assign(self, block: Array, state: Bottleneck) -> np.ndarray:
        hard = np.isinf(state.beta)
        return nearest(block, state) if hard else assign(block, state)[0]

    def _run(self, rows: Rows, state: Bottleneck, total: float) -> loop.Run:
        if np.isinf(self.beta):
            return self._sequence(rows, state)
        first, step = state, self._step(rows)
        limits: dict[str, Any] = {"max_iter": self.max_iter, "relative_to": 1.0}
        for beta in self._levels():
            # A little of the start is mixed in, so that coinciding clusters can separate again.
            weights, distributions = (
                0.98 * a + 0.02 * b for a, b in zip(state[:2], first[:2], strict=True)
            )
            state = Bottleneck(weights, distributions, beta)
            # Intermediate solutions only start the next one.
            tol = self.tol if beta == self.beta else max(self.tol, 1e-6)
            run = climb(step, state, pack, unpack, larger=False, tol=tol, **limits)
            state = run.state
            self._visited.append(self._information(rows, state)[:2])
        return run

    def _levels(self) -> np.ndarray:
        """Values of beta, each at most 1.5 times the one before."""
        beta = float(self.beta)
        if not self.anneal or beta <= 1:
            return np.array([beta])
        n_levels = 1 + int(np.ceil(np.log(beta) / np.log(1.5)))
        return np.append(np.geomspace(1.0, beta, n_levels)[:-1], beta)

    def _ordered(self, run: loop.Run) -> loop.Run:
        weights, distributions, beta = run.state
        order = largest_first(weights, distributions)
        state = Bottleneck(weights[order], distributions[order], beta)
        return run._replace(state=state)

    def _sequence(self, rows: Rows, state: Bottleneck) -> loop.Run:
        Q, mass = rows.X, rows.columns[0]

        def step(labels: np.ndarray) -> tuple[np.ndarray, float]:
            labels, relevance = sequential(Q, mass, labels, self.n_clusters)
            return labels, -relevance

        start = nearest(Q, state).argmax(axis=1)
        run = loop.iterate(step, start, max_iter=self.max_iter, tol=self.tol, relative_to=1.0)
        table = joint(np.eye(self.n_clusters)[run.state], Q, mass)
        return run._replace(state=update(table, np.inf))

    def _information(self, rows: Rows, state: Bottleneck) -> tuple[float, float, np.ndarray]:
        """I(X;V) and I(C;V) of the memberships at a state, and their table p(v, c)."""
        table = rows.sum(lambda Q, mass: (joint(self._assign(Q, state), Q, mass),))[0]
        weights = table.sum(axis=1)

        def within(Q: Array, mass: np.ndarray) -> tuple[float]:
            return (compression(self._assign(Q, state), mass, weights),)

        return max(0.0, rows.sum(within)[0]), contingency.mutual_information(table), table

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        self._state = state = run.state
        hard = np.isinf(state.beta)
        self._marginal = np.asarray(rows.columns[0] @ rows.X)
        self.weights_, self.class_distributions_ = state.weights, state.distributions
        self.compression_, self.relevance_, table = self._information(rows, state)
        doubt = float(rows.columns[0] @ row_entropies(rows.X))
        self.information_ = max(0.0, entropy(self._marginal) - doubt)
        self.distortion_ = contingency.distortion(table, state.distributions, doubt)
        self.information_curve_ = self._curve()
        U = rows.map(lambda Q, mass: self._assign(Q, state)).astype(self._dtype, copy=False)
        objective = -self.relevance_ if hard else self.compression_ - state.beta * self.relevance_
        history = run.history if hard else run.history - state.beta * entropy(self._marginal)
        self._publish(U, run._replace(history=history), objective)
        if self.n_clusters > 1 and self.relevance_ <= 1e-3 * self.information_ + 1e-12:
            soft = "" if hard else f", or beta={self.beta:g} is too small to separate them"
            warn(
                f"the clusters keep {self.relevance_:.2g} of the {self.information_:.2g} nats "
                f"that the rows of X tell about its columns: the rows are alike{soft}"
            )

    def _curve(self) -> np.ndarray:
        """For every beta of the annealing, the best of all solutions found from any start."""
        if np.isinf(self.beta):
            return np.array([[np.inf, self.compression_, self.relevance_]])
        # (0, 0) is the solution with one cluster, which always exists.
        betas, met = self._levels(), np.array([*self._visited, (0.0, 0.0)])
        best = (met[:, 0] - betas[:, None] * met[:, 1]).argmin(axis=1)
        return np.column_stack([betas, met[best]])

    def _placed(self, X: Any) -> np.ndarray:
        refuse_tensors(self, X)
        counts = check_features(self, X, reset=False)
        U = Rows(self._distributions(counts)[0]).map(lambda Q: self._assign(Q, self._state))
        return U.astype(counts.dtype, copy=False)

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Minus the objective of new rows of counts at the fitted clusters, in nats."""
        self._check_fitted()
        refuse_tensors(self, X)
        X = check_features(self, X, reset=False)
        Q, totals = self._distributions(X)
        rows = Rows(Q, _mass(X, totals, sample_weight))
        if np.isinf(self._state.beta):
            nearest = rows.sum(lambda Q, m: (joint(self._assign(Q, self._state), Q, m),))[0]
            logs = np.log(np.maximum(self._state.distributions, TINY))
            return entropy(self._marginal) + float(np.sum(nearest * logs))
        cost = rows.sum(lambda Q, m: self._summarize(Q, m, self._state)).objective
        return float(self._state.beta * entropy(self._marginal) - cost)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def _divided(X: Any, divisor: np.ndarray) -> Any:
    """Each row of ``X`` divided by its own number; rows with divisor 0 do not change."""
    divisor = np.where(divisor > 0, divisor, 1.0)
    if not sp.issparse(X):
        return X / divisor[:, None]
    values = X.data / np.repeat(divisor, np.diff(X.indptr))
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def _mass(X: Any, totals: np.ndarray, sample_weight: ArrayLike | None) -> np.ndarray:
    """p(x), proportional to the total of each row times its weight."""
    with np.errstate(over="ignore"):
        weights = check_weights(sample_weight, X, any_size=True)
    if not totals.any():
        raise ValueError("X holds no counts: every row sums to 0")
    mass = totals if weights is None else totals * (weights / weights.max())
    if not mass.any():
        raise ValueError(
            "sample_weight is 0 for every row of X that holds counts: give one of them weight"
        )
    return mass / mass.sum()
