"""Dirichlet process mixtures: conjugate components, whose number is inferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import ArrayLike, RandomState
from ...array.validation import (
    InputSize,
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_weights,
    reserve,
)
from ...array.warn import warn
from ...components import conjugate as priors
from ...conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from ...data.constraints import Known
from ...data.features import check_features
from ...engine import loop
from ...engine.clusterer import Constrained, most_clusters
from ...engine.linked import LinkedRows, publish_kept
from ...engine.mixture import GROWTH
from ...numerics import seeding
from ...numerics.distances import largest_first
from . import kernel, sampling
from .kernel import Concentration

__all__ = ["DirichletProcessMixture"]


@documented
class DirichletProcessMixture(Constrained):
    """Mixture whose number of clusters is inferred from the data.

    Clusters come from a Dirichlet process: an object joins cluster k with probability N_k / (n - 1
    + alpha) and opens a new one with probability alpha / (n - 1 + alpha). The parameters of
    clusters have conjugate priors and are integrated out. The posterior is found by variational
    Bayes (fast, takes weights) or by collapsed Gibbs sampling (exact up to simulation error, with
    the uncertainty of the number of clusters).

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        ``"auto"``: the number is inferred. A number, or the largest of several, is an upper limit
        for variational inference. The sampler has no such limit.
    max_clusters : int, default=20
        Upper limit for "auto" in variational inference. If all clusters are used, twice and then
        four times as many are allowed.
    component : a class or an object of ``sfumato.conjugate``, default=NormalInverseWishart
        Distribution of a cluster: ``NormalInverseWishart`` (normal, full covariance; variational
        inference integrates missing values out), ``NormalInverseGamma`` (normal, independent
        features), ``DirichletMultinomial`` (rows of counts) or ``BetaBinomial`` (yes-or-no data).
        With a class, the prior is made from the location and spread of the data; an object is
        itself the prior, in the units of the data.
    inference : {"variational", "gibbs"}, default="variational"
        How the posterior is found. Labels, weights, links and missing values of
        ``NormalInverseWishart`` need the first.
    concentration : (float, float) or float, default=(1.0, 1.0)
        Shape and rate of the gamma prior on alpha, or a fixed alpha.
    burn_in, n_draws : int, default=200
        Discarded sweeps of each chain, and partitions kept from it, one per sweep.
    n_init : int, default=4
        Number of variational starts, of which the best is kept, or of chains, which are pooled.
    max_iter, tol : int, float
        Variational iterations per start at most, and the rise of the bound per unit of weight at
        which to stop.
    random_state : int, RandomState, Generator or None, default=None
        Random seed.

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
        Posterior predictive memberships; for the sampler, memberships whose products match the
        co-occurrence over all draws.
    n_clusters_ : int
        Clusters in use; for the sampler, the most frequent number.
    n_clusters_posterior_ : array
        Probability of 0, 1, 2, ... clusters.
    objective_, history_ : float, array
        Lower bound of the log marginal likelihood (variational); largest log joint (sampler).
    labels_, n_iter_, converged_
        As in every estimator.
    weights_ : array of shape (n_clusters,)
        Mean membership of each cluster.
    components_ : object of ``sfumato.conjugate``
        Posteriors of the clusters (variational only), one for each leading index.
    prior_ : object of ``sfumato.conjugate``
        The prior that was used.
    concentration_ : float
        Posterior mean of alpha.
    labelings_ : array of shape (n, n_init * n_draws)
        Sampled partitions, one per column (this and what follows with the sampler only).
    log_joint_ : array of shape (n_init, n_draws)
        Log probability of each draw together with the data.
    r_hat_ : float
        Split R-hat of the log joint: near 1 if the chains agree.

    References
    ----------
    .. [1] Blei and Jordan, Variational inference for Dirichlet process mixtures, 2006.
    .. [2] Neal, Markov chain sampling methods for Dirichlet process mixtures, JCGS 9(2), 2000.
    .. [3] Dahl, Sequentially-allocated merge-split sampler for Dirichlet process mixtures, 2005.

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
    unit_free = _sparse = True
    _posterior: kernel.Approximation | sampling.Posterior

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = "auto",
        *,
        max_clusters: int = 20,
        component: Any = NormalInverseWishart,
        inference: str = "variational",
        concentration: float | tuple[float, float] = (1.0, 1.0),
        burn_in: int = 200,
        n_draws: int = 200,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-5,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.component, self.concentration = component, concentration
        self.inference = inference
        self.burn_in, self.n_draws = burn_in, n_draws
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _learn(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, links: tuple[Any, Any]
    ) -> Any:
        prior = self._check_parameters()
        self._check_memory(X)
        X = check_features(self, X, reset=True, missing=True)
        known = Known.of(*links, y, X, X.shape[0])
        rows, component = self._prepare(X, sample_weight, prior, known)
        # Clusters may be reordered during a fit, so known labels only join rows until its end.
        linked = LinkedRows.of(known._replace(labels=None), X, rows.columns[0])
        seeds = as_generator(self.random_state).integers(2**63, size=self.n_init)
        if self.inference == "gibbs":
            run = self._sample(component, rows, prior, seeds)
        else:
            run = self._approximate(component, rows, prior, seeds, linked)
        memberships = self._in_order(X, rows, linked, known.labels)
        if isinstance(self._posterior, kernel.Approximation):
            sums = self._posterior.state.sums[self._posterior.used]
            self.components_ = priors.publish(component, sums)
        self._publish(memberships, run)
        publish_kept(self, known)
        if self.n_clusters_ == 1:
            warn("one cluster explains the data best: the memberships are all equal")
        return self

    def _in_order(
        self, X: Any, rows: Rows, links: LinkedRows | None, labels: np.ndarray | None
    ) -> Any:
        """Memberships, labelled clusters first, then by size; reorders the posterior, too."""
        weights = None if rows.columns[0] is None else to_numpy(rows.columns[0])
        while True:
            memberships = self._memberships(X)
            if links is not None:
                assert isinstance(self._posterior, kernel.Approximation)
                memberships[links.links.rows] = self._posterior.linked(links)
            U = to_numpy(memberships)
            self.weights_ = np.average(U, axis=0, weights=weights)
            keys = (X.T @ U).T if sp.issparse(X) else U.T @ np.nan_to_num(to_numpy(X))
            order = largest_first(self.weights_, keys)
            if labels is not None:
                _, first = np.unique(labels[labels >= 0], return_index=True)
                labelled = memberships[np.flatnonzero(labels >= 0)[first]].argmax(axis=1)
                order = np.array([*labelled, *order[~np.isin(order, labelled)]])
            if (np.diff(order) == 1).all() or len(np.unique(order)) < len(order):
                return memberships
            self._posterior = self._posterior.reordered(order)

    def _prepare(
        self, X: Any, sample_weight: ArrayLike | None, prior: Concentration, known: Known
    ) -> tuple[Rows, Any]:
        self._refuse_missing(X)
        weights = check_weights(sample_weight, X)
        priors.check_copies(weights)
        rows = Rows(X, weights)
        if not isinstance(self.n_clusters, str):
            for k in np.atleast_1d(np.asarray(self.n_clusters, dtype=object)):
                check_n_clusters(k, X.shape[0])
        if self.inference == "gibbs" and (rows.columns[0] is not None or known.links is not None):
            what = "sample_weight needs" if rows.columns[0] is not None else "links need"
            raise ValueError(
                f"{what} inference='variational': the sampler moves whole objects, one at a time"
            )
        given = self.component
        self.prior_ = priors.default_prior(given, rows) if isinstance(given, type) else given
        component = priors.build(self.prior_, rows)
        priors.check_prior(component)
        priors.check_counts(component, X)
        if given is NormalInverseWishart:
            component = kernel.most_probable(priors.candidates(component), rows, prior.mean)
            nothing = np.zeros((1, component.features(X[:1]).shape[0]))
            self.prior_ = priors.publish(component, nothing)[0]
        return rows, component

    def _approximate(
        self, component: Any, rows: Rows, prior: Concentration, seeds: Any, links: LinkedRows | None
    ) -> loop.Run:
        search = kernel.Ascent(component, rows, prior, self.max_iter, self.tol, links)
        if isinstance(self.n_clusters, str):
            most = min(GROWTH * self.max_clusters, rows.shape[0])
            k = min(self.max_clusters, most)
        else:
            k = most = most_clusters(self.n_clusters)
        while True:
            run = search.best(k, seeds)
            self._posterior, self.n_clusters_posterior_ = kernel.approximate(
                component, rows, run.state, links
            )
            if len(self._posterior.used) < k or k == most:
                break
            k = min(2 * k, most)
        self.concentration_ = float(run.state.concentration.mean)
        shift = search.log_base()
        return run._replace(history=run.history + shift, objective=run.objective + shift)

    def _sample(
        self, component: Any, rows: Rows, prior: Concentration, seeds: np.ndarray
    ) -> loop.Run:
        X = rows.X if sp.issparse(rows.X) else to_numpy(rows.X)
        q = component.features(X[:1]).shape[0]
        way = "set inference='variational', or component=NormalInverseGamma"
        reserve((2, q, X.shape[0]), np.float64, "the features of all objects", way)
        Z = component.features(X)
        order = seeding.sort(component.points(Z), None)  # independent of the order of objects
        Z = Z[:, order]
        trace = sampling.run_chains(component, Z, prior, seeds, self.burn_in, self.n_draws)
        counts = np.bincount(trace.labelings.max(axis=0) + 1)
        self.n_clusters_posterior_ = counts / counts.sum()
        U = sampling.consensus(trace.labelings, int(counts.argmax()))
        self._posterior = sampling.Posterior.of(component, Z, trace, U)
        self.labelings_ = trace.labelings[np.argsort(order)]
        self.concentration_ = float(trace.concentrations.mean())
        self.r_hat_ = sampling.split_r_hat(trace.log_joint)
        self.log_joint_ = trace.log_joint + float(np.sum(component.log_base(Z)))
        history = np.maximum.accumulate(self.log_joint_.ravel())
        if self.n_draws < 4:
            doubt = f"n_draws={self.n_draws} cannot tell whether chains agree: r_hat_ needs 4"
            warn(doubt, ConvergenceWarning)
        elif not self.r_hat_ < 1.2:
            doubt = f"the chains do not agree (r_hat_={self.r_hat_:.2f}): raise burn_in or n_draws"
            warn(doubt, ConvergenceWarning)
        sweeps = self.n_init * (self.burn_in + self.n_draws)
        return loop.Run(None, history[-1], history, sweeps, True)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        drawn = 12 * size.n * self.n_init * self.n_draws if self.inference == "gibbs" else 0
        own = {"memberships": size.n * size.itemsize, "labels of all draws": drawn}
        return super()._memory_needed(size) | own

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        if self.inference == "gibbs":
            yield "set inference='variational'", sum(super()._memory_needed(size).values())
        yield from super()._smaller_alternatives(size)

    def _check_parameters(self) -> Concentration:
        """The checked parameters; returns the prior of alpha."""
        self._check_loop_parameters()
        for name, low in (("burn_in", 0), ("n_draws", 1), ("max_clusters", 1)):
            check_number(getattr(self, name), name, low=low, integer=True)
        if isinstance(self.n_clusters, str):
            check_choice(self.n_clusters, "n_clusters (numbers or 'auto')", ("auto",))
        check_choice(self.inference, "inference", ("variational", "gibbs"))
        if self._kind() not in priors.KINDS:
            names = ", ".join(k.__name__ for k in priors.KINDS)
            raise ValueError(
                f"component must be one of {names} of sfumato.conjugate, or an object of it, got "
                f"{self.component!r}"
            )
        return kernel.check_concentration(self.concentration)

    def _placed(self, X: Any) -> Any:
        return self._memberships(self._check_new(X))

    def score_samples(self, X: ArrayLike) -> Any:
        """Log posterior predictive density (n_new,) of every row of ``X`` (n_new, p)."""
        self._check_fitted()
        return Rows(self._check_new(X)).map(self._posterior.log_density)

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log posterior predictive density; comparable between models of the same data."""
        weights = None if sample_weight is None else to_numpy(check_weights(sample_weight, X))
        return float(np.average(to_numpy(self.score_samples(X)), weights=weights))

    def _memberships(self, X: np.ndarray) -> Any:
        U = Rows(X).map(self._posterior.memberships)
        return U.astype(X.dtype, copy=False) if namespace(X) is np else asarray_like(U, X)

    def _check_new(self, X: ArrayLike) -> Any:
        X = check_features(self, X, reset=False, missing=True)
        self._refuse_missing(X)
        priors.check_counts(self._posterior.component, X)
        return X

    def _kind(self) -> type:
        return self.component if isinstance(self.component, type) else type(self.component)

    @property
    def _missing(self) -> bool:  # type: ignore[override]
        kind = self._kind()
        correlated = kind is NormalInverseWishart and self.inference == "variational"
        return correlated or kind in (NormalInverseGamma, BetaBinomial)

    def _refuse_missing(self, X: Any) -> None:
        kind = self._kind()
        if kind in (NormalInverseGamma, BetaBinomial) or (self._missing and is_numpy(X)):
            return
        values = X.data if sp.issparse(X) else X
        if not bool(namespace(values).isnan(values).any()):
            return
        if kind is DirichletMultinomial:
            way = "a row of counts has no total then; drop those rows or fill them in"
        elif self._missing:
            way = "give X as a NumPy array, or set component=NormalInverseGamma"
        else:
            way = "set inference='variational', or component=NormalInverseGamma"
        raise ValueError(
            f"X contains NaN, missing values, which component={kind.__name__} with "
            f"inference={self.inference!r} does not take: {way}"
        )

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """The evidence for the structure test: only measurements have densities, counts do not."""
        counts = self._kind() in (BetaBinomial, DirichletMultinomial)
        return (None, "") if counts else super()._structure_evidence(evidence)
