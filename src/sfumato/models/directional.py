"""Mixtures of von Mises-Fisher distributions: clusters of directions.

    maximise  sum_i w_i log sum_j pi_j C(kappa_j) exp(kappa_j m_j'x_i),    |x_i| = |m_j| = 1

    log C(kappa) = v log kappa - (v + 1) log 2 pi - log I_v(kappa),        v = d / 2 - 1

A step needs only the masses N_j and the sums s_j = sum_i r_ij x_i: m_j is the direction of s_j, and
kappa_j solves I_{v+1}(kappa) / I_v(kappa) = |s_j| / N_j (Banerjee, Dhillon, Ghosh and Sra 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, ive
from scipy.stats import vonmises_fisher

from ..array.arrays import as_dense
from ..array.docs import documented
from ..array.rows import Rows
from ..array.types import Array, RandomState, Weights
from ..array.warn import warn
from ..engine.component import Component
from ..engine.mixture import Mixture
from ..engine.search import Objects, Plan
from ..numerics import seeding
from ..numerics.distances import unit_rows, weighted_columns
from ..numerics.seeding import SCREEN, Sample
from ..selection.automatic import AutomaticMixture

__all__ = ["DirectionalMixture"]


class State(NamedTuple):
    """Weights (k,), mean directions (k, d), concentrations (k,)."""

    weights: np.ndarray
    means: np.ndarray
    concentrations: np.ndarray


class Stats(NamedTuple):
    """N (k,), sums of directions (k, d), log-likelihood."""

    mass: np.ndarray
    total: np.ndarray
    objective: float


def log_bessel(order: float, x: Any) -> Any:
    """log I_order(x) - order log x  for x > 0, without overflow or underflow."""
    x = np.asarray(x, dtype=np.float64)
    if order > 50.0:  # Debye's uniform expansion (Abramowitz and Stegun 9.7.7), accurate to 1e-9
        t = x / order
        root = np.hypot(1.0, t)
        p, exponent = 1.0 / root, order * (root - np.log((1.0 + root) * order))
        first = (3.0 * p - 5.0 * p**3) / 24.0
        second = (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / 1152.0
        third = (30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9) / 414720.0
        more = np.log1p(first / order + second / order**2 + third / order**3)
        return exponent - 0.5 * np.log(2.0 * np.pi * order * root) + more
    square = 0.25 * x * x / (order + 1.0)
    small = -order * np.log(2.0) - gammaln(order + 1.0) + np.log1p(square)
    usual = square > 1e-8  # else the power series, whose next term is below its square
    safe = np.where(usual, x, 1.0)
    return np.where(usual, np.log(ive(order, safe)) + safe - order * np.log(safe), small)


def mean_length(d: int, concentrations: np.ndarray) -> np.ndarray:
    """Mean lengths |E x| = I_{v+1} / I_v (k,) of directions with these concentrations."""
    v = d / 2.0 - 1.0
    return concentrations * np.exp(
        log_bessel(v + 1, concentrations) - log_bessel(v, concentrations)
    )


def concentration_of(d: int, length: np.ndarray) -> np.ndarray:
    """Concentrations (k,) whose mean directions have these lengths: Newton steps (Sra 2012) from
    the approximation of Banerjee and others."""
    r = np.clip(length, 1e-8, 1.0 - 1e-6)  # equal directions would have an infinite concentration
    found = r * (d - r * r) / (1.0 - r * r)
    for _ in range(4):
        ratio = mean_length(d, found)
        slope = 1.0 - ratio * ratio - (d - 1.0) / found * ratio
        step = np.where(slope > 0, (ratio - r) / np.where(slope > 0, slope, 1.0), 0.0)
        found = np.clip(found - step, 0.5 * found, 2.0 * found)
    return found


def directions(X: Array) -> np.ndarray:
    """Rows scaled to length one, in float64; rows of zeros or without any value become zeros."""
    return unit_rows(np.nan_to_num(as_dense(X, np.float64)))


@dataclass(frozen=True, eq=False)
class Directions(Component):
    """Clusters of directions in ``n_features`` dimensions, with common or separate kappa."""

    n_clusters: int
    n_features: int
    shared: bool

    @property
    def setting(self) -> dict[str, Any]:
        """The number of clusters."""
        return {"n_clusters": self.n_clusters}

    def rows(self, X: Array, *columns: Any) -> Rows:
        """Rows scaled to length one."""
        return Rows(X, *columns, view=directions)

    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> State:
        """State with the mean directions of groups."""
        return self.update(Stats(R.sum(axis=1), R @ X, 0.0), None)

    def logits(self, block: Array, ready: State) -> np.ndarray:
        """Log-densities of directions."""
        X = np.asarray(block)
        d, kappa = self.n_features, ready.concentrations
        log_C = -0.5 * d * np.log(2.0 * np.pi) - log_bessel(d / 2.0 - 1.0, kappa)
        constant = np.log(ready.weights) + log_C
        return constant[:, None] + (kappa[:, None] * ready.means) @ X.T

    def summarize(
        self, block: Array, weights: Weights, ready: State, given: Weights = None
    ) -> Stats:
        """Masses and sums of directions."""
        X = np.asarray(block)
        R, level = weighted_columns(self.logits(X, ready), weights, given)
        return Stats(R.sum(axis=1), R @ X, float(level.sum()))

    def update(self, stats: Stats, state: State | None) -> State:
        """State with the directions and lengths of the sums."""
        mass = np.maximum(stats.mass, 1e-300)
        length = np.linalg.norm(stats.total, axis=1)
        means = stats.total / np.maximum(length, 1e-300)[:, None]
        wanted = length.sum(keepdims=True) / mass.sum() if self.shared else length / mass
        found = np.broadcast_to(concentration_of(self.n_features, wanted), mass.shape)
        return State(mass / mass.sum(), means, found)

    def n_parameters(self) -> int:
        """Weights, directions and concentrations."""
        k = self.n_clusters
        return k - 1 + k * (self.n_features - 1) + (1 if self.shared else k)

    def failure(self, state: State, count: float) -> str:
        """Reason to give up: a separate concentration needs more than one direction."""
        few = bool(state.weights.min() * count < 1.5)
        return "a cluster holds a single direction" if few else ""

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One direction from the cluster of each label."""
        X = np.empty((len(labels), self.n_features))
        for j in np.unique(labels):
            of = vonmises_fisher(state.means[j], state.concentrations[j])
            X[labels == j] = of.rvs(int((labels == j).sum()), random_state=rng)
        return X


@documented
class DirectionalMixture(AutomaticMixture, Mixture):
    """Posterior probabilities of clusters of directions: only the angles between objects matter.

    A mixture of von Mises-Fisher distributions [1]_ on the unit sphere, for embeddings of texts and
    images, normalised profiles and compass directions. Rows are scaled to length one.

    Parameters
    ----------
    %(mixture_numbers)s
    shared_concentration : bool, default=False
        Whether all clusters have the same concentration.
    %(mixture_loop)s

    Attributes
    ----------
    %(posterior)s
    means_ : array of shape (n_clusters, p)
        Mean directions, of length one.
    concentrations_ : array of shape (n_clusters,)
        Concentrations kappa: 0 means uniform on the sphere, large values mean narrow clusters.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood of the fitted objects on the sphere; ``history_`` at every step.
    %(ended)s

    References
    ----------
    .. [1] Banerjee, Dhillon, Ghosh and Sra, Clustering on the unit hypersphere, JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import DirectionalMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[4.0, 0, 0], [0, 4, 0]], 50, axis=0) + rng.normal(size=(100, 3))
    >>> model = DirectionalMixture(2, random_state=0).fit(X)
    >>> np.bincount(model.labels_).tolist()
    [50, 50]
    """

    _missing = False

    def __init__(
        self,
        n_clusters: Any = "auto",
        *,
        shared_concentration: bool = False,
        max_clusters: int = 9,
        criterion: str = "bic",
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.shared_concentration = shared_concentration
        self.max_clusters, self.criterion = max_clusters, criterion
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.shared_concentration, (bool, np.bool_)):
            raise TypeError(
                f"shared_concentration must be True or False, got {self.shared_concentration!r}"
            )

    def _read(self, X: Array, *, reset: bool) -> Any:
        X = super()._read(X, reset=reset)
        if X.shape[1] < 2:
            raise ValueError(
                "X must have at least two features, got n_features=1: give DirectionalMixture "
                "vectors, whose directions differ"
            )
        seen = ~np.isnan(X) if isinstance(X, np.ndarray) else np.ones((1, 1), dtype=bool)
        if (seen.any(axis=1) != seen.all(axis=1)).any():
            raise ValueError(
                "X contains NaN in some features of an object, which then has no direction: drop "
                "such objects or fill them in; GaussianMixture and FactorMixture integrate them out"
            )
        return X

    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        rows = Directions(1, data.X.shape[1], True).rows(data.X, data.weights)
        zero = rows.sum(lambda block, *_: (int((block == 0).all(axis=1).sum()),))[0]
        if zero:
            warn(
                f"{zero} objects are zero in every feature and have no direction: their "
                "memberships only depend on the sizes and widths of the clusters"
            )

        def components(k: int) -> list[Component]:
            return [Directions(k, data.X.shape[1], bool(self.shared_concentration))]

        def sample(few: Objects) -> Sample:
            rows = Rows(few.X, few.weights, view=directions)
            X, weights, _ = seeding.sorted_sample(rows, SCREEN, np.random.default_rng(0))
            return Sample(X, weights, [X])

        return self._planned(components, sample, seed, fixed)

    def _structure_evidence(self, evidence: Any) -> tuple[Any, str]:
        X, kind = super()._structure_evidence(evidence)
        return (None if X is None else directions(X)), kind

    def _publish_parameters(self) -> None:
        self.weights_, self.means_, self.concentrations_ = self._state
