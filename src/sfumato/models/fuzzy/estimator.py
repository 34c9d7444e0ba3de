"""Fuzzy c-means as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import to_numpy
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import Array, ArrayLike, RandomState
from ...array.validation import check_choice, check_number, check_weights
from ...array.warn import warn
from ...data.constraints import Known
from ...data.features import check_features, observed_only
from ...engine import loop
from ...engine.base import weight_of
from ...numerics import distances, seeding
from ...numerics.coordinates import measure
from ...selection.automatic import AutomaticClusters
from . import kernel
from .extended import ExtendedFuzzy
from .fuzziness import TUNING

__all__ = ["FuzzyCMeans"]


@documented
class FuzzyCMeans(AutomaticClusters, ExtendedFuzzy):
    """Memberships that decrease with the distance to cluster centers.

    Minimises ``sum_ij w_i u_ij**m |x_i - c_j|**2`` over memberships and centers [1]_ by alternating
    minimisation with safeguarded extrapolation. Starting centers are drawn far from each other, so
    that no two of them coincide.

    Parameters
    ----------
    %(automatic)s
    fuzzifier : float or "auto", default="auto"
        The exponent m, up to 100. At 1 the model is k-means (hard memberships, Lloyd's algorithm);
        near 1 memberships are almost hard, and large values make them equal. ``"auto"`` is the
        smallest value that does not cut a round cluster in two, at most 2: the bound of [6]_ within
        the clusters that k-means finds in 2000 objects (of the first batch, in ``partial_fit``). It
        is 2 with up to four features, and about d / (d - 2) for round clusters in d features. It
        does not depend on the seed.
    entropy : float, optional
        Replaces the fuzzifier by an entropy penalty [3]_: memberships are ``softmax(-d**2 / t)``
        with the temperature ``t`` equal to ``entropy`` times the total variance of the data.
    noise : float, optional
        Adds a last column to the memberships, a noise cluster [4]_ at the same distance from every
        object: ``noise`` times the root mean square distance of the objects to their mean.
    metric : {"euclidean", "mahalanobis", "manhattan", "cosine", "gaussian"} or function, \
default="euclidean"
        Distance to the centers. ``"euclidean"``: squared; ``"mahalanobis"``: squared, with a
        separate ellipsoid of unit volume for each cluster (Gustafson and Kessel [2]_);
        ``"manhattan"``: sum of absolute differences, centers are medians; ``"cosine"``: one minus
        the cosine. ``"gaussian"`` and a function ``f(X, Y)`` are kernels: squared distances in the
        space of the kernel, from an n x n matrix. The last four hold the features in memory.
    init : array of shape (n_clusters, p), optional
        Centers of a single start.
    n_init : int, default=4
        Number of starts; the best is kept. With many objects the starts compete on a sample.
    max_iter : int, default=300
        Largest number of steps per start.
    tol : float, default=1e-7
        Stop when a step lowers the objective by less than this fraction.
    random_state : int, RandomState, Generator or None, default=None
        Random seed.

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters) or (n, n_clusters + 1)
        One row per object, on the simplex; with ``noise``, the last column is the noise cluster.
    cluster_centers_ : array of shape (n_clusters, p)
    metrics_ : array of shape (n_clusters, p, p)
        With ``metric="mahalanobis"``: matrices that define the distances of the clusters.
    fuzzifier_ : float or None
        The exponent used; None with ``entropy``.
    labels_, objective_, history_, n_clusters_, n_iter_, converged_
        As in every estimator; ``n_clusters_`` counts the columns of the memberships.

    See Also
    --------
    GaussianMixture : Memberships as posterior probabilities.

    References
    ----------
    .. [1] J. C. Bezdek, Pattern Recognition with Fuzzy Objective Function Algorithms, Plenum, 1981.
    .. [2] D. E. Gustafson and W. C. Kessel, Fuzzy clustering with a fuzzy covariance matrix, CDC,
       1979.
    .. [3] R.-P. Li and M. Mukaidono, A maximum-entropy approach to fuzzy clustering, FUZZ-IEEE,
       1995.
    .. [4] R. N. Dave, Characterization and detection of noise in clustering, Pattern Recognition
       Letters 12, 1991.
    .. [5] R. J. Hathaway and J. C. Bezdek, Fuzzy c-means clustering of incomplete data, IEEE
       Transactions on Systems, Man and Cybernetics B 31, 2001.
    .. [6] J. Yu, Q. Cheng and H. Huang, Analysis of the weighting exponent in the FCM, IEEE
       Transactions on Systems, Man and Cybernetics B 34, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import FuzzyCMeans
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1], [2.55]])
    >>> model = FuzzyCMeans(n_clusters=2, random_state=0).fit(X)
    >>> model.memberships_[-1].round(2)
    array([0.5, 0.5])
    >>> np.sort(model.cluster_centers_.ravel()).round(1)
    array([0.3, 4.8])
    """

    _screen: int = 8192  # starts compete on at least a hundred objects per cluster

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = "auto",
        *,
        max_clusters: int = 20,
        fuzzifier: float | str = "auto",
        entropy: float | None = None,
        noise: float | None = None,
        metric: str | Callable[..., Any] = "euclidean",
        init: ArrayLike | None = None,
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-7,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.fuzzifier, self.entropy, self.noise = fuzzifier, entropy, noise
        self.metric, self.init = metric, init
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @observed_only
    @documented
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn memberships from features.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features. Missing values are NaN: distances are computed from the other values and
            rescaled to all features [5]_.
        %(partial_labels)s
        %(sample_weight)s
        must_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong together: they share one row of memberships. With a third
            column of weights q, a pair instead costs q v sum_{j != h} u_ij**m u_lh**m, where v is
            the mean distance of the objects to their mean.
        cannot_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong apart. With weights q in a third column, a pair costs q v
            sum_j u_ij**m u_lj**m; without weights, labels keep all pairs apart if that is possible.
        """
        self._forget()
        if isinstance(self.n_clusters, str) or np.ndim(self.n_clusters):
            links = {"must_link": must_link, "cannot_link": cannot_link}
            return self._fit_automatic(X, sample_weight, y, **links)
        self._check_parameters()
        known = Known.of(must_link, cannot_link, y, X, self.n_clusters)
        self._frame = None
        if not self._needs_memory(X, known):
            return super().fit(X, None, sample_weight=sample_weight)
        self._check_room(X)
        self._fit_in_memory(X, sample_weight, known)
        return self

    @documented
    def predict_proba(self, X: Any, *, n_clusters: int | None = None) -> Any:
        """Memberships of new objects; missing values are treated as in the fit.

        %(new_objects)s
        """
        self._check_fitted()
        plain = self._is_plain(X)
        U = super().predict_proba(X) if plain else self._new_in_memory(X, None)[0]
        return self._new_at(U, n_clusters, X)

    def score(
        self, X: Any, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Minus the objective at the fitted centers, per unit of weight; higher is better."""
        self._check_fitted()
        if self._is_plain(X):
            return super().score(X, y, sample_weight=sample_weight)
        return -self._new_in_memory(X, sample_weight)[1]

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn from one batch: the first one starts the model, later ones move it by decreasing
        steps.

        ``memberships_`` and ``labels_`` are those of this batch.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            A batch of objects, at least ``n_clusters`` in the first one.
        y : ignored
        sample_weight : array of shape (n,), optional
        """
        first = not hasattr(self, "memberships_")
        if self._needs_memory(X, Known()) or (not first and self._frame is not None):
            raise ValueError(
                "partial_fit needs metric='euclidean' or 'mahalanobis' and features without NaN: "
                "use fit"
            )
        if first:
            self.fit(X, sample_weight=sample_weight)
        X = check_features(self, X, reset=False)
        self._absorb(self._rows(X, check_weights(sample_weight, X)), first)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.fuzzifier, str):
            check_choice(self.fuzzifier, "fuzzifier (a number from 1 or 'auto')", ("auto",))
        else:
            check_number(self.fuzzifier, "fuzzifier", low=1.0, high=100.0)
        if not callable(self.metric):
            names = ("euclidean", "mahalanobis", "manhattan", "cosine", "gaussian")
            check_choice(self.metric, "metric (a name or a kernel f(X, Y))", names)
        for name in ("entropy", "noise"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, low=0.0, high=1e100, strict=True)

    def _prepare(self, X: Any, sample_weight: ArrayLike | None) -> Rows:
        X = check_features(self, X, reset=True)
        weights = check_weights(sample_weight, X)
        plain = Rows(X, weights)
        centre = not sp.issparse(X) or self._full
        self._coordinates = measure(plain, per_feature=False, mix=False, centre=centre)
        # Positive even if all objects are equal, so that temperature and noise distance are
        # positive.
        variance = max(float(self._coordinates.variances.sum()), 1e-12)
        self._screen = int(np.clip(100 * self.n_clusters, 2000, 8192))
        rows = self._rows(X, weights)
        rows = rows if self._full else rows.kept()
        few = partial(self._sample, rows, TUNING.sample, np.random.default_rng(0))
        self._rule = self._rule_of(variance, self.n_features_in_, few)
        return rows

    def _sample(self, rows: Rows, size: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features (m, d) and weights (m,) of some objects, sorted."""
        d = self.n_features_in_
        # At most 128 MB of features, unless there are very many clusters.
        size = max(20 * self.n_clusters, min(size, 2**24 // max(d, 1)))

        def features(block: Any) -> Any:
            return _dense(block[:, 1 : d + 1])

        return seeding.sorted_sample(rows, size, rng, features=features)[:2]

    def _rows(self, X: Any, *columns: Any) -> Rows:
        kind = "full" if self._full else "spherical"

        def view(block: Any) -> Any:
            inner = self._coordinates.inner(block)
            return distances.features((_dense(inner) if self._full else inner).T, kind).T

        return Rows(X, *columns, view=view)

    def _start(self, rows: Rows, rng: np.random.Generator) -> kernel.State:
        if self.init is not None:
            centers = np.asarray(self._coordinates.inner(self._given_centers()), dtype=np.float64)
        else:
            X, weights = self._sample(rows, self._screen, rng)
            cap = self._rule.noise or np.inf
            centers = seeding.kmeans_plus_plus(X, weights, self.n_clusters, rng, cap=cap)
        k, d = centers.shape
        return kernel.State(centers, np.tile(np.eye(d), (k, 1, 1)) if self._full else None)

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[loop.Run]:
        # All starts from given centers would be equal.
        return super()._runs(rows, seeds if self.init is None else seeds[:1], total)

    def _run(self, rows: Rows, state: kernel.State, total: float) -> loop.Run:
        max_iter, tol = self.max_iter, self.tol
        if self._rule.hard:  # Lloyd's steps are not extrapolated
            step = self._step(rows)
            return loop.iterate(step, state, max_iter=max_iter, tol=tol, relative_to=total)
        if (block := rows.only_block) is not None:
            compute = kernel.whole_run(block[0].T, block[1], state, self._rule, max_iter, tol)
            if compute is not None:
                return loop.at_once(compute)
        return super()._run(rows, state, total)

    def _ready(self, state: kernel.State) -> kernel.Distances:
        return kernel.ready(state, self._rule)

    def _sum(self, rows: Rows, state: kernel.State) -> kernel.Stats:
        if rows.stacked is None:
            return super()._sum(rows, state)
        ready = self._ready(state)
        together = ready.fused and ready.fine(rows.stacked == np.float64)
        stacks = partial(kernel.summarize, ready=ready) if together else None
        return rows.sum(lambda block, weights: self._summarize(block, weights, ready), stacks)

    def _summarize(self, block: Any, weights: Any, state: kernel.Distances) -> kernel.Stats:
        return kernel.summarize(block.T, weights, state)

    def _update(self, stats: kernel.Stats, state: kernel.State) -> kernel.State:
        return kernel.update(stats, state)

    def _assign(self, block: Array, state: kernel.Distances) -> Any:
        return kernel.memberships(block.T, state)

    _pack = staticmethod(kernel.pack)
    _unpack = staticmethod(kernel.unpack)

    def _best_run(self, rows: Rows) -> loop.Run:
        run = super()._best_run(rows)
        ready = self._ready(run.state)

        def block(Z: Any, weights: Any) -> tuple[np.ndarray]:
            U = to_numpy(self._assign(Z, ready)).astype(np.float64)
            return (U.sum(axis=0) if weights is None else to_numpy(weights) @ U,)

        sizes, centers = rows.sum(block)[0], run.state.centers
        order = distances.largest_first(sizes[: len(centers)], centers)
        metrics = None if run.state.metrics is None else run.state.metrics[order]
        return run._replace(state=kernel.State(centers[order], metrics))

    def _outer(self, objective: float | np.ndarray, total: float) -> Any:
        # The kernel works with power means of distances; see its formulas.
        factor = self._rule.factor(self._state.centers.shape[0] + (self.noise is not None))
        return objective * factor / self._coordinates.scale[0] ** 2

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        centers, metrics = run.state
        dtype = self.memberships_.dtype if isinstance(self.memberships_, np.ndarray) else np.float64
        self.cluster_centers_ = self._coordinates.outer(centers).astype(dtype)
        if metrics is not None:
            self.metrics_ = metrics.astype(dtype)
        if kernel.least_gap(centers) <= self._indistinct(weight_of(rows)):
            name, value = "fuzzifier", self.fuzzifier_
            if self.entropy is not None:
                name, value = "entropy", self.entropy
            warn(
                f"some of the {len(centers)} centers coincide: the data hold fewer clusters than "
                f"n_clusters={self.n_clusters}, or {name}={value:g} is too large for them; lower "
                "either"
            )

    def _indistinct(self, total: float) -> float:
        """Squared distance below which two centers count as one.

        For centers at a squared distance g and objects at a mean distance D, the two memberships of
        an object in the direction between the centers differ by a factor of about 1 + sqrt(2 g /
        ((m - 1) D)).
        """
        least = 1e-8 * float(self._coordinates.variances.sum())
        if self.entropy is not None or self._full:
            return least
        scale = float(self._coordinates.scale[0])
        spread = float(self.objective_) / total * scale * scale
        return max(least, 0.5 * TUNING.alike**2 * (self._rule.fuzzifier - 1.0) * spread)


def _dense(block: Any) -> Any:
    return block.toarray() if sp.issparse(block) else block
