"""Dirichlet process mixtures.

Conjugate components; the number of clusters is inferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ...array.arrays import to_numpy
from ...array.memory import InputSize, reserve
from ...array.rows import Rows
from ...array.types import Array, ArrayLike, RandomState, Weights
from ...array.validation import (
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_weights,
)
from ...array.warn import warn
from ...conjugate import (
    NormalInverseWishart,
)
from ...data.features import check_features, observed_only
from ...engine import loop
from ...engine.growth import GROWTH
from ...numerics import seeding
from . import priors, sampling, seating, starts, variational
from .fitted import FittedProcess
from .kernel import Concentration

__all__ = ["DirichletProcessMixture"]

MOST = 20  # clusters by default, and GROWTH times as many at most where all of them are used


class DirichletProcessMixture(FittedProcess):
    """Mixture whose number of clusters is inferred from the data.

    Clusters come from a Dirichlet process: an object joins cluster k with chance N_k / (n - 1 +
    alpha) and opens a new one with chance alpha / (n - 1 + alpha). Each cluster has a conjugate
    prior, so its parameters are integrated out. The posterior is found by variational Bayes (fast,
    deterministic given the seed, takes weights) or by collapsed Gibbs sampling (exact up to
    simulation error: real posterior uncertainty, also of the number of clusters).

    Parameters
    ----------
    n_clusters : int or None, default=None
        Most clusters the variational form may use (truncation); ``None`` means 20, or twice and
        four times as many where all are used, and never more than objects. The sampler has no such
        limit.
    component : a class or an object of ``sfumato.conjugate``, default=NormalInverseWishart
        What a cluster is: ``NormalInverseWishart`` (normal, full covariance; NaN integrated out by
        the variational form), ``NormalInverseGamma`` (normal, independent features, NaN left out),
        ``DirichletMultinomial`` (rows of counts) or ``BetaBinomial`` (yes or no, NaN left out). A
        class means a prior made from the location and spread of the data, for
        ``NormalInverseWishart`` the most probable of several; an object is the prior itself, in
        the units of the data.
    inference : {"variational", "gibbs"}, default="variational"
        How the posterior is found.
    concentration : (float, float) or float, default=(1.0, 1.0)
        Shape and rate of the gamma prior on alpha, which is then learnt; or a fixed alpha.
    burn_in : int, default=200
        Sweeps of each chain that are thrown away.
    n_draws : int, default=100
        Partitions kept from each chain.
    thinning : int, default=2
        Sweeps between two kept partitions.
    n_init : int, default=4
        Variational starts, of which the best is kept; or chains of the sampler, which are pooled.
    max_iter : int, default=500
        Most variational iterations from one start.
    tol : float, default=1e-5
        The variational form stops when the bound rises by less than this per unit of weight.
    random_state : int, RandomState, Generator or None, default=None
    n_jobs : int or None, default=None
        Threads; ``None`` means every core.

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
        Posterior predictive memberships; from the sampler, memberships whose products match the
        co-occurrence over all draws.
    labels_ : array of shape (n,)
    n_clusters_ : int
        Clusters in use; from the sampler, the most frequent number, less the clusters that have no
        object's largest membership.
    n_clusters_posterior_ : array
        Probability of 0, 1, 2, ... clusters.
    objective_, history_ : float, array
        Lower bound of the log evidence (variational); largest log joint of a draw so far (sampler).
    n_iter_, converged_ : int, bool
    weights_ : array of shape (n_clusters,)
        Mean membership of each cluster.
    components_ : object of ``sfumato.conjugate``
        Posteriors of the clusters (variational only), one for each leading index.
    prior_ : object of ``sfumato.conjugate``
        The prior that was used.
    concentration_ : float
        Posterior mean of alpha.
    labelings_ : array of shape (n, n_init * n_draws)
        Sampled partitions, one per column (sampler only): evidence for ``EvidenceAccumulation``.
    log_joint_ : array of shape (n_init, n_draws)
        Log probability of each draw together with the data (sampler only).
    r_hat_ : float
        Agreement of the chains on the log joint, near 1 when they agree; infinite if ``n_draws`` is
        less than 4 (sampler only).

    References
    ----------
    .. [1] D. Blei and M. Jordan, Variational inference for Dirichlet process mixtures, Bayesian
       Analysis 1(1), 2006.
    .. [2] R. Neal, Markov chain sampling methods for Dirichlet process mixture models, JCGS 9(2),
       2000.
    .. [3] D. Dahl, Sequentially-allocated merge-split sampler for conjugate and nonconjugate
       Dirichlet process mixture models, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import DirichletProcessMixture
    >>> rng = np.random.default_rng(0)
    >>> centers = [(0, 0), (8, 8), (0, 9)]
    >>> X = np.concatenate([rng.normal(center, 1, (50, 2)) for center in centers])
    >>> model = DirichletProcessMixture(random_state=0).fit(X)
    >>> model.n_clusters_, model.memberships_.shape
    (3, (150, 3))
    """

    chooses_n_clusters = "always"

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature."""
        return True

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        component: Any = NormalInverseWishart,
        inference: str = "variational",
        concentration: float | tuple[float, float] = (1.0, 1.0),
        burn_in: int = 200,
        n_draws: int = 100,
        thinning: int = 2,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-5,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.component, self.concentration = component, concentration
        self.inference = inference
        self.burn_in, self.n_draws, self.thinning = burn_in, n_draws, thinning
        self.n_jobs = n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @observed_only
    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> DirichletProcessMixture:
        """Learn clusters and their number.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features; NaN where missing, for normal components and ``BetaBinomial``. With
            ``NormalInverseWishart`` the variational form takes it, the sampler does not.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object. Only with ``inference="variational"``.

        Returns
        -------
        self
        """
        self._forget()
        prior = self._check_parameters()
        self._check_room(X)
        try:
            X, rows, component = self._prepare(X, sample_weight, prior)
        except (ValueError, TypeError):
            self._forget()
            raise
        seeds = as_generator(self.random_state).integers(2**63, size=self.n_init)
        run = (self._sample if self.inference == "gibbs" else self._approximate)(
            component, rows, prior, seeds
        )
        memberships = self._memberships(X)
        self.weights_ = _mean(memberships, rows.columns[0])
        self._publish(memberships, run)
        if self.n_clusters_ == 1:
            warn("one cluster explains the data best: the memberships are all equal")
        return self

    def _prepare(
        self, X: Any, sample_weight: ArrayLike | None, prior: Concentration
    ) -> tuple[Any, Rows, Any]:
        """Checked features, their rows with weights, and the component with its prior."""
        X = check_features(self, X, reset=True, missing=True)
        self._refuse_missing(X)
        with np.errstate(over="ignore"):
            weights = check_weights(sample_weight, X)
        priors.check_copies(weights)
        rows = Rows(X, weights, n_jobs=self.n_jobs)
        if self.n_clusters is not None:
            check_n_clusters(self.n_clusters, X.shape[0])
        if self.inference == "gibbs" and rows.columns[0] is not None:
            raise ValueError(
                "sample_weight needs inference='variational': the sampler moves whole objects"
            )
        given = self.component
        self.prior_ = priors.default_prior(given, rows) if isinstance(given, type) else given
        component = priors.build(self.prior_, rows)
        priors.check_prior(component)
        priors.check_counts(component, X)
        if isinstance(given, type):
            chosen = starts.most_probable(priors.candidates(component), rows, prior.mean)
            self.prior_ = self.prior_ if chosen is component else priors.of(chosen)
            component = chosen
        return X, rows, component

    def _approximate(
        self, component: Any, rows: Rows, prior: Concentration, seeds: np.ndarray
    ) -> loop.Run:
        most = min(GROWTH * MOST, rows.shape[0]) if self.n_clusters is None else self.n_clusters
        k = min(MOST, most) if self.n_clusters is None else most
        while True:
            run = variational.best_run(component, rows, k, prior, seeds, self.max_iter, self.tol)
            self._posterior, self.n_clusters_posterior_ = variational.approximate(
                component, rows, run.state
            )
            if len(self._posterior.used) < k or k == most:
                break
            k = min(2 * k, most)
        self.components_ = priors.publish(component, run.state.sums[self._posterior.used])
        self.concentration_ = run.state.concentration.mean
        base = rows.sum(
            lambda block, weights: (
                _weighted(component.log_base(component.features(block)), weights),
            )
        )[0]
        return run._replace(history=run.history + base, objective=run.objective + base)

    def _sample(
        self, component: Any, rows: Rows, prior: Concentration, seeds: np.ndarray
    ) -> loop.Run:
        X = rows.X if sp.issparse(rows.X) else to_numpy(rows.X)
        q = component.features(X[:1]).shape[0]
        reserve(
            (2, q, X.shape[0]),
            np.float64,
            "the features of all objects",
            "set inference='variational', or component=NormalInverseGamma",
        )
        Z = component.features(X)
        order = seeding.sort(
            seating.points(component, Z), None
        )  # so that the order of the objects does not matter
        Z = Z[:, order]
        trace = sampling.run_chains(
            component, Z, prior, seeds, self.burn_in, self.n_draws, self.thinning, self.n_jobs
        )
        counts = np.bincount(trace.labelings.max(axis=0) + 1)
        self.n_clusters_posterior_ = counts / counts.sum()
        U = sampling.consensus(trace.labelings, int(counts.argmax()))
        self._posterior = sampling.Posterior.of(component, Z, trace, U)
        self.labelings_, self.concentration_ = (
            trace.labelings[np.argsort(order)],
            float(trace.concentrations.mean()),
        )
        self.r_hat_ = sampling.split_r_hat(trace.log_joint)
        self.log_joint_ = trace.log_joint + float(np.sum(component.log_base(Z)))
        history = np.maximum.accumulate(self.log_joint_.ravel())
        if self.n_draws < 4:
            message = (
                f"n_draws={self.n_draws} cannot tell whether the chains agree, r_hat_ needs 4: "
                "raise n_draws"
            )
            warn(message, ConvergenceWarning)
        elif not self.r_hat_ < 1.2:
            warn(
                f"the chains do not agree (r_hat_={self.r_hat_:.2f}): raise burn_in or n_draws",
                ConvergenceWarning,
            )
        return loop.Run(
            None,
            history[-1],
            history,
            self.n_init * (self.burn_in + self.n_draws * self.thinning),
            True,
        )

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        drawn = 12 * size.n * self.n_init * self.n_draws if self.inference == "gibbs" else 0
        return super()._memory_needed(size) | {
            "memberships": size.n * size.itemsize,
            "labels of all draws": drawn,
        }

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        if self.inference == "gibbs":
            yield "set inference='variational'", sum(super()._memory_needed(size).values())
        yield from super()._smaller_alternatives(size)

    def _check_parameters(self) -> Concentration:
        """Check what ``__init__`` stored; the prior of alpha."""
        self._check_loop_parameters()
        for name, low in (("burn_in", 0), ("n_draws", 1), ("thinning", 1)):
            check_number(getattr(self, name), name, low=low, integer=True)
        check_choice(self.inference, "inference", ("variational", "gibbs"))
        if self._kind() not in priors.KINDS:
            names = ", ".join(k.__name__ for k in priors.KINDS)
            raise ValueError(
                f"component must be one of {names} of sfumato.conjugate, or an object of it, got "
                f"{self.component!r}"
            )
        return priors.check_concentration(self.concentration)


def _weighted(values: Array, weights: Array) -> float:
    return float(values.sum() if weights is None else (values * weights).sum())


def _mean(memberships: ArrayLike, weights: Weights) -> np.ndarray:
    return np.average(
        to_numpy(memberships), axis=0, weights=None if weights is None else to_numpy(weights)
    )
