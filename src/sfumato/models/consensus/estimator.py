"""Evidence accumulation: many clusterings in, one soft clustering out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names

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
    check_weights,
)
from ...array.warn import warn
from ...data.features import check_features, check_observed, warn_of_empty, without_empty
from ...engine.clusterer import CooccurrenceIntervals, most_clusters, plain_features
from ...engine.levels import local_maxima, products, sizes
from ...engine.numbers import number_of_few
from ...engine.objects import object_weights
from ...engine.structure import CONFIDENT, has_few
from ...numerics.label_table import brier_score
from ...selection.choose import Choice, reported
from . import evidence as kinds
from . import hard, soft
from .mixtures import MixtureEnsemble
from .solutions import LinkedConsensus, Settings, fit_linked, run_of
from .solvers import NAMES, memory_needed

KEPT = 2**27  # largest number of bytes of features that a fitted model keeps for resampling


class EvidenceAccumulation(CooccurrenceIntervals):
    """One soft clustering from many: u_i'u_j is the chance that objects i and j belong together.

    Parameters
    ----------
    n_clusters : int, "auto" or a sequence of int, default="auto"
        A number, several to choose from, or "auto". The score of k is the relative gap after the
        k-th eigenvalue of the normalised co-association, reduced by the misfit of k clusters, times
        the information of the memberships (mean over kinds of evidence) or, for labelings, the mean
        adjusted Rand index of clusters and labelings. If no score is above noise, the answer is one
        cluster.
    ensemble : None, MixtureEnsemble, ClusteringEnsemble or "precomputed"
        Source of the evidence. None makes several kinds from features (small Gaussian mixtures,
        fine connected k-means partitions, mixtures of about ``n_clusters`` Gaussians; communities
        of the neighbour graph for many objects with many features) and takes the one that the
        others agree with most; ``ClusteringEnsemble()`` if ``consensus`` is not
        ``"cluster-kernel"``. ``"precomputed"``: ``fit`` is given labelings (n, m), or a list of
        membership matrices (n, k_b), and ``predict_proba`` those of new objects.
    consensus : str or estimator
        ``"cluster-kernel"``: the pairwise model on the rank-k cluster kernel of the co-association.
        The others need labelings. ``"coassociation"``: the published model, squared loss over all
        raw observations. ``"coassociation-likelihood"``, ``"coassociation-kullback-leibler"`` and
        ``"coassociation-itakura-saito"``: Bernoulli likelihood or one of these divergences in place
        of squares, with the explicit matrix, for a few thousand objects. ``"single"``,
        ``"average"``, ``"complete"``: linkage on 1 - co-association. ``"cspa"``, ``"hgpa"``,
        ``"mcla"``, ``"hbgf"``: the graph and hypergraph cuts of Strehl and Ghosh (2002) and of Fern
        and Brodley (2004), as normalised cuts. Or any estimator that takes a similarity.
    max_clusters : int
        Largest number that "auto" tries at first; up to four times as many if they are promising.
    n_resamples : int
        Number of resamples of the partitions for ``uncertainty_``; 0 for none.
    n_init, max_iter, tol : int, int, float
        Starts, largest number of sweeps, and the relative decrease of the objective at which to
        stop.
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
    candidates_, scores_, selection_ : arrays, Choice
        With "auto", the numbers that were tried, their scores (higher is better), and a table.
    objective_, history_, n_clusters_, n_iter_, converged_
        As in every estimator; the objective is the squared error, or minus the log-likelihood.

    References
    ----------
    Rota Bulo and others (2010). Pairwise probabilistic clustering. S+SSPR.
    Fred and Jain (2005). Combining multiple clusterings. IEEE TPAMI 27(6).
    Strehl and Ghosh (2002). Cluster ensembles. JMLR 3.
    Fern and Brodley (2004). Cluster ensembles by bipartite graph partitioning. ICML.

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

    _any_library = True  # arrays of every library that follows the array API standard
    _soft: Any
    _hard: Any
    _linked: LinkedConsensus | None
    _order: np.ndarray
    chooses_n_clusters = "auto"
    own_criteria = ("penalized-eigengap",)

    @property
    def unit_free(self) -> bool:
        """Whether features may have any units (the default).

        If the ranges of all features are similar, the number of clusters also depends on their
        scale."""
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
            ``consensus="cluster-kernel"`` and form all pairs of objects."""
        self._check_parameters()
        links = {"y": y, "must_link": must_link, "cannot_link": cannot_link}
        rng = as_generator(self.random_state)
        settings = Settings(self.n_init, self.max_iter, self.tol, int(rng.integers(2**31)))
        several = isinstance(X, (list, tuple)) and len(X) > 0 and all(np.ndim(U) == 2 for U in X)
        if several and self._precomputed():
            H, offsets, weights = kinds.check_given(X, partition_weight)
            self.n_features_in_ = len(offsets) - 1
            made: Any = partial(kinds.GivenEvidence, H, offsets, weights)
            self._fit_soft(H, made, object_weights(sample_weight, H), settings, rng)
        elif self._takes_soft_evidence():
            self._check_memory(X)
            X = check_observed(self, X, reset=True)
            ensemble: Any = None if self.ensemble is None else clone(self.ensemble)
            weights = kinds.check_member_weights(partition_weight, ensemble)
            made = partial(kinds.FeatureEvidence, X, ensemble, weights)
            mass = without_empty(X, object_weights(sample_weight, X))
            self._fit_soft(X, made, mass, settings, rng)
        else:
            self._check_memory(X)
            self._fit_hard(X, (partition_weight, sample_weight), settings, rng)
        self._linked = None
        if any(part is not None for part in links.values()):
            self._linked = fit_linked(self, X, links, settings, sample_weight)
        if self._linked is not None:
            model = self._linked.model
            self._publish(model.memberships_.astype(self._dtype, copy=False), run_of(model))
        return self

    @property
    def _streams(self) -> bool:  # type: ignore[override]
        return self._takes_soft_evidence()

    def _takes_soft_evidence(self) -> bool:
        if isinstance(self.ensemble, MixtureEnsemble):
            return True
        kernel = isinstance(self.consensus, str) and self.consensus == "cluster-kernel"
        return self.ensemble is None and kernel

    def _fit_soft(self, X: Any, made: Any, mass: Weights, settings: Settings, rng: Any) -> None:
        self._dtype, k = np.dtype(str(X.dtype).rpartition(".")[2]), self.n_clusters
        # Products of few objects are so small that more threads of BLAS double the time of a fit.
        with one_blas_thread() if X.shape[0] <= 5000 else nullcontext():
            if not self._searches():
                check_n_clusters(k, X.shape[0])
            evidence = made(mass, k, rng)
            if self._searches():
                k = self._number(X, evidence, mass)
            self._publish_soft(Rows(X), soft.fit_soft(evidence, k, settings, rng), mass)

    def _searches(self) -> bool:
        return not isinstance(self.n_clusters, Integral)

    def _number(self, X: np.ndarray, evidence: Any, mass: Weights) -> int:
        """The best number of clusters; one if none is better than noise."""
        asked = check_numbers(self.n_clusters, "n_clusters") or "auto"
        scores = soft.numbers(evidence, asked, self.max_clusters)
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

    def _fit_hard(self, X: Any, weights: tuple[Any, Any], settings: Settings, rng: Any) -> None:
        self._soft = None
        C, self._dtype, objects = hard.accumulate(self, X, *weights, rng)
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

    def _placed(self, X: ArrayLike) -> np.ndarray:
        if self._linked is not None:
            new = self._new_table(X) if self._soft is None else self._new_rows(X).X
            return self._linked(new).astype(self._dtype, copy=False)
        if self._soft is not None:
            place = self._soft
            U = self._new_rows(X).map(lambda block: as_dense(place(block), self._dtype))
        else:
            new = self._new_table(X)
            U = hard.uniform_where_unseen(new, self._hard.solution.place(new))
            U = U.astype(self._dtype, copy=False)
        return namespace(U).take(U, asarray_like(self._order, U, namespace(U).int64), axis=1)

    def _shares(self, X: ArrayLike) -> np.ndarray:
        """Columns (n, K) whose products are the chances that members put two objects together."""
        kind = self._soft.chosen.factor.kind
        columns = as_dense(kind(self._new_rows(X).X), np.float64)
        return columns / np.sqrt(len(kind.offsets) - 1)

    def _new_rows(self, X: ArrayLike) -> Rows:
        if self._precomputed():
            return Rows(kinds.check_given(X, None, self._soft.chosen.factor.kind.offsets)[0])
        X = check_observed(self, X, reset=False)
        warn_of_empty(X)
        return Rows(X)

    def _new_table(self, X: Any) -> Any:
        if self._precomputed():
            _check_feature_names(self, X, reset=False)
            return self.coassociation_.recode(X)
        X = check_features(self, X, reset=False)
        return self.coassociation_.recode(self.ensemble_.transform(X))

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Agreement of u_i'u_j with the evidence about the objects X; higher is better.

        For labelings, minus the Brier score against the partitions, over pairs. For soft evidence,
        minus the misfit of the cluster kernel."""
        if self._soft is not None:
            rows = self._new_rows(X)
            weights = check_weights(sample_weight, rows.X)
            return -self._soft.misfit(rows if weights is None else Rows(rows.X, weights))
        table = self._new_table(X)
        table = table._replace(mass=check_weights(sample_weight, table.codes))
        return -brier_score(table, self.predict_proba(X).astype(np.float64))

    @available_if(lambda model: model._takes_soft_evidence())
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Update the fit with a batch (n_batch, p) of new objects, dense or sparse, with weights;
        ``memberships_`` are those of this batch.

        The members of the first batch are kept; sums over objects are updated. Not available for
        labelings."""
        own: Any = self
        if not hasattr(self, "memberships_"):
            return own.fit(X, sample_weight=sample_weight)
        X = check_observed(self, X, reset=False)
        weights = without_empty(X, check_weights(sample_weight, X))
        rows = Rows(X) if weights is None else Rows(X, weights)
        self._linked = None
        fitted, history, n_iter = self._soft.absorb(rows), self.history_, self.n_iter_
        own._publish_soft(Rows(X), fitted, weights)
        self.history_, self.n_iter_ = np.append(history, self.history_), n_iter + self.n_iter_
        return self

    def _membership_draws(self, n_draws: int) -> Iterable[np.ndarray]:
        if self._soft is None:
            table = self.coassociation_.table
            return hard.draws(self._hard, table, self.memberships_, n_draws)
        if self._features is None:
            raise ValueError(
                "cooccurrence_interval reads the features again, which are kept up to "
                f"{KEPT >> 20} MB only: fit a sample, or ask for n_resamples"
            )
        return self._soft.draws(Rows(self._features), self.memberships_, n_draws)

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

    @property
    def _sparse(self) -> bool:  # type: ignore[override]
        return not self._precomputed()

    @property
    def _missing(self) -> bool:  # type: ignore[override]
        return self._takes_soft_evidence()
