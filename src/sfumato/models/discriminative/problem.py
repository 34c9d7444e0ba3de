"""The objective of discriminative clustering over row blocks, and its maximum by L-BFGS."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import xlogy

from ...array.arrays import is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Array
from ...engine import loop
from ...numerics import contingency
from ...numerics.coordinates import Coordinates, measure
from . import kernel

SAMPLE = 20_000  # size of the sample for the starts
FAR = 1e75  # standard deviations beyond which squares overflow


class Frame(NamedTuple):
    """Coordinates in which the features have mean square one, and the mean of the data in them.

    Dense features are centred as well; sparse ones only scaled, so that they stay sparse.
    """

    coordinates: Coordinates
    middle: np.ndarray  # (p,), zero where the features are centred

    @property
    def unit(self) -> float:
        """One unit of the coordinates in the units of the data."""
        return 1.0 / float(self.coordinates.scale[0])

    def __call__(self, X: Any) -> Any:
        """Rows in the coordinates; in float64 wherever NumPy and SciPy hold them, for L-BFGS."""
        if sp.issparse(X):
            return self.coordinates.inner(X.astype(np.float64))
        return self.coordinates.inner(np.asarray(X, dtype=np.float64) if is_numpy(X) else X)

    @classmethod
    def of(cls, rows: Rows) -> Frame:
        """The frame of the objects, by their weights."""
        sparse = sp.issparse(rows.X)
        mass = mass_of(rows.columns[0])
        found = measure(
            Rows(rows.X, mass, n_jobs=rows.n_jobs), per_feature=False, mix=False, centre=not sparse
        )
        mean = found.shift
        if sparse:
            total, first = rows.sum(lambda X, Q: (mass_of(Q).sum(), mass_of(Q) @ found.inner(X)))
            mean = np.asarray(first, dtype=np.float64) / float(total) / found.scale
        largest = float(np.abs(mean).max(initial=0.0))
        exact = is_numpy(rows.X) or sparse
        rounding = 8 * np.finfo(rows.dtype if exact else float).eps * largest
        # Where all objects are equal but for rounding, its size must not become the unit.
        if not 1.0 / found.scale[0] > rounding:
            found = found._replace(scale=np.full_like(found.scale, 1.0 / (largest or 1.0)))
        return cls(found, mean * found.scale if sparse else np.zeros(rows.shape[1]))

    def refuse_remote(self, rows: Rows) -> None:
        """Refuse objects so far away that their squared distances would overflow."""
        extremes = rows.extremes().astype(np.float64)
        away = np.nan_to_num(np.abs(extremes / 2 - self.coordinates.shift / 2), nan=0.0)
        far = float(away.max(initial=0.0))
        if far > FAR * self.unit:
            largest = float(np.abs(extremes).max())
            raise ValueError(
                f"X has values as large as {largest:.0e}, more than {FAR:.0e} standard deviations "
                "from the fit: check its units"
            )


def mass_of(Q: Array) -> Any:
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
    explicit: bool = False  # whether class distributions are parameters, not integrated out

    def few(self) -> Problem:
        """The problem itself, or one of ``SAMPLE`` objects where there are many.

        They are evenly spread over the weight, and their weights have the same total.
        """
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
        """The same problem for chosen objects."""
        (Q,) = self.rows.columns
        Q = Q[chosen]
        return self._replace(
            rows=Rows(self.rows.X[chosen], Q, n_jobs=self.rows.n_jobs),
            total=float(mass_of(Q).sum()),
        )

    def log_likelihood(self, centers: np.ndarray, bandwidth: float, learnt: Problem) -> float:
        """Log probability of the classes here, predicted from the class distributions of other
        objects.
        """
        r = self.prior + learnt.table(centers, bandwidth)
        psi = r / r.sum(axis=1, keepdims=True)

        def block(X: Array, Q: Any) -> tuple[float]:
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

    def entropy(self) -> float:
        """Entropy of the class distributions of the objects, summed with their weights: 0 for
        labels.
        """

        def block(X: Array, Q: Any) -> tuple[float]:
            counts = Q.data if sp.issparse(Q) else to_numpy(Q)
            mass = to_numpy(mass_of(Q))
            return (float(xlogy(mass, mass).sum() - xlogy(counts, counts).sum()),)

        return self.rows.sum(block)[0]

    def objective(self, r: np.ndarray, centers: np.ndarray) -> float:
        """Log posterior of the prototypes, up to a constant, less the penalty on sizes."""
        cost = self.penalty * kernel.size_cost(r) if self.penalty else 0.0
        explained = (
            -kernel.distortion(r) if self.explicit else contingency.log_posterior(r, self.prior)
        )
        return (
            explained
            - cost
            - 0.5 * self.precision * float(np.sum((centers - self.frame.middle) ** 2))
        )

    def gradient(self, r: np.ndarray, centers: np.ndarray, bandwidth: float) -> np.ndarray:
        """Derivative of the objective by the prototypes, at their table ``r``."""
        A = kernel.slopes(r, None if self.explicit else self.prior, self.penalty)

        def pull(X: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray]:
            X = self.frame(X)
            return (
                kernel.pull(X, kernel.memberships(X, centers, bandwidth), Q, A, centers, bandwidth),
            )

        return self.rows.sum(pull)[0] - self.precision * (centers - self.frame.middle)

    def ascend(self, centers: np.ndarray, bandwidth: float, max_iter: int, tol: float) -> loop.Run:
        """Prototypes by L-BFGS at one bandwidth; the solver sees the objective per unit of
        weight.
        """

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
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The best run of L-BFGS at ``bandwidth``, after rougher searches at wider ones.

    With many objects the starts are compared on a sample of them.
    """
    few, runs = problem.few(), []
    for centers in starts:
        for widening in (2.0, np.sqrt(2.0)):
            centers = few.ascend(centers, widening * bandwidth, max_iter, max(tol, 1e-4)).state
        runs.append(
            few.ascend(centers, bandwidth, max_iter, tol if few is problem else max(tol, 1e-4))
        )
    best = loop.best(runs, larger=True)
    return best if few is problem else problem.ascend(best.state, bandwidth, max_iter, tol)


def _one_hot(labels: Array, k: int, like: Any) -> Any:
    if is_numpy(like) or sp.issparse(like):
        return (labels[:, None] == np.arange(k)).astype(np.float64)
    xp = namespace(like)
    return xp.astype(labels[:, None] == xp.arange(k, device=like.device)[None, :], like.dtype)
