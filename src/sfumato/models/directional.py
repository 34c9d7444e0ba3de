"""Mixtures of von Mises-Fisher distributions: clusters of directions.

    maximise  sum_i w_i log sum_j pi_j C(kappa_j) exp(kappa_j m_j'x_i),    |x_i| = |m_j| = 1

    log C(kappa) = v log kappa - (v + 1) log 2 pi - log I_v(kappa),        v = d / 2 - 1

A step needs the masses N_j and the sums s_j = sum_i r_ij x_i only: m_j is the direction of s_j, and
kappa_j solves  I_{v+1}(kappa) / I_v(kappa) = |s_j| / N_j  (Banerjee, Dhillon, Ghosh and Sra 2005).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, ive
from scipy.stats import vonmises_fisher

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.rows import Rows
from ..array.types import Array, ArrayLike, RandomState, Weights
from ..array.validation import check_weights
from ..array.warn import warn
from ..engine import loop
from ..engine.base import weight_of
from ..engine.mixture_base import DensityMixture
from ..numerics import seeding
from ..numerics.distances import columns_or_given, unit_rows
from ..selection.automatic import AutomaticMixture

__all__ = ["DirectionalMixture"]

SAMPLE = 4096  # directions that a start looks at
LARGE_ORDER = 50.0  # of the Bessel function: beyond, Debye's expansion is exact to 1e-9
# Least 1 - |mean direction| of a cluster. Equal directions would have an infinite concentration.
LEAST_SPREAD = 1e-6


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
    if order > LARGE_ORDER:  # Debye's uniform expansion (Abramowitz and Stegun 9.7.7)
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
    usual = square > 1e-8  # of the power series the next term is below its square
    safe = np.where(usual, x, 1.0)
    return np.where(usual, np.log(ive(order, safe)) + safe - order * np.log(safe), small)


def mean_length(d: int, concentrations: np.ndarray) -> np.ndarray:
    """|E x| = I_{v+1} / I_v (k,) of directions with these concentrations."""
    v = d / 2.0 - 1.0
    return concentrations * np.exp(
        log_bessel(v + 1, concentrations) - log_bessel(v, concentrations)
    )


def concentration_of(d: int, length: np.ndarray) -> np.ndarray:
    """Concentrations (k,) whose mean directions have these lengths: Newton steps (Sra 2012) from
    the approximation of Banerjee and others.
    """
    r = np.clip(length, 1e-8, 1.0 - LEAST_SPREAD)
    found = r * (d - r * r) / (1.0 - r * r)
    for _ in range(4):
        ratio = mean_length(d, found)
        slope = 1.0 - ratio * ratio - (d - 1.0) / found * ratio
        step = np.where(slope > 0, (ratio - r) / np.where(slope > 0, slope, 1.0), 0.0)
        found = np.clip(found - step, 0.5 * found, 2.0 * found)
    return found


def log_constant(d: int, concentrations: np.ndarray) -> np.ndarray:
    """log C(kappa) (k,)."""
    return -0.5 * d * np.log(2.0 * np.pi) - log_bessel(d / 2.0 - 1.0, concentrations)


def directions(X: Any) -> np.ndarray:
    """Rows scaled to length one, in float64; a row of zeros or without any value becomes zeros."""
    return unit_rows(np.nan_to_num(to_numpy(X).astype(np.float64)))


@documented
class DirectionalMixture(AutomaticMixture, DensityMixture):
    """Posterior probabilities of clusters of directions: only the angles between objects count.

    A mixture of von Mises-Fisher distributions [1]_ on the unit sphere, for embeddings of texts and
    images, normalised profiles and compass directions. Rows are scaled to length one.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        Number of clusters; of several the best by ``criterion``. ``"auto"`` tries 1 to
        ``max_clusters``, and more while the best is the largest one tried.
    shared_concentration : bool, default=False
        Whether all clusters are equally wide.
    max_clusters : int, default=9
        Largest number that "auto" tries at first; four times as many at most.
    criterion : {"bic", "icl", "aic"}, default="bic"
        How to choose the number of clusters.
    n_init : int, default=4
        Number of starts; the best two after a few steps go on to the end.
    max_iter : int, default=1000
        Most steps of a run.
    tol : float, default=1e-6
        A run stops when a step raises the log-likelihood per object by less than this.
    %(seed_and_threads)s

    Attributes
    ----------
    %(posterior)s
    means_ : array of shape (n_clusters, p)
        Mean directions, of length one.
    concentrations_ : array of shape (n_clusters,)
        Concentrations kappa: 0 is uniform on the sphere, large is narrow.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood of the fitted objects on the sphere; ``history_`` at every step.
    %(ended)s

    References
    ----------
    .. [1] A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, Clustering on the unit hypersphere using
       von Mises-Fisher distributions, JMLR 6, 2005.

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

    _draft_steps = 10
    _finalists = 2

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
        n_jobs: int | None = None,
    ) -> None:
        self.shared_concentration = shared_concentration
        self.max_clusters, self.criterion, self.n_jobs = max_clusters, criterion, n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.shared_concentration, (bool, np.bool_)):
            raise TypeError(
                f"shared_concentration must be True or False, got {self.shared_concentration!r}"
            )

    def _read(self, X: Any, *, reset: bool) -> Any:
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

    def _prepare(self, X: Array, sample_weight: ArrayLike | None) -> Rows:
        X = self._read(X, reset=True)
        rows = self._rows(X, check_weights(sample_weight, X)).kept()
        zero = rows.sum(lambda block, *_: (int((block == 0).all(axis=1).sum()),))[0]
        if zero:
            warn(
                f"{zero} objects are zero in every feature and have no direction: their "
                "memberships say only how large and how wide the clusters are"
            )
        return rows

    def _rows(self, X: ArrayLike, *columns: Any) -> Rows:
        return Rows(X, *columns, n_jobs=self.n_jobs, view=directions)

    def _structure_evidence(self, evidence: Any) -> tuple[Any, str]:
        X, kind = super()._structure_evidence(evidence)
        return (None if X is None else directions(X)), kind

    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> State:
        """Mean directions of the clusters of a short k-means run."""
        X, weights, _ = seeding.sorted_sample(rows, SAMPLE, rng)
        k = self._setting["n_clusters"]
        labels = seeding.kmeans(X, weights, k, rng)
        R = (labels == np.arange(k)[:, None]) * weights
        return self._update(Stats(R.sum(axis=1), R @ X, 0.0), None)

    def _summarize(
        self, block: Array, weights: Weights, state: State, given: Weights = None
    ) -> Stats:
        X = np.asarray(block)
        R, level = columns_or_given(self._logits(X, state), given)
        if weights is not None:
            R, level = R * weights, level * weights
        return Stats(R.sum(axis=1), R @ X, float(level.sum()))

    def _update(self, stats: Stats, state: Any) -> State:
        mass, d = np.maximum(stats.mass, 1e-300), stats.total.shape[1]
        length = np.linalg.norm(stats.total, axis=1)
        means = stats.total / np.maximum(length, 1e-300)[:, None]
        if self.shared_concentration:
            length = mass * (length.sum() / mass.sum())
        return State(mass / mass.sum(), means, concentration_of(d, length / mass))

    def _logits(self, block: Array, ready: State) -> np.ndarray:
        X = np.asarray(block)
        constant = np.log(ready.weights) + log_constant(X.shape[1], ready.concentrations)
        return constant[:, None] + (ready.concentrations[:, None] * ready.means) @ X.T

    def _is_sound(self, rows: Rows, state: State) -> bool:
        """A concentration of its own needs more than one direction."""
        return bool(state.weights.min() * weight_of(rows) >= 1.5)

    def _n_parameters(self) -> int:
        k = self._setting["n_clusters"]
        return k - 1 + k * (self.n_features_in_ - 1) + (1 if self.shared_concentration else k)

    def _ordered(self, run: loop.Run) -> loop.Run:
        order = np.argsort(-run.state.weights, kind="stable")
        return run._replace(state=State(*(part[order] for part in run.state)))

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        self.weights_, self.means_, self.concentrations_ = run.state

    def _draw(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = np.empty((len(labels), self.n_features_in_))
        for j in np.unique(labels):
            of = vonmises_fisher(self.means_[j], self.concentrations_[j])
            X[labels == j] = of.rvs(int((labels == j).sum()), random_state=rng)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags
