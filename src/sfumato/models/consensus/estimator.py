"""Evidence accumulation: many clusterings in, one soft clustering out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ...array.arrays import as_dense, asarray_like, namespace, to_numpy
from ...array.docs import documented
from ...array.rows import Rows, one_blas_thread
from ...array.types import ArrayLike, Estimator, RandomState, Weights
from ...array.validation import (
    InputSize,
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_numbers,
)
from ...array.warn import warn
from ...data.features import check_observed, without_empty
from ...engine.clusterer import most_clusters, plain_features
from ...engine.levels import local_maxima, products, sizes
from ...engine.numbers import number_of_few
from ...engine.objects import object_weights
from ...engine.structure import CONFIDENT, has_few
from ...selection.choose import Choice, reported
from . import evidence as kinds
from . import hard, soft
from .fitted import KEPT, Constraints, FittedConsensus, fit_linked
from .mixtures import MixtureEnsemble
from .solutions import Settings, run_of
from .solvers import NAMES, memory_needed


class EvidenceAccumulation(FittedConsensus):
    """One soft clustering from many: u_i'u_j is the chance that objects i and j belong together.

    Parameters
    ----------
    n_clusters : int, "auto" or a sequence of int, default="auto"
        A number, several to choose from, or "auto". The score of k is the relative gap after the
        k-th eigenvalue of the normalised co-association, reduced by the misfit of k clusters. For
        features it is multiplied by the information of the memberships, as the mean over small
        mixtures, k-means partitions and the neighbour graph; for labelings by the mean adjusted
        Rand index between clusters and labelings. If no score is above noise, the answer is one
        cluster. The fit is the same as with ``n_clusters=k``.
    ensemble : None, MixtureEnsemble, ClusteringEnsemble or "precomputed"
        Source of the evidence. None makes several kinds from features: small Gaussian mixtures,
        fine connected k-means partitions, and mixtures of about ``n_clusters`` Gaussians. The
        answer is that of the kind with the smallest mean misfit to the other kinds, divided by its
        information. For many objects with many features, communities of the neighbour graph are
        used instead. If ``consensus`` is not ``"cluster-kernel"``, None means
        ``ClusteringEnsemble()``. ``"precomputed"``: ``fit`` is given labelings (n, m), or a list of
        membership matrices (n, k_b).
    consensus : str or estimator
        ``"cluster-kernel"``: the pairwise model on the rank-k cluster kernel of the co-association.
        The others need labelings. ``"coassociation"``: the published model on the co-association
        itself, squared loss over all raw observations, so that a pair weighs as often as it was
        seen. ``"coassociation-likelihood"``, ``"coassociation-kullback-leibler"`` and
        ``"coassociation-itakura-saito"``: Bernoulli likelihood or one of these divergences in place
        of squares, with the explicit matrix, for a few thousand objects. ``"single"``,
        ``"average"``, ``"complete"``: linkage on 1 - co-association. ``"cspa"``, ``"hgpa"``,
        ``"mcla"``, ``"hbgf"``: the graph and hypergraph cuts of Strehl and Ghosh (2002) and of Fern
        and Brodley (2004), as normalised cuts. Or any estimator that takes a similarity.
    max_clusters : int
        Largest number of clusters that "auto" tries at first; up to four times this number, it
        tries those that the evidence suggests.
    n_resamples : int
        Number of resamples of the partitions for ``uncertainty_``; 0 for none.
    n_init, max_iter, tol : int, int, float
        Number of starts, largest number of sweeps, and the relative decrease of the objective at
        which to stop.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    evidence_ : str
        ``"mixtures"``, ``"cells"``, ``"families"`` or ``"graph"``, ``"members"`` for estimators,
        ``"given"`` for membership matrices, ``"labelings"``.
    misfit_ : float
        |Z Z' - U U'|^2 / |Z Z'|^2 for the cluster kernel Z Z'; near 0 if k clusters describe it
        well.
    coassociation_ : Coassociation
        The co-association (n, n) as an operator, if the evidence is labelings.
    ensemble_ : MixtureEnsemble or ClusteringEnsemble
        The fitted ensemble, if one was used.
    uncertainty_ : array of shape (n, n_clusters)
        Standard errors of the memberships (if ``n_resamples``).
    candidates_, scores_ : arrays
        Numbers of clusters tried by ``"auto"``, and their scores (higher is better).
    selection_ : Choice
        With "auto", the table of candidates, as from ``selection.choose_n_clusters``.
    objective_, history_ : float, array
        Objective of the consensus model: squared error, or minus the log-likelihood.
    n_clusters_, n_iter_, converged_ : int, int, bool

    References
    ----------
    Rota Bulo, Lourenco, Fred and Pelillo (2010). Pairwise probabilistic clustering using evidence
    accumulation. S+SSPR.
    Fred and Jain (2005). Combining multiple clusterings using evidence accumulation. IEEE TPAMI
    27(6).
    Strehl and Ghosh (2002). Cluster ensembles: a knowledge reuse framework. JMLR 3.
    Fern and Brodley (2004). Solving cluster ensemble problems by bipartite graph partitioning.
    ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import EvidenceAccumulation
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 6])
    >>> model = EvidenceAccumulation(2, random_state=0).fit(X)
    >>> sorted(np.bincount(model.labels_).tolist())
    [50, 50]
    >>> model.predict_proba([[0.0, 0.0]]).round(2).max()
    np.float64(1.0)

    Three clusterings of five objects, the second of which did not see the last object:

    >>> L = [["a", 0, 1], ["a", 0, 1], ["b", 0, 2], ["b", 1, 2], ["b", -1, 2]]
    >>> model = EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(L)
    >>> model.labels_ == [1, 1, 0, 0, 0]
    array([ True,  True,  True,  True,  True])
    """

    chooses_n_clusters = "auto"
    own_criteria = ("penalized-eigengap",)

    @property
    def unit_free(self) -> bool:
        """Whether features may have any units (the default).

        If the ranges of all features are similar, the number of clusters also depends on their
        scale.
        """
        return self.ensemble is None

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        ensemble: Estimator | str | None = None,
        consensus: Estimator | str = "cluster-kernel",
        max_clusters: int = 20,
        n_resamples: int = 0,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.ensemble, self.consensus = ensemble, consensus
        self.max_clusters, self.n_resamples = max_clusters, n_resamples
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @documented
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        partition_weight: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> EvidenceAccumulation:
        """Learn memberships.

        Parameters
        ----------
        X : array of shape (n, p), or the evidence if ``ensemble="precomputed"``
            Features; by default values may be missing (NaN), and mixtures integrate them out.
            Labelings (n, m): one clustering per column, integer or string labels, -1 or NaN if a
            clustering did not see the object. Or a list of membership matrices (n, k_b).
        %(partial_labels)s
        partition_weight : array of shape (m,), optional
            Weight of every partition of the ensemble.
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object; equal rows of features are one object.
            If only a sample of the objects is used, it is drawn from those with positive weight.
        must_link, cannot_link : arrays of shape (q, 2) or (q, 3), optional
            Pairs of rows that belong together (they share one row of memberships) or apart, with
            weights in a third column, as in ``PairwiseProbabilisticClustering``. They need
            ``consensus="cluster-kernel"`` and form all pairs of objects.

        Returns
        -------
        self
        """
        self._forget()
        self._check_parameters()
        constraints = Constraints(y, must_link, cannot_link)
        rng = as_generator(self.random_state)
        settings = Settings(self.n_init, self.max_iter, self.tol, int(rng.integers(2**31)))
        if self._precomputed() and kinds.is_list_of_memberships(X):
            H, offsets, weights = kinds.check_given(X, partition_weight)
            self.n_features_in_ = len(offsets) - 1
            mass = object_weights(sample_weight, H)
            self._fit_soft(H, offsets, weights, mass, settings, rng)
        elif self._takes_soft_evidence():
            self._check_memory(X)
            X = check_observed(self, X, reset=True)
            ensemble: Any = self.ensemble
            weights = kinds.check_member_weights(partition_weight, ensemble)
            mass = without_empty(X, object_weights(sample_weight, X))
            self._fit_soft(X, None, weights, mass, settings, rng)
        else:
            self._check_memory(X)
            self._fit_hard(X, partition_weight, sample_weight, settings, rng)
        self._linked = None
        if any(part is not None for part in constraints):
            try:
                self._linked = fit_linked(self, X, constraints, settings, sample_weight)
            except (ValueError, TypeError):
                self._forget()
                raise
        if self._linked is not None:
            model = self._linked.model
            self._publish(model.memberships_.astype(self._dtype, copy=False), run_of(model))
        return self

    def _streams(self) -> bool:
        return self._takes_soft_evidence()

    def _takes_soft_evidence(self) -> bool:
        if isinstance(self.ensemble, MixtureEnsemble):
            return True
        kernel = isinstance(self.consensus, str) and self.consensus == "cluster-kernel"
        return self.ensemble is None and kernel

    def _fit_soft(
        self,
        X: np.ndarray,
        offsets: np.ndarray | None,
        weights: Weights,
        mass: Weights,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self._dtype = np.dtype(str(X.dtype).rpartition(".")[2])
        # Products of few objects are so small that more threads of BLAS double the time of a fit.
        with one_blas_thread() if X.shape[0] <= 5000 else nullcontext():
            k = self.n_clusters
            if not self._searches():
                check_n_clusters(k, X.shape[0])
            if offsets is not None:
                evidence: Any = kinds.GivenEvidence(X, offsets, weights, mass, k, rng)
            else:
                ensemble = None if self.ensemble is None else clone(self.ensemble)
                evidence = kinds.FeatureEvidence(X, ensemble, weights, mass, k, rng)
            if self._searches():
                k = self._number(X, evidence, mass)
            self._publish_soft(Rows(X), soft.fit_soft(evidence, k, settings, rng), mass)

    def _searches(self) -> bool:
        """Whether the number of clusters must be found."""
        return not isinstance(self.n_clusters, Integral)

    def _number(self, X: np.ndarray, evidence: Any, mass: Weights) -> int:
        """The best number of clusters; one if none is better than noise."""
        scores = soft.numbers(evidence, self.n_clusters, self.max_clusters)
        numbers, level = sorted(scores), soft.noise_score(X.shape[0])
        self._keep_scores({k: float(scores[k].mean()) for k in numbers} or {1: 0.0})
        kinds = zip(*(scores[k] for k in numbers), strict=True)
        found = [local_maxima(dict(zip(numbers, own, strict=True)), level) for own in kinds]
        self._supported_ = max(set().union(*found), default=1)
        best = int(self.candidates_[np.argmax(self.scores_)])
        if not isinstance(self.n_clusters, str):
            return best
        features = None if self._precomputed() else plain_features(X)
        if features is not None and has_few(features):
            return number_of_few(features, mass)
        if len(numbers) and (highest := float(self.scores_.max())) < level:
            warn(
                f"no number of clusters stands out: the score of the best, {best} clusters, is "
                f"{highest:.2f}, in the range of noise (up to {level:.2f}); one cluster is the "
                "answer"
            )
            return 1
        return best

    def _publish_soft(self, rows: Rows, fitted: soft.SoftConsensus, weights: Weights) -> None:
        self._soft, self._hard = fitted, None
        # Needed by cooccurrence_interval; larger data would make saved models too big.
        small = isinstance(rows.X, np.ndarray) and rows.X.nbytes <= KEPT
        self._features = rows.X if small or sp.issparse(rows.X) else None
        chosen = fitted.chosen
        self.evidence_, self.misfit_ = chosen.evidence, chosen.reader.misfit
        if hasattr(chosen.factor.kind, "ensemble"):
            self.ensemble_ = chosen.factor.kind.ensemble
        memberships = rows.map(lambda block: as_dense(fitted(block), self._dtype))
        memberships = self._in_order(memberships, weights, partial(fitted.draws, rows))
        self._publish(memberships, chosen.reader.run)
        level = soft.noise_score(rows.shape[0])
        tested = getattr(self, "structure_", None)
        # If memberships are confident, the structure test has already warned.
        warned = tested is not None and (
            tested.supported or float(to_numpy(memberships).max(axis=1).mean()) >= CONFIDENT
        )
        if not warned and self.ensemble is None and self.n_clusters_ > 1 and fitted.score < level:
            warn(
                f"the evidence does not single out {self.n_clusters_} clusters: their score is "
                f"{fitted.score:.2f}, in the range of noise (up to {level:.2f}); the "
                "memberships may cut a continuum"
            )

    def _fit_hard(
        self,
        X: Any,
        partition_weight: ArrayLike | None,
        sample_weight: ArrayLike | None,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self._soft = None
        C, self._dtype, objects = hard.accumulate(self, X, partition_weight, sample_weight, rng)
        self._hard = hard.fit_hard(self, C, settings, objects)
        self.evidence_, self.coassociation_, solution = "labelings", C, self._hard.solution
        if hasattr(solution, "misfit"):
            self.misfit_ = solution.misfit
        if self._searches():
            self._keep_scores(self._hard.scores)
        memberships = self._hard.spread(C.table, solution.memberships)
        memberships = hard.uniform_where_unseen(C.table, memberships)
        draws = partial(hard.draws, self._hard, C.table)
        memberships = self._in_order(memberships, objects.row_weights, draws)
        self._publish(memberships.astype(self._dtype, copy=False), solution.run)

    def _in_order(self, memberships: Any, weights: Weights, draws: Any) -> Any:
        """Memberships with the largest cluster first, and their uncertainty from ``draws``."""
        largest = np.round(sizes(memberships, weights) / memberships.shape[0], 9)
        self._order = np.argsort(-largest, kind="stable")
        xp = namespace(memberships)
        order = asarray_like(self._order, memberships, xp.int64)
        memberships, n = xp.take(memberships, order, axis=1), self.n_resamples
        if n:
            self.uncertainty_ = hard.standard_errors(draws(memberships, n), memberships, n)
        return memberships

    def _keep_scores(self, scores: Mapping[int, float]) -> None:
        self.candidates_, self.scores_ = np.array([*scores]), np.array([*scores.values()])

    @property
    def selection_(self) -> Choice:
        """The numbers of clusters that were tried."""
        if not hasattr(self, "candidates_"):
            raise AttributeError("selection_ is there after a fit that chose n_clusters")
        scores = zip(map(int, self.candidates_), map(float, self.scores_), strict=True)
        return reported(self, self.own_criteria[0], dict(scores))

    def _level_scores(self) -> dict[int, float]:
        if not hasattr(self, "_scores_"):
            model: Any = self
            if not hasattr(self, "candidates_") and hasattr(self, "_fitted_to_"):
                given = {"X", "partition_weight", "sample_weight"} & set(self._fitted_to_)
                model = clone(self).set_params(n_clusters="auto")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the answer itself has already warned
                    model.fit(**{name: self._fitted_to_[name] for name in given})
            numbers = map(int, getattr(model, "candidates_", ()))
            found = map(float, getattr(model, "scores_", ()))
            self._scores_ = dict(zip(numbers, found, strict=True))
            self._supported_ = getattr(model, "_supported_", 1)
        return self._scores_

    def _finest(self) -> int:
        """The largest number of clusters that any kind of evidence supports."""
        return max(super()._finest(), getattr(self, "_supported_", 1))

    def _together(self, U: Any) -> np.ndarray:
        """U'U, for labelings U'C U with the co-association C."""
        if self._soft is not None:
            return super()._together(U)
        weights = self._object_masses()
        heavy = U if weights is None else U * weights[:, None]
        return products(U, self.coassociation_ @ np.asarray(heavy, np.float64), weights)

    def _noise(self) -> float:
        return super()._noise() if self._soft is None else soft.noise_score(len(self.memberships_))

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_numbers(self.n_clusters, "n_clusters")
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        if check_number(self.n_resamples, "n_resamples", low=0, integer=True) == 1:
            raise ValueError(
                "n_resamples must be 0 or at least 2, got 1: one resample says nothing of the "
                "spread"
            )
        if isinstance(self.consensus, str):
            check_choice(self.consensus, "consensus (a name or an estimator)", NAMES)
        elif not hasattr(self.consensus, "fit"):
            raise TypeError(
                f"consensus must be one of {', '.join(map(repr, NAMES))} or an estimator, "
                f"got {self.consensus!r}"
            )

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        k = min(most_clusters(self.n_clusters), size.n)
        if self._takes_soft_evidence():
            d, fitted = min(size.p, 20), min(2000.0, 0.9 * size.n)
            one = 4 * fitted * ((d + 1) * (d + 2) + fitted**0.5)  # products of features, densities
            return {"memberships": 16 * k * size.n, "labels": 8 * size.n, "a mixture": one}
        default = hard.ClusteringEnsemble().n_members
        m = size.p if self._precomputed() else getattr(self.ensemble, "n_members", default)
        kept = memory_needed(self.consensus, size.n, k, self.n_init)
        return {**kept, "labels": size.n * (5 * m + 8)}

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        needed = self._memory_needed(size)
        if pairs := needed.get("matrices of all pairs"):
            fewer = sum(needed.values()) - pairs
            yield "set consensus='cluster-kernel', which forms no such matrix", fewer
        yield "fit a sample of the objects, then predict_proba of the others in batches", 0

    def _structure_evidence(self, evidence: Any) -> tuple[Any, str]:
        if self._precomputed():
            return self.coassociation_, "similarity"
        return super()._structure_evidence(evidence)

    def _precomputed(self) -> bool:
        return isinstance(self.ensemble, str) and self.ensemble == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed()
        tags.input_tags.allow_nan = self._takes_soft_evidence()
        return tags
