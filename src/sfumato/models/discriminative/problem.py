"""Discriminative clustering: cells of x whose class distributions differ (Sinkkonen and Kaski
2002; Sinkkonen, Kaski and Nikkila 2002).

q_i(x) is the class distribution of x times its weight, p_i the prior counts with sum P, s the
bandwidth, m_j the prototypes:

    y_j(x) = exp(-|x - m_j|^2 / s^2) / Z(x),    r_ji = sum_x y_j(x) q_i(x),    R_j = sum_i r_ji,
            R = sum_j R_j

    maximise  L = sum_ji log [G(p_i + r_ji) / G(p_i)] - sum_j log [G(P + R_j) / G(P)] - penalty
    sum_j R_j log(k R_j / R)

With  A = dL/dr  and  e_j(x) = sum_i q_i(x) A_ji:
        dL/dm_j = (2/s^2) sum_x (x - m_j) y_j(x) [e_j(x) - sum_l y_l(x) e_l(x)].
Both r and the gradient add up over row blocks. With distributions psi_j as parameters in the place
of the counts, the expected Kullback-Leibler distortion of the source:

    minimise   E = - sum_x sum_j y_j(x) sum_i q_i(x) log psi_j(i) = - sum_ji r_ji log psi_j(i)

The best psi_j for given prototypes are r_ji / R_j, and at these  dE/dm  is the partial derivative:
the same formula with  A = log psi.  Online steps are s^2/2 times the gradient of a batch. They
have two time scales (Borkar 1997): the counts forget faster than the steps shrink, so they match
the current prototypes. The reported prototypes are a running mean (Polyak and Juditsky 1992).

A missing value (NaN) is left out of the distance, which is raised by p over the number of the
others (Hathaway and Bezdek 2001): x - m_j is zero there, and correspondingly larger elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import psi, xlogy

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Array
from ...engine import loop
from ...numerics import contingency
from ...numerics.distances import Coordinates, measure
from ...numerics.simplex import softmax


def memberships(X: Any, centers: np.ndarray, bandwidth: float) -> Any:
    """Memberships y_j(x) (n, k); |x|^2 cancels, so a sparse ``X`` stays sparse."""
    return softmax(_affinities(X, centers, 2.0 / bandwidth**2))[0]


def cells(X: Array, centers: np.ndarray) -> Any:
    """Index of the nearest prototype (the Voronoi cell) of every row."""
    affinities = _affinities(X, centers, 1.0)
    return namespace(affinities).argmax(affinities, axis=1)


def _affinities(X: Any, centers: np.ndarray, scale: float) -> Any:
    """scale (x'm_j - |m_j|^2 / 2): minus half the squared distance, up to a term in x only."""
    xp = namespace(X)
    if (partial := _partial(X)) is not None:
        heavy, there = partial
        return heavy @ (scale * centers).T - there @ (0.5 * scale * centers**2).T
    slopes, heights = (scale * centers).T, (-0.5 * scale) * np.sum(centers**2, axis=1)
    if xp is not np:
        slopes, heights = (
            xp.asarray(part, dtype=X.dtype, device=X.device) for part in (slopes, heights)
        )
    affinities = X @ slopes
    affinities += heights
    return affinities


def counts(Y: Array, Q: Array) -> np.ndarray:
    """r = Y'Q (k, classes) for memberships (n, k) and weighted class distributions."""
    return np.asarray((Q.T @ Y).T) if sp.issparse(Q) else to_numpy(Y.T @ Q)


def size_cost(r: np.ndarray) -> float:
    """sum_j R_j log(k R_j / R): 0 for equal sizes, R log k if one cluster holds everything."""
    sizes = r.sum(axis=1)
    return float(xlogy(sizes, len(sizes) * sizes / sizes.sum()).sum())


def distortion(r: np.ndarray) -> float:
    """E for counts r (k, classes), with the best class distributions of the clusters."""
    return -float(np.sum(r * _log_shares(r)))


def _log_shares(r: np.ndarray) -> np.ndarray:
    """log psi (k, classes); for absent classes, the log of the smallest float."""
    tiny = np.finfo(float).tiny
    return np.log(np.maximum(r / np.maximum(r.sum(axis=1, keepdims=True), tiny), tiny))


def slopes(r: np.ndarray, prior: np.ndarray | None, penalty: float = 0.0) -> np.ndarray:
    """A = dL/dr (k, classes) up to a constant, which cancels; without a prior, that of -E."""
    sizes = r.sum(axis=1, keepdims=True)
    A = _log_shares(r) if prior is None else psi(prior + r) - psi(prior.sum() + sizes)
    share = np.maximum(len(sizes) * sizes / sizes.sum(), np.finfo(float).tiny)
    return A - penalty * np.log(share) if penalty else A


def pull(
    X: Any, Y: np.ndarray, Q: Any, A: np.ndarray, centers: np.ndarray, bandwidth: float
) -> np.ndarray:
    """dL/dm (k, p) of a block, given the slopes ``A`` for all data."""
    xp = namespace(X)
    E = Q @ A.T if xp is np else Q @ xp.asarray(A.T, dtype=X.dtype, device=X.device)
    E -= xp.sum(Y * E, axis=1)[:, None]
    E *= Y
    return (2.0 / bandwidth**2) * moved(X, E, centers)


def _partial(X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows with zeros for missing values, and indicators of values, rescaled to all features."""
    if not isinstance(X, np.ndarray) or not np.isnan(X).any():
        return None
    there = ~np.isnan(X)
    share = X.shape[1] / np.maximum(there.sum(axis=1, keepdims=True), 1)
    return share * np.where(there, X, 0.0), share * there


def moved(X: Any, E: Any, centers: np.ndarray) -> np.ndarray:
    """sum_x E_j(x) (x - m_j), (k, p)."""
    if (partial := _partial(X)) is not None:
        heavy, there = partial
        return E.T @ heavy - (E.T @ there) * centers
    total = np.asarray((X.T @ E).T) if sp.issparse(X) else to_numpy(E.T @ X)
    return total - to_numpy(namespace(E).sum(E, axis=0))[:, None] * centers


class Tuning(NamedTuple):
    """Constants for starts, choices, warnings and the online algorithm."""

    sample: int = 20_000  # objects on which starts compete
    most_features: int = 500  # most features for inverting the covariance within classes
    gain: float = 0.02  # gain (nats per object) of a narrower bandwidth or one more cluster
    chance: float = 0.001  # level of Bartlett's test of discriminant directions
    patience: int = 3  # numbers of clusters without a gain after which "auto" stops
    # The gain over one cluster is compared with fits to shuffled classes, unless it is evident: at
    # least this many nats per coordinate of a prototype.
    evident: float = 2.0
    above_chance: float = 1.25  # factor by which the gain must exceed the best gain by chance
    shuffles: int = 3
    # Rates at which the steps, and the weight of a new batch in the running means, decrease with
    # the number of batches b (as powers of b). Chosen, with the default learning rate, from one
    # start on four sets of 20 000 objects (40 groups, a checkerboard, stripes, smooth
    # probabilities); ``python -m benchmarks discriminative`` reports whole fits on others. Theory
    # asks for an exponent between 1/2 and 1 for the steps, and for counts that forget faster.
    steps: float = 0.6
    counts: float = 0.4
    means: float = 0.6
    warm: float = 30.0  # batches added to b in these rates, so that the first steps are not large
    passes: int = 8  # passes without progress that end a search; later ones take smaller steps


TUNING = Tuning()


class Frame(NamedTuple):
    """Coordinates with mean square one per feature, centred unless the data are sparse."""

    coordinates: Coordinates
    middle: np.ndarray  # (p,), zero if the features are centred

    @property
    def unit(self) -> float:
        """Length of a coordinate unit in the units of the data."""
        return 1.0 / float(self.coordinates.scale[0])

    def __call__(self, X: Any) -> Any:
        """Rows in these coordinates; float64 for NumPy and SciPy arrays, as L-BFGS needs."""
        if not (is_numpy(X) or sp.issparse(X)):
            return self.coordinates.inner(X)
        # Beyond this, squares would overflow.
        if sp.issparse(X):
            inner = self.coordinates.inner(X.astype(np.float64))
            inner.data = np.clip(inner.data, -1e70, 1e70)
            return inner
        return np.clip(self.coordinates.inner(np.asarray(X, dtype=np.float64)), -1e70, 1e70)

    @classmethod
    def of(cls, rows: Rows) -> Frame:
        """Coordinates of the (weighted) objects."""
        sparse = sp.issparse(rows.X)
        mass = mass_of(rows.columns[0])
        found = measure(Rows(rows.X, mass), per_feature=False, mix=False, centre=not sparse)
        mean = found.shift
        if sparse:
            total, first = rows.sum(lambda X, Q: (mass_of(Q).sum(), mass_of(Q) @ found.inner(X)))
            mean = np.asarray(first, dtype=np.float64) / float(total) / found.scale
        largest = float(np.abs(mean).max(initial=0.0))
        exact = is_numpy(rows.X) or sparse
        rounding = 8 * np.finfo(rows.dtype if exact else float).eps * largest
        # If all objects are equal up to rounding, the rounding errors must not become the unit.
        if not 1.0 / found.scale[0] > rounding:
            found = found._replace(scale=np.full_like(found.scale, 1.0 / (largest or 1.0)))
        return cls(found, mean * found.scale if sparse else np.zeros(rows.shape[1]))


def mass_of(Q: Array) -> Any:
    """Weight of every object."""
    return np.asarray(Q.sum(axis=1)).ravel() if sp.issparse(Q) else namespace(Q).sum(Q, axis=1)


class Problem(NamedTuple):
    """The data and settings of one fit."""

    rows: Rows  # features and weighted class distributions
    frame: Frame
    prior: np.ndarray  # (classes,)
    precision: float  # of the Gaussian prior of the prototypes
    penalty: float
    total: float  # sum of the weights
    explicit: bool = False  # whether class distributions are parameters, not integrated out

    def few(self) -> Problem:
        """The problem, restricted to an evenly spread sample if there are many objects."""
        size = TUNING.sample
        if self.rows.shape[0] <= 2 * size:
            return self
        (Q,) = self.rows.columns
        mass = to_numpy(mass_of(Q))
        chosen = np.searchsorted(np.cumsum(mass), (np.arange(size) + 0.5) / size * self.total)
        Q, factors = Q[chosen], self.total / size / mass[chosen]
        if sp.issparse(Q):
            Q.data *= factors
        else:
            Q = Q * asarray_like(factors[:, None], Q)
        return self._replace(rows=Rows(self.rows.X[chosen], Q))

    def part(self, chosen: np.ndarray) -> Problem:
        """The same problem for selected objects."""
        (Q,) = self.rows.columns
        Q = Q[chosen]
        return self._replace(rows=Rows(self.rows.X[chosen], Q), total=float(mass_of(Q).sum()))

    def log_likelihood(self, centers: np.ndarray, bandwidth: float, learnt: Problem) -> float:
        """Log probability of these classes, predicted from the objects of ``learnt``."""
        r = self.prior + learnt.table(centers, bandwidth)
        psi = r / r.sum(axis=1, keepdims=True)

        def block(X: Array, Q: Any) -> tuple[float]:
            log = np.log(to_numpy(memberships(self.frame(X), centers, bandwidth)) @ psi)
            return (float(Q.multiply(log).sum() if sp.issparse(Q) else (to_numpy(Q) * log).sum()),)

        return self.rows.sum(block)[0]

    def table(self, centers: np.ndarray, bandwidth: float | None = None) -> np.ndarray:
        """Counts (k, classes) in clusters, soft or (without a bandwidth) in Voronoi cells."""

        def block(X: Array, Q: Any) -> tuple[np.ndarray]:
            X = self.frame(X)
            if bandwidth is not None:
                return (counts(memberships(X, centers, bandwidth), Q),)
            Y = to_numpy(cells(X, centers))[:, None] == np.arange(len(centers))
            return (counts(Y.astype(np.float64), Q if sp.issparse(Q) else to_numpy(Q)),)

        return self.rows.sum(block)[0]

    def entropy(self) -> float:
        """Weighted sum of the entropies of the objects' class distributions; 0 for labels."""

        def block(X: Array, Q: Any) -> tuple[float]:
            counts = Q.data if sp.issparse(Q) else to_numpy(Q)
            mass = to_numpy(mass_of(Q))
            return (float(xlogy(mass, mass).sum() - xlogy(counts, counts).sum()),)

        return self.rows.sum(block)[0]

    def objective(self, r: np.ndarray, centers: np.ndarray) -> float:
        """Log posterior of the prototypes up to a constant, minus the penalty on sizes."""
        cost = self.penalty * size_cost(r) if self.penalty else 0.0
        explained = contingency.log_posterior(r, self.prior)
        explained = -distortion(r) if self.explicit else explained
        away = float(np.sum((centers - self.frame.middle) ** 2))
        return explained - cost - 0.5 * self.precision * away

    def gradient(self, r: np.ndarray, centers: np.ndarray, bandwidth: float) -> np.ndarray:
        """Gradient of the objective by the prototypes, given their table ``r``."""
        A = slopes(r, None if self.explicit else self.prior, self.penalty)

        def block(X: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray]:
            X = self.frame(X)
            return (pull(X, memberships(X, centers, bandwidth), Q, A, centers, bandwidth),)

        return self.rows.sum(block)[0] - self.precision * (centers - self.frame.middle)

    def ascend(self, centers: np.ndarray, bandwidth: float, max_iter: int, tol: float) -> loop.Run:
        """Prototypes by L-BFGS at one bandwidth."""

        def value_and_slope(M: np.ndarray) -> tuple[float, np.ndarray]:
            r = self.table(M, bandwidth)
            return self.objective(r, M), self.gradient(r, M, bandwidth)

        return climb(value_and_slope, centers, self.total, max_iter, tol)


def climb(
    value_and_slope: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    total: float,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """Maximum of an objective by L-BFGS, scaled to one unit of the ``total`` weight."""

    def descent(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_slope(flat.reshape(start.shape))
        return -value / total, -slope.ravel() / total

    def solve(descent: Any) -> loop.Run:
        history = [-descent(start.ravel())[0] * total]

        def record(intermediate_result: Any) -> None:
            history.append(-intermediate_result.fun * total)

        limits = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": min(tol, 1e9), "gtol": tol}
        found = minimize(
            descent, start.ravel(), jac=True, method="L-BFGS-B", callback=record, options=limits
        )
        state, done = found.x.reshape(start.shape), found.status != 1
        return loop.Run(state, history[-1], np.array(history), len(history), done)

    return loop.replay(solve, descent)


def ascend(
    problem: Problem, starts: list[np.ndarray], bandwidth: float, max_iter: int, tol: float
) -> loop.Run:
    """The best L-BFGS run, after searches at wider bandwidths and (if many objects) on a sample."""
    few, runs = problem.few(), []
    for centers in starts:
        for widening in (2.0, np.sqrt(2.0)):
            centers = few.ascend(centers, widening * bandwidth, max_iter, max(tol, 1e-4)).state
        last = tol if few is problem else max(tol, 1e-4)
        runs.append(few.ascend(centers, bandwidth, max_iter, last))
    best = loop.best(runs, larger=True)
    return best if few is problem else problem.ascend(best.state, bandwidth, max_iter, tol)


class Online(NamedTuple):
    """State of the online algorithm: prototypes, and running means over recent batches."""

    centers: np.ndarray  # (k, p)
    average: np.ndarray  # running mean of the prototypes, which is reported
    table: np.ndarray  # soft counts (k, classes), scaled to all objects seen
    recent: np.ndarray  # the same for recent batches, used by the steps
    first: np.ndarray  # running mean of the gradients
    second: np.ndarray  # running mean of their squares
    batches: int
    seen: float  # weight of all objects seen
    slow: float = 1.0  # factor on the step size

    def again(self, best: np.ndarray) -> Online:
        """The state reset to the best prototypes, with half the step size."""
        slow, none = 0.5 * self.slow, np.zeros_like(best)
        return self._replace(centers=best, average=best, first=none, slow=slow)

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Online:
        """The state before the first batch."""
        zeros, table = np.zeros_like(centers), problem.table(centers, bandwidth)
        return cls(centers, centers, table, table, zeros, zeros, 0, problem.total)


def online_pass(
    problem: Problem, state: Online, bandwidth: float, first_rate: float, order: np.ndarray
) -> Online:
    """The state after steps over batches: gradients divided by their root mean square (Adam)."""
    (Q,) = problem.rows.columns
    batch_size = max(10, len(order) // 100)
    mean_weight = problem.total / problem.rows.shape[0]
    centers, average, table, recent, first, second, b, seen, slow = state
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        X, q = problem.frame(problem.rows.X[batch]), Q[batch]
        Y = memberships(X, centers, bandwidth)
        scale, forget = seen / (len(batch) * mean_weight), (b + TUNING.warm) ** -TUNING.means
        fresh = scale * counts(Y, q)
        table = table + forget * (fresh - table)
        recent = recent + (b + TUNING.warm) ** -TUNING.counts * (fresh - recent)
        A = slopes(recent, problem.prior, problem.penalty)
        step = scale * pull(X, Y, q, A, centers, bandwidth)
        step -= problem.precision * (centers - problem.frame.middle)
        b += 1
        first, second = 0.9 * first + 0.1 * step, 0.99 * second + 0.01 * step**2
        size = np.sqrt(second / (1 - 0.99**b)) + np.finfo(np.float64).tiny
        rate = slow * first_rate * min(bandwidth, 1.0) * (1 + b / 200) ** -TUNING.steps
        centers = centers + rate * (first / (1 - 0.9**b)) / size
        average = average + forget * (centers - average)
    return Online(centers, average, table, recent, first, second, b, seen, slow)


def learn(
    problem: Problem,
    centers: np.ndarray,
    bandwidth: float,
    rate: float,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The best prototypes found by online passes in random order. After two passes without
    progress, the search returns to the best ones with half the step size. The state of the random
    generator is part of the state, so a resumed search uses the same orders."""

    def value_of(state: Online) -> float:
        return problem.objective(problem.table(state.average, bandwidth), state.average)

    def step(state: tuple[Any, np.ndarray, float, Any]) -> tuple[Any, float]:
        online, best, value, rng.bit_generator.state = state
        for failed in range(TUNING.passes):
            online = online.again(best) if failed > 1 else online
            order = rng.permutation(problem.rows.shape[0])
            online = online_pass(problem, online, bandwidth, rate, order)
            reached = value_of(online)
            if reached > value:
                return (online, online.average, reached, rng.bit_generator.state), reached
        return (online, best, value, rng.bit_generator.state), value

    first = Online.start(problem, centers, bandwidth)
    start = (first, first.average, value_of(first), rng.bit_generator.state)
    tol = max(tol, 1e-4)
    run = loop.iterate(step, start, max_iter=max_iter, tol=tol, relative_to=problem.total)
    _, best, _, rng.bit_generator.state = run.state
    return run._replace(state=best)
