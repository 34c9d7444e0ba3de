"""What discriminative clustering does with its data: frame, objective over row blocks, L-BFGS, online passes, starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from ...core import loop
from ...core.arrays import is_numpy, namespace, to_numpy
from ...core.rows import Rows
from ...numerics import contingency
from . import kernel

SAMPLE = 20_000  # objects that the starts look at
FAR = 1e75  # standard deviations beyond which squares overflow


class Frame(NamedTuple):
    """Coordinates in which the features have mean square one, and mean zero where shifting them keeps them dense."""

    offset: np.ndarray | float
    unit: float
    middle: np.ndarray  # the mean of the data, in the frame

    def __call__(self, X: Any) -> Any:
        if sp.issparse(X):
            return X.astype(np.float64) / self.unit
        offset = (
            self.offset
            if is_numpy(X)
            else namespace(X).asarray(self.offset, dtype=X.dtype, device=X.device)
        )
        shifted = X - offset
        shifted /= self.unit
        return shifted

    def inverse(self, centers: np.ndarray) -> np.ndarray:
        return centers * self.unit + self.offset

    @classmethod
    def of(cls, rows: Rows) -> Frame:
        reach = np.abs(rows.extremes().astype(np.float64)).max(initial=0.0)
        power = float(
            np.ldexp(1.0, np.frexp(reach)[1])
        )  # squares of X / power neither overflow nor vanish
        scaled = cls(0.0, power, np.zeros(0))
        total, middle = rows.sum(
            lambda X, Q: (float(mass_of(Q).sum()), to_numpy(mass_of(Q) @ scaled(X)))
        )
        middle = np.asarray(middle, dtype=np.float64) / total
        mean = middle * power
        sparse = sp.issparse(rows.X)
        centred = scaled if sparse else cls(mean, power, middle)
        square = rows.sum(lambda X, Q: (float((mass_of(Q) @ centred(X) ** 2).sum()),))[
            0
        ] / total - (middle @ middle if sparse else 0.0)
        largest = float(np.abs(mean).max(initial=0.0))
        unit = power * float(np.sqrt(max(square, 0.0) / len(mean)))
        rounding = 8 * np.finfo(rows.dtype if is_numpy(rows.X) or sparse else float).eps * largest
        unit = unit if unit > rounding else largest or 1.0
        return cls(0.0, unit, mean / unit) if sparse else cls(mean, unit, np.zeros_like(mean))

    def refuse_remote(self, rows: Rows) -> None:
        """Objects so far away that their distances would overflow."""
        extremes = rows.extremes().astype(np.float64)
        far = float(np.abs(extremes / 2 - np.asarray(self.offset) / 2).max(initial=0.0))
        if far > FAR * self.unit:
            largest = float(np.abs(extremes).max())
            raise ValueError(
                f"X has values as large as {largest:.0e}, more than {FAR:.0e} standard deviations from the fit: check its units"
            )


def mass_of(Q: Any) -> Any:
    """Weight of every object."""
    return (
        np.asarray(Q.sum(axis=1)).ravel()
        if sp.issparse(Q) or is_numpy(Q)
        else namespace(Q).sum(Q, axis=1)
    )


class Problem(NamedTuple):
    """The data of one fit and what is asked of it."""

    rows: Rows  # features and weighted class distributions
    frame: Frame
    prior: np.ndarray  # (classes,)
    precision: float  # of the Gaussian prior of the prototypes
    penalty: float
    total: float  # sum of the weights

    def few(self) -> Problem:
        """The problem itself, or where there are many objects ``SAMPLE`` of them, evenly spread over the weight and of the same total."""
        if self.rows.shape[0] <= 2 * SAMPLE:
            return self
        (Q,) = self.rows.columns
        mass = to_numpy(mass_of(Q))
        chosen = np.searchsorted(np.cumsum(mass), (np.arange(SAMPLE) + 0.5) / SAMPLE * self.total)
        Q, factors = Q[chosen], self.total / SAMPLE / mass[chosen]
        if sp.issparse(Q):
            Q.data *= factors
        else:
            Q = Q * (
                factors[:, None]
                if is_numpy(Q)
                else namespace(Q).asarray(factors[:, None], dtype=Q.dtype, device=Q.device)
            )
        return self._replace(rows=Rows(self.rows.X[chosen], Q, n_jobs=self.rows.n_jobs))

    def part(self, chosen: np.ndarray) -> Problem:
        """The same question about chosen objects."""
        (Q,) = self.rows.columns
        Q = Q[chosen]
        return self._replace(
            rows=Rows(self.rows.X[chosen], Q, n_jobs=self.rows.n_jobs),
            total=float(mass_of(Q).sum()),
        )

    def log_likelihood(self, centers: np.ndarray, bandwidth: float, learnt: Problem) -> float:
        """Log probability of the classes here, by memberships and the class distributions that other objects have taught."""
        r = self.prior + learnt.table(centers, bandwidth)
        psi = r / r.sum(axis=1, keepdims=True)

        def block(X: Any, Q: Any) -> tuple[float]:
            log = np.log(to_numpy(kernel.memberships(self.frame(X), centers, bandwidth)) @ psi)
            return (float(Q.multiply(log).sum() if sp.issparse(Q) else (to_numpy(Q) * log).sum()),)

        return self.rows.sum(block)[0]

    def table(self, centers: np.ndarray, bandwidth: float) -> np.ndarray:
        """Soft counts (k, classes)."""
        return self.rows.sum(
            lambda X, Q: (kernel.counts(kernel.memberships(self.frame(X), centers, bandwidth), Q),)
        )[0]

    def voronoi_table(self, centers: np.ndarray) -> np.ndarray:
        """Counts (k, classes) of the Voronoi cells."""
        return self.rows.sum(
            lambda X, Q: (
                kernel.counts(_one_hot(kernel.cells(self.frame(X), centers), len(centers), X), Q),
            )
        )[0]

    def objective(self, r: np.ndarray, centers: np.ndarray) -> float:
        """Log posterior of the prototypes, up to a constant, less the penalty on sizes."""
        cost = self.penalty * kernel.size_cost(r) if self.penalty else 0.0
        return (
            contingency.log_posterior(r, self.prior)
            - cost
            - 0.5 * self.precision * float(np.sum((centers - self.frame.middle) ** 2))
        )

    def gradient(self, r: np.ndarray, centers: np.ndarray, bandwidth: float) -> np.ndarray:
        """Derivative of the objective by the prototypes, at their table ``r``."""
        A = kernel.slopes(r, self.prior, self.penalty)

        def pull(X: Any, Q: Any) -> tuple[np.ndarray]:
            X = self.frame(X)
            return (
                kernel.pull(X, kernel.memberships(X, centers, bandwidth), Q, A, centers, bandwidth),
            )

        return self.rows.sum(pull)[0] - self.precision * (centers - self.frame.middle)

    def ascend(self, centers: np.ndarray, bandwidth: float, max_iter: int, tol: float) -> loop.Run:
        """L-BFGS on the prototypes at one bandwidth; the solver sees the objective per unit of weight."""

        def descent(flat: np.ndarray) -> tuple[float, np.ndarray]:
            M = flat.reshape(centers.shape)
            r = self.table(M, bandwidth)
            return -self.objective(r, M) / self.total, -self.gradient(
                r, M, bandwidth
            ).ravel() / self.total

        def solve(descent: Any) -> loop.Run:
            history = [self.objective(self.table(centers, bandwidth), centers)]
            found = minimize(
                descent,
                centers.ravel(),
                jac=True,
                method="L-BFGS-B",
                callback=lambda intermediate_result: history.append(
                    -intermediate_result.fun * self.total
                ),
                options={
                    "maxiter": max_iter,
                    "maxfun": 20 * max_iter,
                    "ftol": min(tol, 1e9),
                    "gtol": tol,
                },
            )
            return loop.Run(
                found.x.reshape(centers.shape),
                history[-1],
                np.array(history),
                len(history),
                found.status != 1,
            )

        return loop.replay(solve, descent)


def ascend(
    problem: Problem,
    starts: list[np.ndarray],
    bandwidth: float,
    *,
    anneal: bool,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """L-BFGS at ``bandwidth``, after rougher searches at wider ones; with many objects the starts compete on some of them."""
    few, runs = problem.few(), []
    for centers in starts:
        for widening in (2.0, np.sqrt(2.0)) if anneal else ():
            centers = few.ascend(centers, widening * bandwidth, max_iter, max(tol, 1e-4)).state
        runs.append(
            few.ascend(centers, bandwidth, max_iter, tol if few is problem else max(tol, 1e-4))
        )
    best = loop.best(runs, larger=True)
    return best if few is problem else problem.ascend(best.state, bandwidth, max_iter, tol)


class Online(NamedTuple):
    """State of the online algorithm: the prototypes, and running means over the last batches."""

    centers: np.ndarray  # (k, p)
    average: np.ndarray  # of the prototypes: what is reported
    table: np.ndarray  # soft counts (k, classes), as if of all objects seen
    first: np.ndarray  # of the steps
    second: np.ndarray  # of their squares
    batches: int
    seen: float  # weight of all objects seen

    @classmethod
    def start(cls, problem: Problem, centers: np.ndarray, bandwidth: float) -> Online:
        zeros = np.zeros_like(centers)
        return cls(
            centers, centers, problem.table(centers, bandwidth), zeros, zeros, 0, problem.total
        )


def online_pass(
    problem: Problem,
    state: Online,
    bandwidth: float,
    rate: float,
    batch_size: Any,
    order: np.ndarray,
) -> Online:
    """Steps over batches of the objects in ``order``: the expected step over its running root mean square (Kingma and Ba 2015)."""
    (Q,) = problem.rows.columns
    batch_size = max(10, len(order) // 100) if isinstance(batch_size, str) else batch_size
    mean_weight = problem.total / problem.rows.shape[0]
    centers, average, table, first, second, b, seen = state
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        X, q = problem.frame(problem.rows.X[batch]), Q[batch]
        Y = kernel.memberships(X, centers, bandwidth)
        scale, forget = seen / (len(batch) * mean_weight), (b + 30.0) ** -0.6
        table = table + forget * (scale * kernel.counts(Y, q) - table)
        step = scale * kernel.drift(
            X, q, Y, Y, kernel.slopes(table, problem.prior, problem.penalty), centers
        )
        step -= 0.5 * bandwidth**2 * problem.precision * (centers - problem.frame.middle)
        b += 1
        first, second = 0.9 * first + 0.1 * step, 0.99 * second + 0.01 * step**2
        size = np.sqrt(second / (1 - 0.99**b)) + np.finfo(np.float64).tiny
        centers = centers + rate / (1 + b / 200) * (first / (1 - 0.9**b)) / size
        average = average + forget * (centers - average)
    return Online(centers, average, table, first, second, b, seen)


def learn(
    problem: Problem,
    centers: np.ndarray,
    bandwidth: float,
    rate: float,
    batch_size: int,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """Online passes in random order; the best prototypes so far are kept, and three passes without better ones end it.

    Where the generator stands is part of the state: a search that is taken up again goes through the same orders.
    """

    def step(state: tuple[Online, np.ndarray, float, Any]) -> tuple[Any, float]:
        online, best, value, rng.bit_generator.state = state
        for _ in range(3):
            online = online_pass(
                problem, online, bandwidth, rate, batch_size, rng.permutation(problem.rows.shape[0])
            )
            reached = problem.objective(problem.table(online.average, bandwidth), online.average)
            if reached > value:
                return (online, online.average, reached, rng.bit_generator.state), reached
        return (online, best, value, rng.bit_generator.state), value

    begun = problem.objective(problem.table(centers, bandwidth), centers)
    start = (Online.start(problem, centers, bandwidth), centers, begun, rng.bit_generator.state)
    run = loop.iterate(
        step, start, max_iter=max_iter, tol=max(tol, 1e-4), relative_to=problem.total
    )
    _, best, _, rng.bit_generator.state = run.state
    return run._replace(state=best)


def _one_hot(labels: Any, k: int, like: Any) -> Any:
    if is_numpy(like) or sp.issparse(like):
        return (labels[:, None] == np.arange(k)).astype(np.float64)
    xp = namespace(like)
    return xp.astype(labels[:, None] == xp.arange(k, device=like.device)[None, :], like.dtype)
