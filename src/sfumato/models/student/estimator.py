"""The mixture of t distributions as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import Array, RandomState, Weights
from ...array.validation import check_choice, check_number
from ...array.warn import warn
from ...engine import loop
from ...engine.base import weight_of
from ...numerics import distances, families, seeding
from ...selection.automatic import AutomaticMixture
from . import kernel, starts
from .search import FamilySearch

__all__ = ["StudentMixture"]

LEAST_FREEDOM = 1e-100  # below, a start has no finite scale
SAMPLE = 2048  # size of the sample for the starts
TO_THE_TAILS = "outliers are left to the tails"


@documented
class StudentMixture(AutomaticMixture, FamilySearch):
    """Posterior probabilities of clusters with heavy tails.

    A mixture of multivariate t distributions [1]_, fitted by EM: an object far from its cluster
    counts with a weight ``(nu + d) / (nu + distance**2)``, so outliers neither stretch clusters nor
    make clusters of their own. Missing values are integrated out.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        Number of clusters; of several the best by ``criterion``, unless one of its clusters is of
        outliers: wide and around another, or of fewer objects than features and one more.
        ``"auto"`` tries 1 to ``max_clusters``, and more while the best is the largest one tried.
    covariance_type : str, default="auto"
        Family of the scale matrices: one of the fourteen names of R's mclust (``"VVV"``, ``"EEE"``,
        ...), ``"full"``, ``"tied"``, ``"diag"``, ``"spherical"``, or ``"auto"`` for the best by
        ``criterion`` of all that so many objects and features allow. Candidates of a search that
        are far behind stop a little before their end.
    degrees_of_freedom : {"common", "each"} or float, default="common"
        One number for all clusters, one for each, both found between 1 and 200, or a given one.
    max_clusters : int, default=9
        Largest number that "auto" tries at first; four times as many at most.
    criterion : {"bic", "icl", "aic"}, default="bic"
        How to choose the number of clusters and the family.
    reg_covar : float, default=1e-9
        Least variance in any direction, as a fraction of that of the data.
    n_init : int, default=10
        Number of starts; the best three after a few steps go on to the end.
    max_iter : int, default=1000
        Most steps of a run.
    tol : float, default=1e-8
        A run stops when a step raises the log-likelihood per object by less than this.
    %(seed_and_threads)s

    Attributes
    ----------
    %(posterior)s
    means_ : array of shape (n_clusters, p)
        Centers.
    scale_matrices_ : array of shape (n_clusters, p, p)
        Scale matrices; covariances are ``nu / (nu - 2)`` times these where ``nu`` exceeds 2.
    degrees_of_freedom_ : array of shape (n_clusters,)
        Degrees of freedom ``nu``.
    covariance_type_ : str
        The family.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood of the fitted objects; ``history_`` at every step.
    %(ended)s

    See Also
    --------
    GaussianMixture : The same without heavy tails.

    References
    ----------
    .. [1] D. Peel and G. J. McLachlan, Robust mixture modelling using the t distribution,
       Statistics and Computing 10, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import StudentMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (80, 2)), rng.normal(8, 1, (80, 2)), [[60, -60]]])
    >>> model = StudentMixture(2, random_state=0).fit(X)
    >>> np.sort(np.bincount(model.labels_)).tolist()
    [80, 81]
    >>> sorted(model.means_.round(0).astype(int).tolist())
    [[0, 0], [8, 8]]
    """

    _draft_steps = 15

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        covariance_type: str = "auto",
        degrees_of_freedom: Any = "common",
        max_clusters: int = 9,
        criterion: str = "bic",
        reg_covar: float = 1e-9,
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.covariance_type, self.reg_covar = covariance_type, reg_covar
        self.degrees_of_freedom = degrees_of_freedom
        self.max_clusters, self.criterion = max_clusters, criterion
        self.n_jobs = n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature.

        Not of spherical clusters, nor of families with shapes or axes in common (EVE, VVE, EEV,
        VEV).
        """
        return families.is_unit_free(self.covariance_type)

    def _draw(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        nu = self.degrees_of_freedom_[labels]
        normal = rng.standard_normal((len(labels), self.n_features_in_))
        # In inner coordinates: scale matrices in the units of tiny data may be zero.
        factors = distances.roots(kernel.matrices(self._state))
        deviations = np.einsum("nij,nj->ni", factors[labels], normal)
        spread = np.sqrt(nu / rng.chisquare(nu))
        inner = self._state.means[labels] + deviations * spread[:, None]
        return self._coordinates.outer(inner)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = (*families.FAMILIES, *families.ALIASES, "auto")
        check_choice(self.covariance_type, "covariance_type", names)
        check_number(self.reg_covar, "reg_covar", low=0.0, high=1.0, strict=True)
        if isinstance(self.degrees_of_freedom, str):
            check_choice(self.degrees_of_freedom, "degrees_of_freedom", ("common", "each"))
        else:
            nu = self.degrees_of_freedom
            check_number(nu, "degrees_of_freedom", low=LEAST_FREEDOM, high=np.inf, strict=True)

    def _settings(self, sizes: list[int]) -> list[dict[str, Any]]:
        wanted = self.covariance_type
        suited = families.suited(self._n_objects, self.n_features_in_)
        names = suited if wanted == "auto" else (families.family_of(wanted),)
        return [{**s, "covariance_type": name} for s in super()._settings(sizes) for name in names]

    def _settings_of_one(self) -> list[dict[str, Any]]:
        if self.covariance_type != "auto":
            return super()._settings_of_one()
        suited = families.suited(self._n_objects, self.n_features_in_)
        names = [name for name in ("EII", "EEI", "EEE") if name in suited]
        return [{"n_clusters": 1, "covariance_type": name} for name in names]

    def _rule_of(self) -> kernel.Rule:
        """What the present setting fixes, in inner coordinates."""
        family = self._setting["covariance_type"]
        units = np.ones(len(self._coordinates.scale))
        if not families.is_unit_free(family):
            units = self._coordinates.scale.max() / self._coordinates.scale
            # Beside a constant feature, tiny ones have units whose squares are no numbers.
            units = np.maximum(units / units.max(), 1e-70)
        floor = self.reg_covar * float(units.min()) ** 2
        freedom = self.degrees_of_freedom
        return kernel.Rule(
            family, freedom if isinstance(freedom, str) else float(freedom), floor, units
        )

    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> kernel.State:
        k = self._setting["n_clusters"]
        shared: dict[tuple[int, int], Any] = getattr(self, "_partitions_", {})
        if (k, turn) not in shared:
            X, weights, _ = seeding.sorted_sample(rows, SAMPLE, rng, features=np.nan_to_num)
            shared[k, turn] = (X, weights, starts.partition(X, weights, k, turn, rng))
        X, weights, labels = shared[k, turn]
        return starts.from_labels(X, weights, labels, k, self._rule_of())

    def _is_sound(self, rows: Rows, state: kernel.State) -> bool:
        return not starts.collapsed(state, weight_of(rows), self._rule_of())

    def _failure(self, rows: Rows, state: kernel.State) -> str:
        """Outliers are left to the tails: also where the number is given, so that a search for it
        and the number that it found have one answer.
        """
        if reason := super()._failure(rows, state):
            return reason
        if (around := starts.around(state)) is not None:
            return f"cluster {around[0]} lies around cluster {around[1]}: {TO_THE_TAILS}"
        if (few := starts.smallest(state, weight_of(rows))) is not None:
            return f"cluster {few} holds fewer objects than fix a shape: {TO_THE_TAILS}"
        return ""

    def _ready(self, state: kernel.State) -> kernel.Ready:
        return kernel.ready(state)

    def _summarize(
        self, block: Array, weights: Weights, state: kernel.Ready, given: Weights = None
    ) -> kernel.Stats:
        return kernel.summarize(np.asarray(block), weights, state, given)

    def _update(self, stats: kernel.Stats, state: kernel.State) -> kernel.State:
        return kernel.update(stats, state, self._rule_of())

    def _logits(self, block: Array, ready: kernel.Ready) -> np.ndarray:
        return kernel.logits(np.asarray(block), ready)

    def _n_parameters(self) -> int:
        k, d = self._setting["n_clusters"], self.n_features_in_
        return kernel.n_parameters(k, d, self._rule_of())

    def _ordered(self, run: loop.Run) -> loop.Run:
        return run._replace(state=kernel.ordered(run.state))

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        state, scale = run.state, self._coordinates.scale
        self.weights_, self.degrees_of_freedom_ = state.weights, state.freedom
        self.means_ = self._coordinates.outer(state.means)
        self.scale_matrices_ = kernel.matrices(state) / scale[:, None] / scale[None, :]
        self.covariance_type_ = self._setting["covariance_type"]
        if not self._is_sound(rows, state):
            warn(
                f"a cluster holds too few objects for its shape ('{self.covariance_type_}'), or "
                "has no "
                "width in some direction: ask for fewer clusters or a simpler covariance_type"
            )
