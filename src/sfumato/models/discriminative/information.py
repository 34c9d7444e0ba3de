"""Regularised information maximisation: clusters that a classifier predicts with confidence (Gomes,
Krause and Perona 2010).

With  p_k(x) = exp(w_k'x + b_k) / Z(x)  for objects of weight v(x), sum v(x) = 1, and sizes
q_k = sum_x v(x) p_k(x):

    maximise  I - R = sum_x v(x) sum_k p_k(x) log(p_k(x) / q_k)  -  penalty sum_k |w_k|^2

    dI/da_k(x) = v(x) p_k(x) [l_k(x) - sum_j p_j(x) l_j(x)],   a = w'x + b,  l = log(p / q)

The information between objects and clusters is large where borders run through few objects and
sizes are equal. With a kernel instead of x'y, the x are its coordinates, F F' = K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.arrays import as_dense, asarray_like, to_numpy
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import ArrayLike, RandomState
from ...array.validation import (
    check_choice,
    check_number,
    check_weights,
)
from ...data.features import check_features, refuse_tensors
from ...engine import loop
from ...engine.base import InductiveClusterer, weight_of
from ...engine.kernel_space import KernelSpace
from ...numerics import seeding
from ...numerics.distances import Coordinates, largest_first, measure
from ...numerics.simplex import softmax
from ...selection.automatic import AutomaticClusters
from .problem import climb

__all__ = ["InformationMaximization"]


def memberships(F: Any, V: np.ndarray) -> Any:
    """p (n, k) of rows (n, r), sparse or dense; the last column of ``V`` are the constants."""
    W, b = (asarray_like(part, F) for part in (V[:, :-1].T, V[:, -1]))
    return softmax(F @ W + b)[0]


class Objective(NamedTuple):
    """The information of the rows per unit of weight, minus the penalty on the weights."""

    rows: Rows
    penalty: float
    total: float

    def sizes(self, V: np.ndarray) -> np.ndarray:
        """q (k,)."""

        def block(F: Any, weights: Any) -> tuple[np.ndarray]:
            U = to_numpy(memberships(F, V)).astype(np.float64)
            return (U.sum(axis=0) if weights is None else to_numpy(weights) @ U,)

        return self.rows.sum(block)[0] / self.total

    def value_and_slope(self, V: np.ndarray) -> tuple[float, np.ndarray]:
        """I - R at weights and constants ``V`` (k, r + 1), and its derivative."""
        log_sizes = np.log(np.maximum(self.sizes(V), np.finfo(float).tiny))

        def block(F: Any, weights: Any) -> tuple[float, np.ndarray]:
            P = to_numpy(memberships(F, V)).astype(np.float64)
            L = np.log(np.maximum(P, np.finfo(float).tiny)) - log_sizes
            own = (P * L).sum(axis=1)
            w = np.ones(len(P)) if weights is None else to_numpy(weights)
            G = P * (L - own[:, None]) * w[:, None]
            F = F if sp.issparse(F) else to_numpy(F)
            return float(w @ own), np.column_stack([(F.T @ G).T, G.sum(axis=0)])

        information, slope = self.rows.sum(block)
        slope = slope / self.total
        slope[:, :-1] -= 2.0 * self.penalty * V[:, :-1]
        return information / self.total - self.penalty * float(np.sum(V[:, :-1] ** 2)), slope


@documented
class InformationMaximization(AutomaticClusters, InductiveClusterer):
    """Clusters that a classifier predicts with confidence: clear borders, similar sizes.

    The unsupervised sibling of ``DiscriminativeClustering``: a logistic regression with unknown
    classes, whose predictions carry as much information about the objects as possible, minus a
    penalty on the weights [1]_. Borders run where there are few objects.

    Parameters
    ----------
    %(automatic)s
        Clusters that add no information become empty.
    kernel : "linear", "gaussian" or function, default="linear"
        Borders are planes in the features, each of variance one, or in the space of a kernel
        ``f(X, Y)``, which takes an n x n matrix. The bandwidth of ``"gaussian"`` is 0.4 times the
        root mean square distance of the objects to their mean.
    penalty : float, default=0.003
        Cost of a squared weight in nats, in units in which features (or the leading direction of
        the kernel's space) have variance one. Larger values make memberships softer and empty more
        clusters.
    n_init : int, default=4
        Starts from k-means; the best is kept.
    max_iter, tol : int, float
        Iterations of L-BFGS at most, and the change of the objective at which to stop.
    random_state : int, RandomState, Generator or None, default=None
        Random seed.

    Attributes
    ----------
    weights_ : array of shape (n_clusters,)
        Mean memberships, the largest first.
    coef_, intercept_ : arrays of shape (n_clusters, p) and (n_clusters,)
        Weights and constants in the units of the data; with ``kernel="linear"`` only.
    information_ : float
        Information between objects and clusters, in nats.
    memberships_, labels_, n_clusters_, objective_, history_, n_iter_, converged_
        As in every estimator; the objective, the information minus the penalty, is maximised.

    References
    ----------
    .. [1] Gomes, Krause and Perona, Regularized information maximization, NIPS, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import InformationMaximization
    >>> X = np.array([[0.0, 0.0], [0.2, 0.1], [0.1, 0.3], [4.0, 4.1], [4.2, 3.9]])
    >>> model = InformationMaximization(2, random_state=0).fit(X)
    >>> model.labels_
    array([0, 0, 0, 1, 1])
    >>> bool(model.information_ > 0.6)
    True
    """

    _space: KernelSpace | None
    _coordinates: Coordinates
    _unit: float
    _state: np.ndarray
    may_empty_clusters = True
    _larger = True

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = "auto",
        *,
        max_clusters: int = 20,
        kernel: str | Callable[..., Any] = "linear",
        penalty: float = 0.003,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters, self.kernel, self.penalty = max_clusters, kernel, penalty
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @property
    def unit_free(self) -> bool:
        """Whether the answer does not depend on the units of the features."""
        return self._linear

    @property
    def _linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def _streams(self) -> bool:  # type: ignore[override]
        return self._linear

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice(self.kernel, "kernel (a name or f(X, Y))", ("linear", "gaussian"))
        check_number(self.penalty, "penalty", low=0, high=1e12)

    def _prepare(self, X: Any, sample_weight: ArrayLike | None) -> Rows:
        """Rows in the coordinates of the fit, which are learnt here."""
        X = check_features(self, X, reset=True)
        weights = check_weights(sample_weight, X)
        self._space, self._unit = None, 1.0
        if self._linear:
            plain = Rows(X, weights)
            sparse = sp.issparse(X)
            self._coordinates = measure(plain, per_feature=True, mix=False, centre=not sparse)
            return Rows(X, weights, view=self._coordinates.inner)
        refuse_tensors(self, X)
        self._space, F = KernelSpace.of(X, self.kernel, "kernel", 0.4)
        self._coordinates = measure(Rows(F, weights), per_feature=False, mix=False)
        Z, w = self._coordinates.inner(F), np.ones(len(F)) if weights is None else weights
        # A border needs weights of about one along the leading direction.
        leading = float(np.linalg.norm(Z * np.sqrt(w / w.sum())[:, None], 2))
        self._unit = 1.0 / (leading if leading > 0 else 1.0)
        return Rows(Z * self._unit, weights)

    def _rows(self, X: Any, *columns: Any) -> Rows:
        def view(block: Any) -> Any:
            dtype = block.dtype
            block = block if self._space is None else self._space(block)[0].astype(dtype)
            return self._coordinates.inner(block) * self._unit

        return Rows(X, *columns, view=view)

    def _start(self, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """Weights and constants (k, r + 1) for round clusters around k-means centers."""
        k = self.n_clusters
        X, weights, _ = seeding.sorted_sample(rows, max(2000, 100 * k), rng, features=as_dense)
        labels = seeding.lloyd(X, weights, seeding.kmeans_plus_plus(X, weights, k, rng), 50)
        share = (labels == np.arange(k)[:, None]) * weights
        mass = share.sum(axis=1, keepdims=True)
        centers = (share @ X) / np.where(mass > 0, mass, 1.0)
        squares = np.sum(centers**2, axis=1)
        rest = float(weights @ np.sum((X - centers[labels]) ** 2, axis=1)) / weights.sum()
        # With too steep weights all memberships saturate, and the gradient vanishes.
        spread = max(rest / X.shape[1], squares.mean() / 4.0) or 1.0
        return np.column_stack([centers, -0.5 * squares]) / spread

    def _run(self, rows: Rows, state: np.ndarray, total: float) -> loop.Run:
        objective = Objective(rows, self.penalty, total)
        return climb(objective.value_and_slope, state, 1.0, self.max_iter, self.tol)

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        sizes = Objective(rows, self.penalty, weight_of(rows)).sizes(run.state)
        order = largest_first(sizes, run.state)
        self._state, self.weights_ = run.state[order], sizes[order]
        W, b = self._state[:, :-1], self._state[:, -1]
        self.information_ = run.objective + self.penalty * float(np.sum(W**2))
        if self._space is None:
            self.coef_ = W * self._coordinates.scale
            self.intercept_ = b - self.coef_ @ self._coordinates.shift
        self._publish(self._memberships(rows, self._state), run)

    _assign = staticmethod(memberships)  # type: ignore[assignment]

    def _objective(self, rows: Rows, ready: np.ndarray) -> float:
        total = weight_of(rows)
        return total * Objective(rows, self.penalty, total).value_and_slope(ready)[0]
