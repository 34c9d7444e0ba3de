"""Fuzzy c-means as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import as_dense, to_numpy
from ...array.docs import documented
from ...array.rows import Rows, add, has_missing
from ...array.types import Array, ArrayLike, RandomState
from ...array.validation import (
    check_array,
    check_choice,
    check_n_clusters,
    check_number,
    check_weights,
)
from ...array.warn import warn
from ...data.constraints import Known
from ...data.features import check_features
from ...engine import loop
from ...engine.base import InductiveClusterer, weight_of
from ...engine.clusterer import Constrained
from ...engine.kernel_space import KernelSpace
from ...engine.linked import Linked, publish_kept
from ...numerics import distances, seeding
from ...numerics.distances import Coordinates, measure
from ...selection.automatic import AutomaticClusters
from . import kernel
from .kernel import TUNING, LinkedUnits

__all__ = ["FuzzyCMeans"]


@documented
class FuzzyCMeans(AutomaticClusters, Constrained, InductiveClusterer):
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
    noise_cluster : float, optional
        Adds a last column to the memberships, a noise cluster [4]_ at the same distance from every
        object: ``noise_cluster`` times the root mean square distance of the objects to their mean.
    metric : {"euclidean", "mahalanobis", "gaussian"} or function, default="euclidean"
        Squared distance to the centers. ``"mahalanobis"``: with a separate ellipsoid of unit volume
        for each cluster (Gustafson and Kessel [2]_). ``"gaussian"`` and a function ``f(X, Y)`` are
        kernels: distances in the space of the kernel, from an n x n matrix.
    init : array of shape (n_clusters, p), optional
        Centers of a single start.
    n_init : int, default=4
        Number of starts; the best is kept. With many objects the starts compete on a sample.
    %(descent)s

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters) or (n, n_clusters + 1)
        One row per object, on the simplex; with ``noise_cluster``, the last column is that of the
        noise cluster.
    cluster_centers_ : array of shape (n_clusters, p)
    metrics_ : array of shape (n_clusters, p, p)
        With ``metric="mahalanobis"``: matrices that define the distances of the clusters.
    fuzzifier_ : float or None
        The exponent used; None with ``entropy``.
    labels_, objective_, history_, n_clusters_, n_iter_, converged_
        As in every estimator; ``n_clusters_`` counts the columns of the memberships.

    Notes
    -----
    Distances of objects with missing values (NaN) are computed from the other values and rescaled
    to all features [5]_. With a third column of weights q, a pair of ``must_link`` costs q v
    sum_{j != h} u_ij**m u_lh**m, where v is the mean distance of the objects to their mean, and a
    pair of ``cannot_link`` q v sum_j u_ij**m u_lj**m.

    References
    ----------
    .. [1] J. C. Bezdek, Pattern Recognition with Fuzzy Objective Function Algorithms, Plenum, 1981.
    .. [2] Gustafson and Kessel, Fuzzy clustering with a fuzzy covariance matrix, CDC, 1979.
    .. [3] Li and Mukaidono, A maximum-entropy approach to fuzzy clustering, FUZZ-IEEE, 1995.
    .. [4] Dave, Characterization and detection of noise, Pattern Recognition Letters 12, 1991.
    .. [5] Hathaway and Bezdek, Fuzzy c-means of incomplete data, IEEE Trans. SMC B 31, 2001.
    .. [6] Yu, Cheng and Huang, Analysis of the weighting exponent, IEEE Trans. SMC B 34, 2004.

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

    fuzzifier_: float | None
    _coordinates: Coordinates
    _rule: kernel.Rule
    _space: KernelSpace | None = None
    _kind = "spherical"  # kind of features in the fit, see ``kernel``
    _linked: LinkedUnits | None = None  # only during a fit

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = "auto",
        *,
        max_clusters: int = 20,
        fuzzifier: float | str = "auto",
        entropy: float | None = None,
        noise_cluster: float | None = None,
        metric: str | Callable[..., Any] = "euclidean",
        init: ArrayLike | None = None,
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-7,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.fuzzifier, self.entropy, self.noise_cluster = fuzzifier, entropy, noise_cluster
        self.metric, self.init = metric, init
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _learn(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, links: tuple[Any, Any]
    ) -> Any:
        if isinstance(self.n_clusters, str) or np.ndim(self.n_clusters):
            pairs = dict(zip(("must_link", "cannot_link"), links, strict=True))
            return self._fit_automatic(X, sample_weight, y, **pairs)
        self._check_parameters()
        known = Known.of(*links, y, X, self.n_clusters)
        self._check_memory(X)
        X = check_features(self, X, reset=True, missing=not self._in_space)
        if known.links is not None or self._in_space:
            if self._full:
                raise ValueError("metric='mahalanobis' takes no links: choose metric='euclidean'")
            if not (isinstance(X, np.ndarray) or sp.issparse(X)):
                raise ValueError("links and kernels need X as a NumPy array")
        check_n_clusters(self.n_clusters, X.shape[0])
        rows = self._in_coordinates(X, check_weights(sample_weight, X), known)
        self._finish(rows, self._best_run(rows))
        self._linked = None
        publish_kept(self, known)
        return self

    def _in_coordinates(self, X: Any, weights: Any, known: Known) -> Rows:
        """The rows of a fit in coordinates learnt here, with the rule of memberships."""
        self._space, points = None, X
        if self._in_space:
            self._space, points = KernelSpace.of(X, self.metric, "metric", 0.5**0.5)
        plain, centre = Rows(points, weights), not sp.issparse(points) or self._full
        self._kind = "full" if self._full else "spherical"
        if not self._in_space and has_missing(plain):
            if self._full:
                raise ValueError(
                    "X contains NaN, and metric='mahalanobis' needs complete features: choose "
                    "metric='euclidean'"
                )
            self._kind = "partial"
        self._coordinates = measure(plain, per_feature=False, mix=False, centre=centre)
        # Positive even if all objects are equal, so that temperature and noise distance are
        # positive.
        unit = max(float(self._coordinates.variances.sum()), 1e-12)
        rows = Rows(points, weights, view=partial(self._seen, kind=self._kind))
        rows = rows if self._full else rows.kept()
        self._rule = self._rule_of(rows, unit, points.shape[1])
        links = Linked.of(known, 1e4)  # a cannot-link without weight costs this many mean distances
        self._linked = None
        if links is not None:
            w = np.ones(len(links.rows)) if weights is None else weights[links.rows]
            Z = self._seen(points[links.rows], kind=self._kind).astype(np.float64)
            self._linked = LinkedUnits.of(links, np.asarray(as_dense(Z)), w, unit)
        return rows

    def _seen(self, points: Any, *, kind: str) -> Any:
        """z(x) (b, q) of features, or of rows in the space of the kernel, in scaled coordinates."""
        inner = self._coordinates.inner(points)
        if kind == "partial":
            inner = np.asarray(as_dense(inner), dtype=np.float64)
        return kernel.features((as_dense(inner) if kind == "full" else inner).T, kind).T

    def _new(self, X: Any, sample_weight: ArrayLike | None = None) -> tuple[Rows, kernel.Distances]:
        """New objects in the form of the fitted model, and the centers for a pass over them."""
        self._check_fitted()
        X = check_features(self, X, reset=False, missing=self._missing)
        weights, kind = check_weights(sample_weight, X), self._kind
        if self._missing and has_missing(Rows(X)):
            kind = "partial"

        def view(block: Any) -> Any:
            if self._space is None:
                return self._seen(block, kind=kind)
            F, beyond = self._space(block)
            Z = self._seen(F, kind=kind)
            Z[:, -1] += beyond * self._coordinates.scale[0] ** 2
            return Z

        return Rows(X, weights, view=view), kernel.ready(self._state, self._rule, kind)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn from one batch ``X`` (n, p) of objects, dense or sparse, with weights (n,): the
        first one, of at least ``n_clusters`` objects, starts the model, later ones move it by
        decreasing steps. Values may be missing (NaN) if they are in the first one.

        ``memberships_`` and ``labels_`` are those of this batch."""
        first = not hasattr(self, "memberships_")
        if self._in_space:
            raise ValueError("partial_fit needs metric='euclidean' or 'mahalanobis': use fit")
        if first:
            self.fit(X, sample_weight=sample_weight)
        missing = self._kind == "partial"
        X = check_features(self, X, reset=False, missing=missing)
        view = partial(self._seen, kind=self._kind)
        self._absorb(Rows(X, check_weights(sample_weight, X), view=view), first)
        return self

    @property
    def _full(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "mahalanobis"

    @property
    def _missing(self) -> bool:  # type: ignore[override]
        return isinstance(self.metric, str) and self.metric == "euclidean"

    @property
    def _in_space(self) -> bool:
        return not (self._missing or self._full)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.fuzzifier, str):
            check_choice(self.fuzzifier, "fuzzifier (a number from 1 or 'auto')", ("auto",))
        else:
            check_number(self.fuzzifier, "fuzzifier", low=1.0, high=100.0)
        if not callable(self.metric):
            names = ("euclidean", "mahalanobis", "gaussian")
            check_choice(self.metric, "metric (a name or a kernel f(X, Y))", names)
        for name in ("entropy", "noise_cluster"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, low=0.0, high=1e100, strict=True)

    def _rule_of(self, rows: Rows, unit: float, width: int) -> kernel.Rule:
        """The rule that turns distances (of mean ``unit``) into memberships; the fuzzifier may be
        chosen from the rows, of length ``width``."""
        noise = None if self.noise_cluster is None else self.noise_cluster**2 * unit
        if self.entropy is not None:
            self.fuzzifier_ = None
            return kernel.Rule(TUNING.classical, self.entropy * unit, noise)
        self.fuzzifier_ = TUNING.classical
        if not isinstance(self.fuzzifier, str):
            self.fuzzifier_ = float(self.fuzzifier)
        elif kernel.least(width) < TUNING.classical:
            sample = self._sample(rows, TUNING.sample, np.random.default_rng(0))
            self.fuzzifier_ = kernel.choose(
                *sample, self.n_clusters, ellipsoids=self._full, cap=noise or np.inf
            )
        return kernel.Rule(self.fuzzifier_, None, noise)

    def _sample(self, rows: Rows, size: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features (m, d), with NaN if missing, and weights (m,) of some objects, sorted."""
        d = len(self._coordinates.variances)
        # At most 128 MB of features, unless there are very many clusters.
        size = max(20 * self.n_clusters, min(size, 2**24 // max(d, 1)))

        def features(block: Any) -> Any:
            X = as_dense(block[:, 1 : d + 1])
            if self._kind != "partial":
                return X
            share = block[:, d + 1 :]
            return np.where(share > 0, X / np.where(share > 0, share, 1.0), np.nan)

        return seeding.sorted_sample(rows, size, rng, features=features, key=np.nan_to_num)[:2]

    def _start(self, rows: Rows, rng: np.random.Generator) -> kernel.State:
        if self.init is not None:
            given = check_array(self.init, "init", (self.n_clusters, self.n_features_in_))
            given = given if self._space is None else self._space(given)[0]
            centers = np.asarray(self._coordinates.inner(given), dtype=np.float64)
        else:
            X, weights = self._sample(rows, self._few, rng)
            cap = self._rule.noise or np.inf
            whole = np.nan_to_num(X)
            centers = seeding.kmeans_plus_plus(whole, weights, self.n_clusters, rng, cap=cap)
        k, d = centers.shape
        state = kernel.State(centers, np.tile(np.eye(d), (k, 1, 1)) if self._full else None)
        return state if self._linked is None else self._linked.numbered(state, self._ready(state))

    @property
    def _few(self) -> int:
        """Number of objects on which starts compete: a hundred per cluster."""
        return int(np.clip(100 * self.n_clusters, 2000, 8192))

    @property
    def _screen(self) -> int | None:  # type: ignore[override]
        return self._few if self._linked is None else None  # links concern all objects

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[loop.Run]:
        # All starts from given centers would be equal.
        seeds = seeds if self.init is None else seeds[:1]
        if self._linked is None:
            return super()._runs(rows, seeds, total)
        # Steps take longer with links, so only the most promising start goes on.
        states = (self._start(rows, np.random.default_rng(seed)) for seed in seeds)
        step, few = self._step(rows), TUNING.screened
        first = [loop.iterate(step, state, max_iter=few, tol=0.0) for state in states]
        return [self._run(rows, loop.best(first, larger=False).state, total)]

    def _run(self, rows: Rows, state: kernel.State, total: float) -> loop.Run:
        max_iter, tol = self.max_iter, self.tol
        if self._rule.hard:  # steps of Lloyd's algorithm are not extrapolated
            return loop.iterate(
                self._step(rows), state, max_iter=max_iter, tol=tol, relative_to=total
            )
        if self._linked is not None:
            return super()._run(rows, state, total)
        if self._kind == "spherical" and (block := rows.only_block) is not None:
            compute = kernel.whole_run(block[0].T, block[1], state, self._rule, max_iter, tol)
            if compute is not None:
                return loop.at_once(compute)
        return super()._run(rows, state, total)

    def _step(self, rows: Rows) -> loop.Step:
        linked, weights = self._linked, rows.columns[0]
        if linked is None:
            return super()._step(rows)
        # Free rows by sums over blocks, linked rows separately.
        free = np.ones(rows.shape[0]) if weights is None else weights.copy()
        free[linked.links.rows] = 0.0
        others = rows.with_columns(free)

        def step(state: kernel.State) -> tuple[kernel.State, float]:
            ready = self._ready(state)
            U, own = linked.summarize(state, ready)
            stats = add(self._sum(others, state), own)
            return self._update(stats, state)._replace(linked=U), stats.objective

        return step

    def _objective(self, rows: Rows, ready: kernel.Distances) -> float:
        if self._linked is None:
            return super()._objective(rows, ready)
        return self._step(rows)(self._state)[1]

    def _ready(self, state: kernel.State) -> kernel.Distances:
        return kernel.ready(state, self._rule, self._kind)

    def _summarize(self, block: Any, weights: Any, state: kernel.Distances) -> kernel.Stats:
        return kernel.summarize(block.T, weights, state)

    def _update(self, stats: kernel.Stats, state: kernel.State) -> kernel.State:
        return kernel.update(stats, state, self._kind)

    def _assign(self, block: Array, state: kernel.Distances) -> Any:
        return kernel.memberships(block.T, state)

    def _memberships(self, rows: Rows, ready: kernel.Distances) -> Any:
        U = super()._memberships(rows, ready)
        if self._linked is not None:
            links = self._linked.links
            U[links.rows] = self._linked.summarize(self._state, ready)[0][links.unit]
        return U

    _pack = staticmethod(kernel.pack)
    _unpack = staticmethod(kernel.unpack)

    def _best_run(self, rows: Rows) -> loop.Run:
        run = super()._best_run(rows)
        if self._linked is not None and self._linked.labelled:
            return run
        ready, linked = self._ready(run.state), run.state.linked

        def block(Z: Any, weights: Any) -> tuple[np.ndarray]:
            U = to_numpy(self._assign(Z, ready)).astype(np.float64)
            return (U.sum(axis=0) if weights is None else to_numpy(weights) @ U,)

        sizes, centers = rows.sum(block)[0], run.state.centers
        order = distances.largest_first(sizes[: len(centers)], centers)
        metrics = None if run.state.metrics is None else run.state.metrics[order]
        if linked is not None:
            linked = linked[:, [*order, *range(len(order), linked.shape[1])]]
        return run._replace(state=kernel.State(centers[order], metrics, linked))

    def _outer(self, objective: float | np.ndarray, total: float) -> Any:
        # The kernel works with power means of distances; see its formulas.
        factor = self._rule.factor(self._state.centers.shape[0] + (self.noise_cluster is not None))
        return objective * factor / self._coordinates.scale[0] / self._coordinates.scale[0]

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        centers, metrics, _ = run.state
        dtype = rows.dtype if isinstance(self.memberships_, np.ndarray) else np.float64
        if self._space is None:
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
        """Squared distance below which two centers count as one. For centers at a squared distance
        g and objects at a mean distance D, the two memberships of an object in the direction
        between the centers differ by a factor of about 1 + sqrt(2 g / ((m - 1) D))."""
        least = 1e-8 * float(self._coordinates.variances.sum())
        if self.entropy is not None or self._full:
            return least
        scale = float(self._coordinates.scale[0])
        spread = float(self.objective_) / total * scale * scale
        return max(least, 0.5 * TUNING.alike**2 * (self._rule.fuzzifier - 1.0) * spread)
