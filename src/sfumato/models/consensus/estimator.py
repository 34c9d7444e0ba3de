"""Evidence accumulation: many clusterings in, one soft clustering out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_feature_names

from ...core.base import Clusterer, most_clusters
from ...core.labels import check_labelings
from ...core.memory import InputSize
from ...core.validation import (
    as_generator,
    check_choice,
    check_features,
    check_n_clusters,
    check_number,
)
from ...core.warn import EvidenceWarning, warn
from ...memberships import align, cooccurrence
from ...numerics import label_table as tables
from ...numerics.label_sweep import brier_score
from ...similarity.coassociation import Coassociation, check_partition_weight, coassociation
from ..pairwise.estimator import COPIES
from .doubts import question
from .ensemble import ClusteringEnsemble
from .selection import SELECTIONS, choose
from .solvers import LINKAGES, NAMES, SCREEN, Settings, explicit_matrices, solve

__all__ = ["EvidenceAccumulation"]

FEW = 5  # partitions below which a bootstrap over them is not to be trusted


class EvidenceAccumulation(Clusterer):
    """One soft clustering from an ensemble of clusterings: u_i'u_j is the chance that objects i and j belong together.

    Parameters
    ----------
    n_clusters : int or "auto"
        ``"auto"`` scores 2, ..., ``max_clusters`` by ``selection`` and takes the best.
    ensemble : ClusteringEnsemble, "precomputed" or None
        What makes labelings from features; None is ``ClusteringEnsemble()``. ``"precomputed"``: ``fit`` is given labelings (n, m).
    consensus : str or estimator
        ``"cluster-kernel"``: the pairwise model on the rank-k cluster kernel of the co-association. ``"coassociation"``: the published
        model on the co-association itself, squared loss over all raw observations, so that a pair weighs as often as it was seen.
        ``"coassociation-unweighted"``: the same with every pair counted once; ``"coassociation-likelihood"``: Bernoulli likelihood in
        place of squares; both with the explicit matrix, for a few thousand objects. ``"single"``, ``"average"``, ``"complete"``:
        linkage on 1 - co-association. Or any estimator that takes a similarity.
    selection : {"eigengap", "held-out", "lifetime"} or None
        How ``"auto"`` scores a number of clusters k. ``"eigengap"``: the gap after the k-th eigenvalue of the normalised co-association,
        relative to what it could be. ``"held-out"``: minus the Brier score of u_i'u_j on partitions that had no part in the fit, which
        asks for partitions about as coarse as the answer; for ``"cluster-kernel"`` the Brier skill against the cluster kernel of half
        of the partitions, which takes fine ones too. ``"lifetime"``: the range of thresholds for which a linkage tree has k clusters.
        None: lifetime for linkages, held-out for the published models, eigengap otherwise.
    max_clusters : int
        Largest number of clusters that ``"auto"`` tries.
    n_bootstrap : int
        Resamples of the partitions from which ``uncertainty_`` is worked out; 0 leaves it out.
    n_init, max_iter, tol : int, int, float
        Starts, sweeps at most, and the relative decrease of the objective at which to stop.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    coassociation_ : Coassociation
        The operator (n, n).
    ensemble_ : ClusteringEnsemble
        The fitted ensemble, if there is one.
    uncertainty_ : array of shape (n, n_clusters)
        Standard errors of the memberships (if ``n_bootstrap``).
    candidates_, scores_ : arrays
        Numbers of clusters tried by ``"auto"``, and their scores (higher is better).
    objective_, history_ : float, array
        Of the consensus model: squared error, or minus the log-likelihood.
    n_clusters_, n_iter_, converged_ : int, int, bool

    References
    ----------
    Rota Bulo, Lourenco, Fred and Pelillo (2010). Pairwise probabilistic clustering using evidence accumulation. S+SSPR.
    Fred and Jain (2005). Combining multiple clusterings using evidence accumulation. IEEE TPAMI 27(6).

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
    >>> EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(L).labels_ == [0, 0, 1, 1, 1]
    array([ True,  True,  True,  True,  True])
    """

    chooses_n_clusters = "auto"

    def __init__(
        self,
        n_clusters=8,
        *,
        ensemble=None,
        consensus="cluster-kernel",
        selection=None,
        max_clusters=10,
        n_bootstrap=0,
        n_init=4,
        max_iter=500,
        tol=1e-6,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.ensemble = ensemble
        self.consensus = consensus
        self.selection = selection
        self.max_clusters = max_clusters
        self.n_bootstrap = n_bootstrap
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, partition_weight: Any = None) -> EvidenceAccumulation:
        """Learn memberships.

        Parameters
        ----------
        X : array of shape (n, p), or labelings of shape (n, m) if ``ensemble="precomputed"``
            Labelings: one clustering per column, integer or string labels, -1 or NaN where a clustering did not see the object.
        y : ignored
        partition_weight : array of shape (m,), optional
            Weight of every partition of the ensemble.

        Returns
        -------
        self
        """
        self._forget()
        self._check_parameters()
        self._check_room(X)
        rng = as_generator(self.random_state)
        self.coassociation_ = self._accumulate(X, partition_weight, rng)
        table = self.coassociation_.table
        if table.coverage.max() <= 0:
            raise ValueError(
                "no partition with a weight above 0 saw any object: give labels other than -1 or NaN"
            )
        if self.n_clusters != "auto":
            check_n_clusters(self.n_clusters, int(np.count_nonzero(table.coverage)))
        settings = self._settings = Settings(
            self.n_init, self.max_iter, self.tol, int(rng.integers(2**31))
        )
        k = self.n_clusters
        if k == "auto":
            with warnings.catch_warnings():  # of candidates that are not taken nobody wants to hear
                warnings.simplefilter("ignore", EvidenceWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                k, self.candidates_, self.scores_ = choose(
                    self._selection(), self.consensus, table, self.max_clusters, settings
                )
        self._solution = solve(self.consensus, table, k, settings)
        question(self._solution, table)
        self._finish(table, settings)
        return self

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        if not (isinstance(self.n_clusters, str) and self.n_clusters == "auto"):
            check_number(self.n_clusters, "n_clusters (an integer or 'auto')", low=1, integer=True)
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        if check_number(self.n_bootstrap, "n_bootstrap", low=0, integer=True) == 1:
            raise ValueError(
                "n_bootstrap must be 0 or at least 2, got 1: one resample says nothing of the spread"
            )
        if isinstance(self.consensus, str):
            check_choice(self.consensus, "consensus (a name or an estimator)", NAMES)
        elif not hasattr(self.consensus, "fit"):
            raise TypeError(
                f"consensus must be one of {', '.join(map(repr, NAMES))} or an estimator, got {self.consensus!r}"
            )

        if self.selection is not None:
            check_choice(self.selection, "selection", SELECTIONS)
            if self.selection == "lifetime" and self.consensus not in LINKAGES:
                raise ValueError(
                    f"selection='lifetime' needs a linkage as consensus ({', '.join(LINKAGES)}), got {self.consensus!r}"
                )

    def _selection(self) -> str:
        if self.selection is not None:
            return self.selection
        published = isinstance(self.consensus, str) and self.consensus.startswith("coassociation")
        return "held-out" if published else "lifetime" if self.consensus in LINKAGES else "eigengap"

    def _accumulate(self, X: Any, partition_weight: Any, rng: np.random.Generator) -> Coassociation:
        """Co-association of the labelings given, or of an ensemble fitted to the features."""
        if self._precomputed():
            C = coassociation(X, partition_weight)
            _check_feature_names(self, X, reset=True)
            self.n_features_in_, self._dtype = C.table.codes.shape[1], np.dtype(np.float64)
            return C
        X = check_features(self, X, reset=True)
        self._dtype = X.dtype
        if self.n_clusters != "auto":
            check_n_clusters(self.n_clusters, X.shape[0])
        if isinstance(self.ensemble, type) or not (
            self.ensemble is None or hasattr(self.ensemble, "fit_transform")
        ):
            raise TypeError(
                f"ensemble must be a ClusteringEnsemble, 'precomputed' or None, got {self.ensemble!r}"
            )
        self.ensemble_ = ClusteringEnsemble() if self.ensemble is None else clone(self.ensemble)
        if getattr(self.ensemble_, "random_state", 0) is None:
            self.ensemble_.set_params(random_state=int(rng.integers(2**31)))
        labelings = self.ensemble_.fit_transform(X)
        if not isinstance(self.ensemble_, ClusteringEnsemble):
            labelings = check_labelings(
                labelings, f"what ensemble={type(self.ensemble_).__name__} makes of X"
            )
        return Coassociation(
            tables.encode(labelings, check_partition_weight(partition_weight, labelings.shape[1]))
        )

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        m = (
            size.p
            if self._precomputed()
            else getattr(self.ensemble, "n_partitions", ClusteringEnsemble().n_partitions)
        )
        k = min(most_clusters(self.n_clusters), size.n)
        pairs = 8 * size.n**2 * explicit_matrices(self.consensus)
        rows = size.n if pairs else COPIES * max(size.n, self.n_init * min(size.n, SCREEN))
        return {
            "matrices of all pairs": pairs,
            "labels": size.n * (5 * m + 8),
            "memberships": 8 * k * rows,
        }

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        needed = self._memory_needed(size)
        if needed["matrices of all pairs"]:
            yield (
                "set consensus='cluster-kernel', which forms no such matrix",
                sum(needed.values()) - needed["matrices of all pairs"],
            )
        yield "fit a sample of the objects, then predict_proba of the others in batches", 0

    def _judged(self, evidence: Any) -> tuple[Any, str]:
        if self._precomputed():
            return self.coassociation_, "similarity"
        return super()._judged(evidence)

    def _precomputed(self) -> bool:
        return isinstance(self.ensemble, str) and self.ensemble == "precomputed"

    def _finish(self, table: tables.Table, settings: Settings) -> None:
        memberships = self._vague(table, self._solution.memberships)
        if self.n_bootstrap:
            self.uncertainty_ = self._standard_errors(memberships, settings)
        self._publish(memberships.astype(self._dtype, copy=False), self._solution.run)

    def _vague(self, table: tables.Table, memberships: np.ndarray) -> np.ndarray:
        """Nothing is known of objects that no partition saw: all clusters alike."""
        unseen = table.coverage <= 0
        if not unseen.any():
            return memberships
        warn(
            f"{int(unseen.sum())} of {len(unseen)} objects were seen by no partition: their memberships are uniform"
        )
        return np.where(unseen[:, None], 1.0 / memberships.shape[1], memberships)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Memberships of new objects, labelled by the partitions and placed beside the fitted ones.

        Parameters
        ----------
        X : array of shape (n_new, p), or their labels (n_new, m) by the same partitions if ``ensemble="precomputed"``

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        self._check_fitted()
        new = self._new_table(X)
        memberships = self._vague(new, self._solution.place(new))
        return memberships.astype(self._dtype, copy=False)

    def _new_table(self, X: Any) -> tables.Table:
        if self._precomputed():
            _check_feature_names(self, X, reset=False)
            return self.coassociation_.recode(X)
        return self.coassociation_.recode(
            self.ensemble_.transform(check_features(self, X, reset=False))
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the Brier score of u_i'u_j for what the partitions say of the objects X, taken pair by pair: higher is better."""
        return -brier_score(self._new_table(X), self.predict_proba(X).astype(np.float64))

    def _draws(
        self, memberships: np.ndarray, settings: Settings, n_draws: int
    ) -> Iterator[np.ndarray]:
        """Memberships from resampled partitions, matched to the fit."""
        table, rng = self.coassociation_.table, np.random.default_rng(settings.random_state)
        memberships = np.asarray(memberships, dtype=np.float64)
        m = len(table.weights)
        if m < FEW:
            warn(
                f"resampling {m} partition{'s' if m > 1 else ''} says little about how much memberships could move: give at least {FEW}"
            )
        k, once = memberships.shape[1], settings._replace(n_init=1)
        for _ in range(n_draws):
            counts = np.bincount(rng.integers(m, size=m), minlength=m)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvidenceWarning)
                solution = solve(
                    self.consensus,
                    tables.reweight(table, table.weights * counts),
                    k,
                    once,
                    memberships,
                )
            yield align(solution.memberships, memberships)[:, :k]

    def _standard_errors(self, memberships: np.ndarray, settings: Settings) -> np.ndarray:
        total, squares = np.zeros_like(memberships), np.zeros_like(memberships)
        for draw in self._draws(memberships, settings, self.n_bootstrap):
            total += draw
            squares += draw**2
        mean = total / self.n_bootstrap
        return np.sqrt(np.clip(squares / self.n_bootstrap - mean**2, 0.0, None))

    def cooccurrence_interval(
        self, pairs: Any, *, n_draws: int = 100, level: float = 0.9
    ) -> np.ndarray:
        """Intervals for the chance that two objects belong together, by bootstrap over the partitions.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2)
            Indices of fitted objects.
        n_draws : int
            Resamples of the partitions.
        level : float
            Share of the resamples that the interval holds.

        Returns
        -------
        interval : array of shape (n_pairs, 2)
            Lower and upper end of u_i'u_j.
        """
        self._check_fitted()
        check_number(n_draws, "n_draws", low=2, integer=True)
        check_number(level, "level", low=0, high=1, strict=True)
        draws = [
            cooccurrence(draw, pairs)
            for draw in self._draws(self.memberships_, self._settings, n_draws)
        ]
        return np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0).T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed()
        return tags
