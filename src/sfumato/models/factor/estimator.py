"""The mixture of factor analyzers as an estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import Array, RandomState, Weights
from ...array.validation import check_choice, check_number
from ...array.warn import warn
from ...engine import loop
from ...engine.base import weight_of
from ...engine.mixture_features import FeatureMixture
from ...numerics import seeding
from ...selection.automatic import AutomaticMixture
from . import kernel, missing, starts

__all__ = ["FactorMixture"]

SAMPLE = 2048  # size of the sample for the starts
MOST_FACTORS = 6  # that "auto" tries
DEFAULT = 2  # factors, which need not be set for a table of few features


@documented
class FactorMixture(AutomaticMixture, FeatureMixture):
    """Posterior probabilities of Gaussian clusters in many features.

    Mixture of factor analyzers [1]_ [2]_: within a cluster features are correlated through a few
    factors, ``Sigma = L L' + Psi`` with ``L`` of ``n_factors`` columns and ``Psi`` diagonal. The
    number of parameters grows with the number of features, not with its square, and no p x p matrix
    is ever formed. Missing values (NaN) are integrated out.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        Number of clusters; of several the best by ``criterion``. ``"auto"`` tries 1 to
        ``max_clusters``, and more while the best is the largest one tried.
    n_factors : int, sequence of int or "auto", default=2
        Number of factors of every cluster; of several (``"auto"``: 1 to 6, and no more than are
        identified, the bound of Ledermann [3]_) the best by ``criterion``.
    shared_noise : bool, default=False
        Whether all clusters have the same noise variances ``Psi``.
    max_clusters : int, default=9
        Largest number that "auto" tries at first; four times as many at most.
    criterion : {"bic", "icl", "aic"}, default="bic"
        How to choose the numbers of clusters and of factors.
    reg_covar : float, default=1e-3
        Least noise variance, as a fraction of the variance of the feature.
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
        Means.
    loadings_ : array of shape (n_clusters, p, n_factors)
        Loadings ``L``, known up to a rotation of the factors.
    noise_variances_ : array of shape (n_clusters, p)
        Noise variances, the diagonals of ``Psi``.
    n_factors_ : int
        Number of factors.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood of the fitted objects; ``history_`` at every step.
    %(ended)s

    See Also
    --------
    GaussianMixture : Full covariance matrices, for few features.

    References
    ----------
    .. [1] Z. Ghahramani and G. E. Hinton, The EM algorithm for mixtures of factor analyzers,
       University of Toronto CRG-TR-96-1, 1996.
    .. [2] G. J. McLachlan and D. Peel, Mixtures of factor analyzers, ICML, 2000.
    .. [3] W. Ledermann, On the rank of the reduced correlational matrix in multiple-factor
       analysis, Psychometrika 2, 1937.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import FactorMixture
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat([0, 1], 80)
    >>> factor = rng.normal(size=(160, 1)) * rng.normal(size=(2, 30))[group]
    >>> X = factor + rng.normal(size=(160, 30)) + 1.5 * group[:, None]
    >>> model = FactorMixture(2, n_factors=1, random_state=0).fit(X)
    >>> np.bincount(model.labels_).tolist()
    [80, 80]
    >>> model.loadings_.shape
    (2, 30, 1)
    """

    _draft_steps = 10
    _finalists = 2

    def __init__(
        self,
        n_clusters: Any = "auto",
        *,
        n_factors: Any = 2,
        shared_noise: bool = False,
        max_clusters: int = 9,
        criterion: str = "bic",
        reg_covar: float = 1e-3,
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_factors, self.shared_noise, self.reg_covar = n_factors, shared_noise, reg_covar
        self.max_clusters, self.criterion = max_clusters, criterion
        self.n_jobs = n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _draw(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        state = self._state  # variances in the units of tiny data may be zero, inner ones are not
        X = rng.standard_normal((len(labels), self.n_features_in_))
        X *= np.sqrt(state.noise)[labels]
        X += state.means[labels]
        factors = rng.standard_normal((len(labels), self.n_factors_))
        for j, loadings in enumerate(state.loadings):
            X[labels == j] += factors[labels == j] @ loadings.T
        return self._coordinates.outer(X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self.reg_covar, "reg_covar", low=0.0, high=1.0, strict=True)
        if not isinstance(self.shared_noise, (bool, np.bool_)):
            raise TypeError(f"shared_noise must be True or False, got {self.shared_noise!r}")

    def _settings(self, sizes: list[int]) -> list[dict[str, Any]]:
        """All sizes with all numbers of factors, which cannot be more than the features."""
        d, wanted = self.n_features_in_, self.n_factors
        if isinstance(wanted, str):
            check_choice(wanted, "n_factors", ("auto",))
            wanted = range(1, min(MOST_FACTORS, kernel.most_factors(d)) + 1)
        several = list(wanted) if isinstance(wanted, Iterable) else [wanted]
        if not several:
            raise ValueError("n_factors is an empty sequence: give at least one number to try")
        factors = [check_number(q, "n_factors", low=1, integer=True) for q in several]
        most, bound = max(factors), kernel.most_factors(d)
        if most > max(d, DEFAULT):
            warn(f"n_factors={most} is more than the {d} features: {d} factors are fitted")
        elif most > max(bound, DEFAULT):
            warn(
                f"n_factors={most} is beyond the Ledermann bound of {bound} for {d} features: the "
                "covariances are as free as full ones; use fewer factors, or GaussianMixture"
            )
        factors = [min(d, q) for q in factors]
        return [{**s, "n_factors": q} for s in super()._settings(sizes) for q in factors]

    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> kernel.State:
        """From k-means in the units of the data and in units of every feature, in turn."""
        X, weights, _ = seeding.sorted_sample(rows, SAMPLE, rng, features=np.nan_to_num)
        k, q = self._setting["n_clusters"], self._setting["n_factors"]
        scale = self._coordinates.scale
        places = X * (scale.min() / scale) if turn % 2 == 0 else X
        labels = starts.partition(places, weights, k, rng)
        return starts.from_labels(X, weights, labels, k, q, float(self.reg_covar))

    def _is_sound(self, rows: Rows, state: kernel.State) -> bool:
        return not starts.collapsed(state, weight_of(rows))

    def _ready(self, state: kernel.State) -> kernel.Ready:
        return kernel.ready(state)

    def _summarize(
        self, block: Array, weights: Weights, state: kernel.Ready, given: Weights = None
    ) -> kernel.Stats | missing.Stats:
        if self._holes:
            return missing.summarize(np.asarray(block), weights, state.state, given)
        return kernel.summarize(np.asarray(block), weights, state, given)

    def _update(self, stats: kernel.Stats | missing.Stats, state: kernel.State) -> kernel.State:
        floor, shared = float(self.reg_covar), bool(self.shared_noise)
        if isinstance(stats, missing.Stats):
            return missing.update(stats, state, floor, shared=shared)
        return kernel.update(stats, state, floor, shared=shared)

    def _logits(self, block: Array, ready: kernel.Ready) -> np.ndarray:
        X = np.asarray(block)
        if np.isnan(X).any():
            return missing.logits(X, ready.state)
        return kernel.logits(X, ready)

    def _n_parameters(self) -> int:
        k, q = self._setting["n_clusters"], self._setting["n_factors"]
        return kernel.n_parameters(k, self.n_features_in_, q, shared=bool(self.shared_noise))

    _pack = staticmethod(kernel.pack)

    def _unpack(self, vector: np.ndarray, like: kernel.State) -> kernel.State:
        return kernel.unpack(vector, like, float(self.reg_covar))

    def _ordered(self, run: loop.Run) -> loop.Run:
        return run._replace(state=kernel.ordered(run.state))

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        state, scale = run.state, self._coordinates.scale
        self.weights_ = state.weights
        self.means_ = self._coordinates.outer(state.means)
        self.loadings_ = state.loadings / scale[:, None]
        self.noise_variances_ = state.noise / scale / scale
        self.n_factors_ = self._setting["n_factors"]
        if not self._is_sound(rows, state):
            warn(
                f"a cluster holds too few objects for {self.n_factors_} factors: ask for fewer "
                "clusters or fewer factors"
            )
