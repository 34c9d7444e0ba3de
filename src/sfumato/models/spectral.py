"""Spectral clustering with memberships, for fitted and for new objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..array.arrays import as_dense, asarray_like, namespace, native, to_numpy
from ..array.docs import documented
from ..array.types import Array, RandomState, Similarity
from ..array.validation import as_generator, check_choice
from ..array.warn import warn
from ..data.constraints import Known, largest_first, match_columns, matching, reordered
from ..engine import loop
from ..engine.objects import chained, joined, merged
from ..engine.similarity_base import SimilarityClusterer
from ..engine.similarity_evidence import Evidence
from ..numerics import eigen, operators
from ..numerics.distances import unit_rows
from ..numerics.eigen import Spectrum, leading_eigenvectors
from ..numerics.simplex import normalize
from ..selection.automatic import AutomaticSimilarity
from ..similarity import ClusterKernel

CONTINUUM = 0.22  # cost per further cluster; a plain interval cut in halves has 1 - 8 / pi^2 = 0.19


@documented
class SpectralClustering(AutomaticSimilarity, SimilarityClusterer):
    """Clusters in the leading eigenvectors of the normalised similarity, with memberships.

    With degrees d = W 1 and the k leading eigenvectors E of D^-1/2 W D^-1/2, objects are embedded
    as e_i / sqrt(d_i) (normalized cuts, Bach and Jordan) or as e_i / |e_i| (Ng, Jordan and Weiss,
    whose W has a zero diagonal). K-means then finds the clusters (weighted by d_i in the method of
    Bach and Jordan). Memberships are posteriors of a mixture of spherical Cauchy densities around
    the centers, so the label is the nearest center.

    Parameters
    ----------
    %(spectrum)s
    similarity : "precomputed", "knn", "self-tuning", "gaussian", "cosine", "cluster-kernel" or
    function, default "knn"
    %(similarity)s
    method : {"normalized-cut", "ng-jordan-weiss", "bach-jordan"}
        The embedding and, unless ``rounding`` is given, its rounding.
    rounding : {"k-means", "weighted-k-means"}, estimator or None
        How the embedding is turned into clusters; ``None`` uses that of the method. An estimator
        with ``fit`` and ``predict_proba``, such as a Gaussian mixture, provides the memberships.
    n_init : int
        Number of starts of k-means; the best is kept.
    max_iter, tol : int, float
        Largest number of k-means steps, and the relative decrease of the distortion to stop at.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, n_clusters)
    eigenvalues_ : array of shape (n_clusters,)
        Eigenvalues of the normalised similarity, descending.
    eigengap_ : float
        Difference to the next eigenvalue: the larger, the clearer the number of clusters.
    cost_ : float
        J = 1/2 |E E' - Pi|^2, the distance between eigenvectors and cluster indicators; 0 for
        perfect clusters.
    cluster_centers_ : array of shape (n_clusters, n_clusters)
    temperature_ : float
        Squared scale of the densities behind the memberships.
    objective_ : float
        The (weighted) distortion of k-means; equal to ``cost_`` for Bach and Jordan's method.
    history_, n_iter_, converged_, n_clusters_ : array, int, bool, int

    Notes
    -----
    ``must_link`` joins rows and raises their similarity; with weights w in a third column, it only
    raises the similarity by w. ``cannot_link`` lowers the similarity by w (by default, a tenth of
    the mean degree) before labels are separated; degrees are sums of absolute similarities (signed
    Laplacian).

    %(filled)s

    References
    ----------
    Shi and Malik (2000). Normalized cuts and image segmentation. IEEE TPAMI 22(8).
    Ng, Jordan and Weiss (2001). On spectral clustering. NIPS 14.
    Bach and Jordan (2006). Learning spectral clustering. JMLR 7.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import SpectralClustering
    >>> W = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> model = SpectralClustering(2, similarity="precomputed", random_state=0).fit(W)
    >>> bool(model.labels_[0] == model.labels_[2] != model.labels_[3])
    True
    >>> model.predict(W[:1] * 7) == model.labels_[:1]
    array([ True])
    """

    _signed = True

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        max_clusters: int = 20,
        similarity: str | Callable[..., Any] = "knn",
        method: str = "normalized-cut",
        rounding: str | None = None,
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 0.0,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters, self.similarity = max_clusters, similarity
        self.method, self.rounding = method, rounding
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        W, weights = _linked(evidence, known, self._group), evidence.weights
        if self.method == "ng-jordan-weiss" and W.shape[0] > 1:
            W = _without_diagonal(W, weights)
        degree = _connected_degrees(W, weights)
        operator = operators.normalized_operator(W, degree, weights)
        spectrum = leading_eigenvectors(operator, self.n_clusters)
        self._scaling, self._rotation = operator.scaling, _over_eigenvalues(spectrum)
        self._weights = weights
        self.eigenvalues_ = spectrum.values
        self.eigengap_ = float(spectrum.values[-1]) - spectrum.following
        # Rows of the eigenvectors are sqrt(v) times those of single copies.
        scaling = operator.scaling
        if weights is not None:
            scaling = scaling / weights.astype(scaling.dtype)
        Z = self._row(spectrum.vectors, scaling)
        memberships, run = self._round_joined(Z, degree, weights, known)
        memberships = _share(memberships, degree)
        labels = namespace(memberships).argmax(memberships, axis=1)
        volume = degree if weights is None else degree * weights
        self.cost_ = eigen.spectral_cost(spectrum.vectors, volume, labels, self.n_clusters)
        self._warn_if_arbitrary(spectrum)
        self.embedding_ = Z if self._group is None else _of_rows(Z, self._group)
        self._publish(self._spread(memberships, X), run)

    def _join(self, evidence: Evidence, known: Known) -> Evidence:
        """The evidence unchanged: linked rows are joined in the embedding, not in the graph."""
        return evidence

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.method, "method", ("normalized-cut", "ng-jordan-weiss", "bach-jordan"))
        if self.rounding is not None and not hasattr(self.rounding, "predict_proba"):
            name = "rounding (or None, or an estimator with predict_proba)"
            check_choice(self.rounding, name, ("k-means", "weighted-k-means"))

    def _row(self, E: Any, scaling: Any) -> Any:
        """Rows of the embedding, from rows of eigenvectors."""
        return unit_rows(E) if self.method == "ng-jordan-weiss" else E * scaling[:, None]

    def _round_joined(self, Z: Any, degree: Any, v: Any, known: Known) -> tuple[Any, loop.Run]:
        """Like ``_round``, with must-linked objects treated as one, at their mean."""
        size = Z.shape[0]
        if known.component is None:
            return self._round(Z, degree, v, None)
        group = np.arange(known.component.size) if self._group is None else self._group
        joints = merged(v, joined(group, size, known.component))
        assert joints.group is not None
        labels = known.held(chained(group, joints.group), joints.size)
        Z, degree = (np.asarray(joints.averages().T @ part) for part in (Z, degree))
        memberships, run = self._round(Z, degree, joints.weights, labels)
        return memberships[joints.group], run

    def _round(self, Z: Array, degree: Array, v: Any, labels: Any) -> tuple[Any, loop.Run]:
        """Memberships of the embedded objects, and the run that found the clusters."""
        if hasattr(self.rounding, "predict_proba"):
            return self._round_by_estimator(to_numpy(Z), v, labels)
        xp = namespace(Z)
        own = "weighted-k-means" if self.method == "bach-jordan" else "k-means"
        weighted = (self.rounding or own) == "weighted-k-means"
        # Objects without any similarity have no position and must not affect a center.
        weights = degree if weighted else xp.astype(degree > 0, Z.dtype)
        weights = weights if v is None else weights * xp.asarray(v, dtype=Z.dtype)
        rows = np.flatnonzero(to_numpy(degree) > 0)
        n_init, rng = min(self.n_init, rows.size), as_generator(self.random_state)
        firsts = rng.choice(rows, size=n_init, replace=False).tolist()
        host, settings = (to_numpy(Z), to_numpy(weights)), (self.max_iter, self.tol)
        run = best_of_starts(*host, self.n_clusters, firsts, *settings)
        centers = asarray_like(run.state, Z)
        distances = eigen.squared_distances(Z, centers)
        self.temperature_ = eigen.temperature(distances, weights, self._dimension)
        memberships = eigen.cauchy_memberships(distances, self.temperature_, self._dimension)
        order = self._column_order(memberships, v, labels)
        self.cluster_centers_ = reordered(centers, order, 0)
        if labels is not None:
            return match_columns(memberships, labels), run
        return reordered(memberships, order, 1), run

    def _column_order(self, memberships: Any, v: Any, labels: Any) -> np.ndarray:
        """Order of the columns: by known labels, otherwise by size."""
        return largest_first(memberships, v) if labels is None else matching(memberships, labels)

    def _round_by_estimator(
        self, Z: np.ndarray, v: Any, labels: Any
    ) -> tuple[np.ndarray, loop.Run]:
        """Memberships from ``rounding``, an estimator, fitted to the embedded objects."""
        weights = {} if v is None else {"sample_weight": v}
        if v is not None and not has_fit_parameter(self.rounding, "sample_weight"):
            raise ValueError("rounding must accept sample_weight in fit where weights are given")
        self._rounder = clone(self.rounding).fit(Z, **weights)
        objective = -float(self._rounder.score(Z)) if hasattr(self._rounder, "score") else np.nan
        found = normalize(np.asarray(self._rounder.predict_proba(Z), dtype=Z.dtype))
        self._order = self._column_order(found, v, labels)
        found = found[:, self._order] if labels is None else match_columns(found, labels)
        return found, loop.Run(None, objective, np.array([objective]), 1, True)

    @property
    def _dimension(self) -> int:
        """Dimension of the embedded clusters: k clusters span k - 1 dimensions."""
        return max(1, self.eigenvalues_.shape[0] - 1)

    def _warn_if_arbitrary(self, spectrum: Spectrum) -> None:
        n, k = spectrum.vectors.shape
        if not 1 < k < n:
            return
        rounding = max(1e-9, 10 * float(np.finfo(operators.dtype_of(spectrum.values)).eps))
        gap = self.eigengap_
        if gap <= rounding and spectrum.following > 1 - rounding:
            what = (
                f"the similarity falls into more than n_clusters={k} unconnected pieces: how they "
                "are grouped is arbitrary"
            )
        elif gap <= rounding:
            what = f"no eigengap after {k} eigenvalues: how the objects are grouped is arbitrary"
        elif self.cost_ > CONTINUUM * (k - 1):
            what = (
                f"the leading eigenvectors look like a continuum, not like {k} clusters (cost_ "
                f"{self.cost_:.2g}): the boundaries may be arbitrary; try another n_clusters or "
                "similarity"
            )
        elif spectrum.residual > max(1e-3, 10 * gap):
            what = (
                f"the eigenvectors are known to {spectrum.residual:.1g} only, and the eigengap is "
                f"{gap:.1g}: the clusters are uncertain"
            )
        else:
            return
        warn(what)

    def _place(self, rows: Any) -> Any:
        """Memberships of new objects, embedded by the Nystrom formula."""
        Z, degree = self._embed(rows)
        dtype = self._rotation.dtype
        if hasattr(self.rounding, "predict_proba"):
            found = self._rounder.predict_proba(to_numpy(Z))[:, self._order]
            memberships = normalize(np.asarray(found, dtype=dtype))
        else:
            distances = eigen.squared_distances(Z, self.cluster_centers_)
            memberships = eigen.cauchy_memberships(distances, self.temperature_, self._dimension)
        return _share(memberships, degree)

    def _embed(self, rows: Any) -> tuple[Any, Any]:
        """New objects in the embedding of the fitted ones, and their degrees."""
        xp, dtype = namespace(self._rotation), self._rotation.dtype
        v = xp.ones_like(self._scaling)
        v = v if self._weights is None else v * xp.asarray(self._weights, dtype=v.dtype)
        degree = as_dense(operators.magnitudes(rows) @ v, dtype)
        # Objects similar to nothing have no direction; ``_share`` gives them equal memberships.
        reciprocal = 1 / xp.where(degree > 0, degree, xp.ones_like(degree))
        E = as_dense(rows @ (self._scaling[:, None] * self._rotation), dtype)
        return self._row(E, reciprocal), degree

    def _explained(self, rows: Any, weights: np.ndarray) -> float:
        arrays = self._embed(rows)[0], self.memberships_, self.embedding_
        Z, U, fitted = (to_numpy(part).astype(np.float64) for part in arrays)
        if U.shape[1] == 1:
            return 0.0
        centers = (U.T @ fitted) / np.maximum(U.sum(axis=0), np.finfo(float).tiny)[:, None]
        spread = float(weights @ np.square(Z - fitted.mean(axis=0)).sum(axis=1))
        left = float(weights @ eigen.squared_distances(Z, centers).min(axis=1))
        return 1.0 - left / spread if spread > 0 else 0.0


def _linked(evidence: Evidence, known: Known, group: Any) -> Any:
    """The similarity with links as edges; pairs of low weight are filled up with means."""
    W = evidence.filled()
    if known.links is None or isinstance(W, ClusterKernel):
        return W
    W = W.toarray() if hasattr(W, "factor") else W
    if not (isinstance(W, np.ndarray) or sp.issparse(W)):
        raise ValueError(
            "must_link, cannot_link and y need a similarity that is an array, sparse or factored"
        )
    size = W.shape[0]
    W = W + known.edges(group, size, float(abs(W).sum()) / size)
    return sp.csr_array(W) if sp.issparse(W) else np.asarray(W)


def _without_diagonal(W: Any, weights: Any) -> Any:
    """W without similarities of objects to themselves, but with those between copies."""
    diagonal = operators.diagonal_of(W)
    if weights is not None:
        diagonal = diagonal * np.minimum(1.0, 1.0 / weights).astype(operators.dtype_of(W))
    return (
        sp.csr_array(W - sp.diags_array(diagonal))
        if sp.issparse(W)
        else operators.Shifted(W, -diagonal)
    )


def _of_rows(Z: Any, group: np.ndarray) -> np.ndarray:
    """Embedding of all rows; zeros for rows that did not take part in the fit."""
    rows = np.zeros((group.size, Z.shape[1]), dtype=Z.dtype)
    rows[group >= 0] = Z[group[group >= 0]]
    return rows


def _connected_degrees(W: Similarity, weights: Any) -> Any:
    """Degrees; raises ValueError if no objects are similar."""
    degree = operators.positive_degrees(W, weights, "W")
    least, most = float(degree[degree > 0].min()), float(degree.max())
    if least < float(namespace(degree).finfo(degree.dtype).tiny) ** 0.75 * most:
        raise ValueError(
            f"W has objects whose similarities sum to {least:.0e} and others with {most:.0e}, too "
            "different to be scaled: set the small ones to 0, or drop those objects"
        )
    return degree


def _over_eigenvalues(spectrum: Spectrum) -> Any:
    """E diag(1 / lambda); zero for eigenvalues at rounding level."""
    values, vectors = spectrum.values, spectrum.vectors
    xp = namespace(values)
    usable = xp.abs(values) > vectors.shape[0] * xp.finfo(values.dtype).eps
    inverse = 1 / xp.where(usable, values, xp.ones_like(values))
    return vectors * xp.where(usable, inverse, xp.zeros_like(values))


def _share(memberships: Array, degree: Array) -> Any:
    """Memberships in which objects without any similarity are shared equally."""
    xp = namespace(memberships)
    alike = xp.full_like(memberships, 1 / memberships.shape[1])
    return xp.where((degree > 0)[:, None], memberships, alike)


def best_of_starts(
    Z: np.ndarray, weights: np.ndarray, k: int, firsts: list[int], max_iter: int, tol: float
) -> loop.Run:
    """The run with the smallest distortion, started from rows most orthogonal to ``firsts``."""
    steps = native("kmeans")

    def solved(centers: np.ndarray) -> loop.Run:
        state, _, history, done = steps.lloyd(Z, weights, centers, max_iter, tol)
        return loop.Run(state.astype(Z.dtype), history[-1], history, len(history), done)

    starts = Z[steps.orthogonal_rows(Z, k, firsts)]
    return loop.best([loop.at_once(partial(solved, start)) for start in starts], larger=False)
