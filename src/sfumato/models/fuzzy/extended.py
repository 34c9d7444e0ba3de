"""Fuzzy c-means in memory: other metrics and kernels, missing values, links."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.rows import Rows
from ...array.types import ArrayLike
from ...array.validation import as_generator, check_choice, check_n_clusters, check_weights
from ...data.constraints import Known, matching
from ...data.features import check_features
from ...engine import loop
from ...engine.base import InductiveClusterer
from ...engine.kernel_space import KernelSpace
from ...engine.linked import Linked, publish_kept
from ...engine.similarity_evidence import has_gaps
from ...numerics import distances, seeding
from ...numerics.coordinates import Coordinates, measure
from . import fuzziness, general, kernel
from .fuzziness import TUNING
from .general import geometry_of

__all__ = ["ExtendedFuzzy"]

METRICS = ("euclidean", "mahalanobis", "manhattan", "cosine", "gaussian")


class Frame(NamedTuple):
    """How features become the rows of a geometry: in coordinates, or in the space of a kernel."""

    coordinates: Coordinates | None = None
    space: KernelSpace | None = None

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, q) of new objects, and the squared distance (n,) of each from their space."""
        if self.space is not None:
            return self.space(X)
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        rows = X if self.coordinates is None else self.coordinates.inner(X)
        return np.asarray(rows, dtype=np.float64), np.zeros(len(X))


class ExtendedFuzzy(InductiveClusterer):
    """Fits that the sums over row blocks do not express; the features are held in memory."""

    fuzzifier: float | str
    fuzzifier_: float | None
    entropy: float | None
    noise: float | None
    metric: Any
    init: Any
    _frame: Frame | None = None
    _coordinates: Coordinates
    _rule: kernel.Rule
    _unit: float

    @property
    def _full(self) -> bool:
        """Whether clusters have ellipsoids of their own."""
        return isinstance(self.metric, str) and self.metric == "mahalanobis"

    @property
    def _euclidean(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "euclidean"

    def _needs_memory(self, X: Any, known: Known) -> bool:
        """Whether this fit is not one of plain sums."""
        summed = self._euclidean or self._full
        return not summed or _has_gaps(X) or known.links is not None

    def _check_metric(self) -> None:
        if not callable(self.metric):
            check_choice(self.metric, "metric (a name or a kernel f(X, Y))", METRICS)

    def _fit_in_memory(self, X: Any, sample_weight: ArrayLike | None, known: Known) -> None:
        if self._full:
            raise ValueError(
                "metric='mahalanobis' needs complete features and takes no links: choose "
                "metric='euclidean'"
            )
        X = check_features(self, X, reset=True, missing=self._euclidean)
        if not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise ValueError("metric, missing values and links need X as a NumPy array")
        check_n_clusters(self.n_clusters, X.shape[0])
        weights = check_weights(sample_weight, X)
        w = np.ones(X.shape[0]) if weights is None else weights
        Y = self._place_objects(X, weights)
        geometry = geometry_of(self._named(), Y)
        unit = _spread(Y, w, self._named())
        rule = self._rule_of(unit, Y.shape[1], partial(self._sample_in_memory, Y, w))
        links = Linked.of(known, general.HARD)
        problem = general.Problem(geometry, w, rule, links, unit)
        run = loop.best(self._runs_in_memory(problem, Y, X), larger=False)
        self._publish_in_memory(problem, run, X.dtype)
        publish_kept(self, known)

    def _rule_of(
        self, unit: float, width: int, sample: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> kernel.Rule:
        """How distances become memberships; ``unit`` is their mean from the middle of the data.

        ``sample()`` gives rows of ``width`` numbers and their weights for the choice of the
        fuzzifier.
        """
        noise = None if self.noise is None else self.noise**2 * unit
        if self.entropy is not None:
            self.fuzzifier_ = None
            return kernel.Rule(TUNING.classical, self.entropy * unit, noise)
        order = 1 if self._named() == "manhattan" else 2
        if not isinstance(self.fuzzifier, str):
            value = float(self.fuzzifier)
        elif fuzziness.least(width, order) == TUNING.classical:
            value = TUNING.classical
        else:
            value = fuzziness.choose(
                *sample(), self.n_clusters, order=order, ellipsoids=self._full, cap=noise or np.inf
            )
        self.fuzzifier_ = value
        return kernel.Rule(value, None, noise)

    def _sample_in_memory(self, Y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = max(20 * self.n_clusters, TUNING.sample)
        rows = Rows(Y, w) if len(Y) <= size else Rows(Y, w).sample(size, np.random.default_rng(0))
        first, weights = rows.X, rows.columns[0]
        weights = np.ones(len(first)) if weights is None else weights
        order = seeding.sort(np.where(np.isnan(first), 0.0, first), weights)
        return first[order], weights[order]

    def _named(self) -> str:
        return self.metric if self.metric in ("manhattan", "cosine") else "euclidean"

    def _place_objects(self, X: Any, weights: Any) -> np.ndarray:
        """Rows of the geometry, and how new ones are made."""
        if callable(self.metric) or self.metric == "gaussian":
            space, F = KernelSpace.of(X, self.metric, "metric", 0.5**0.5)
            self._frame = Frame(None, space)
            return F
        coordinates = None
        if self.metric != "cosine":
            coordinates = measure(Rows(X, weights), per_feature=False, mix=False)
        self._frame = Frame(coordinates)
        return self._frame(X)[0]

    def _runs_in_memory(self, problem: general.Problem, Y: np.ndarray, X: Any) -> list[loop.Run]:
        if self.init is not None:
            assert self._frame is not None
            starts = [self._frame(self._given_centers())[0]]
        else:
            whole = np.where(np.isnan(Y), 0.0, Y)
            order = seeding.sort(whole, problem.weights)
            seeds: Any = as_generator(self.random_state).integers(2**63, size=self.n_init)
            starts = [
                seeding.kmeans_plus_plus(
                    whole[order],
                    problem.weights[order],
                    self.n_clusters,
                    np.random.default_rng(seed),
                    cap=problem.rule.noise or np.inf,
                )
                for seed in seeds
            ]
        starts = [_numbered(problem, start) for start in starts]
        return [general.run(problem, start, self.max_iter, self.tol) for start in starts]

    def _given_centers(self) -> np.ndarray:
        try:
            centers = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"init must hold {self.n_clusters} centers of {self.n_features_in_} numbers, or be "
                f"None, got {self.init!r}"
            ) from error
        if centers.shape != (self.n_clusters, self.n_features_in_) or np.isnan(centers).any():
            raise ValueError(
                f"init must hold {self.n_clusters} centers of {self.n_features_in_} features "
                f"without NaN, got shape {centers.shape}"
            )
        return centers

    def _publish_in_memory(self, problem: general.Problem, run: loop.Run, dtype: Any) -> None:
        solution = run.state
        D = problem.geometry.distances(solution)
        U, objective = general.memberships(problem, D, solution.linked)
        if problem.links is None or (problem.links.labels < 0).all():
            k = len(solution.centers)
            order = distances.largest_first(problem.weights @ U[:, :k], solution.centers)
            solution = solution._replace(centers=solution.centers[order])
            U = np.hstack([U[:, order], U[:, k:]])
        self._solution, self._problem_rule = solution, problem.rule
        assert self._frame is not None
        frame = self._frame
        if frame.space is None:
            outer = solution.centers
            if frame.coordinates is not None:
                outer = frame.coordinates.outer(outer)
            self.cluster_centers_ = outer.astype(dtype)
        # Squared in all metrics but this one, whose distances scale with the features.
        scale = 1.0 if frame.coordinates is None else float(frame.coordinates.scale[0])
        self._unit = scale if self._named() == "manhattan" else scale * scale
        history = run.history / self._unit
        self._publish(U.astype(dtype), run._replace(history=history), objective / self._unit)

    def _beside(self, X: Any, weights: Any) -> tuple[general.Problem, np.ndarray, Any]:
        """New objects: their problem, distances (n, k) to the centers, and type."""
        X = check_features(self, X, reset=False, missing=self._euclidean)
        w = check_weights(weights, X)
        frame, centers, rule = self._fitted_parts()
        Y, beyond = frame(X)
        geometry: Any = geometry_of(self._named(), Y)
        problem = general.Problem(geometry, np.ones(len(Y)) if w is None else w, rule)
        return problem, geometry.distances(geometry.begin(centers)) + beyond[:, None], X.dtype

    def _fitted_parts(self) -> tuple[Frame, np.ndarray, kernel.Rule]:
        """How features are read, the centers and the rule, of a fit of either kind."""
        if self._frame is not None:
            return self._frame, self._solution.centers, self._problem_rule
        return Frame(self._coordinates), self._state.centers, self._rule

    def _score_in_memory(self, X: Any, sample_weight: ArrayLike | None) -> float:
        problem, D, _ = self._beside(X, sample_weight)
        scale = 1.0 if self._frame is not None else float(self._coordinates.scale[0])
        unit = self._unit if self._frame is not None else scale * scale
        return -general.memberships(problem, D)[1] / unit / float(problem.weights.sum())

    def _is_plain(self, X: Any) -> bool:
        """Whether the sums over row blocks say all about new objects."""
        return self._frame is None and (self._full or not _has_gaps(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._euclidean
        return tags

    def _predict_in_memory(self, X: Any) -> np.ndarray:
        problem, D, dtype = self._beside(X, None)
        return general.memberships(problem, D)[0].astype(dtype)


def _has_gaps(X: Any) -> bool:
    return not isinstance(X, np.memmap) and not sp.issparse(X) and has_gaps(X)


def _numbered(problem: general.Problem, centers: np.ndarray) -> np.ndarray:
    """Centers in the order in which labelled objects fit best."""
    links = problem.links
    if links is None or (links.labels < 0).all():
        return centers
    D = problem.geometry.distances(problem.geometry.begin(centers))[links.rows]
    U = general.memberships(general.Problem(None, np.ones(len(D)), problem.rule), D)[0]
    return centers[matching(U[:, : len(centers)], links.labels[links.unit])]


def _spread(Y: np.ndarray, weights: np.ndarray, metric: str) -> float:
    """Mean distance of the objects from their middle, in the distances of the metric."""
    there = ~np.isnan(Y)
    mass = np.maximum(weights @ there, np.finfo(float).tiny)
    mean = (weights @ np.where(there, Y, 0.0)) / mass
    away = np.where(there, Y - mean, 0.0)
    if metric == "cosine":
        return 1.0
    size = np.abs(away) if metric == "manhattan" else away**2
    return max(float((weights @ size / mass).sum()), 1e-12)
