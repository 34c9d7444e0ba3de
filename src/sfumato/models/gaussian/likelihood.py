"""The likelihood of mixtures of one family on given data: coordinates, statistics, steps and runs.

A family fixes the coordinates in which EM works. Families that any linear map of the data leaves as
they are work on whitened data, axis-parallel ones on standardised data; the others depend on the
units of the features and only see them centred, in one common scale.

Three layouts of the data give the same statistics: quadratic features (``kernel``), deviations in
many dimensions (``direct``) and missing values (``missing``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...array.arrays import to_numpy
from ...array.rows import Rows
from ...array.types import Array, ArrayLike
from ...engine import acceleration, loop
from ...engine.linked import Linked
from ...numerics import distances, families
from ...numerics.coordinates import Coordinates
from . import direct, kernel, missing, small
from .kernel import State, Stats
from .prior import Prior

__all__ = ["Likelihood", "LinkedRows", "View", "coordinates_for", "inner_covariances"]
__all__ += ["layout_for", "outer_covariances", "precision_factors", "unmixed"]

MOST_FEATURES = 48  # beyond, a product for each component costs less than d (d + 1) / 2 features
AFFINE = ("EEE", "VEE", "EVV", "VVV")  # linear maps of the data carry the family into itself
MOST_WHOLE = 16  # features up to which small problems run in one native loop
LEAST_WIDTH = 1e-8  # variance of the data in any direction from which on it runs there: plain loops
# of small matrices round more than LAPACK where data lie on a plane
MOST_KEPT = 2**22  # numbers of quadratic features that are kept instead of made in every pass


def coordinates_for(family: str, measured: Coordinates, holes: bool) -> Coordinates:
    """Coordinates in which the family works, from measured ones; holes forbid mixing features."""
    if family in AFFINE and not holes:
        return measured
    if family in AFFINE or families.kind_of(family) == "diag":
        return measured.unmixed()
    return measured.isotropic()


def layout_for(family: str, d: int, holes: bool) -> str:
    """How the rows are laid out for the family."""
    if holes:
        return "missing"
    return "direct" if families.kind_of(family) == "full" and d > MOST_FEATURES else "features"


@dataclass(frozen=True)
class View:
    """How mixtures of a family see features."""

    family: str
    coordinates: Coordinates
    layout: str
    expanded: bool = False  # whether rows hold z(x) where the kind is "full"

    @property
    def kind(self) -> str:
        """Kind of the quadratic features."""
        return families.kind_of(self.family)

    @property
    def expands(self) -> bool:
        """Whether rows hold z(x) and not x alone."""
        return self.layout == "features" and (self.kind != "full" or self.expanded)

    def rows(self, X: Any, *columns: Any, n_jobs: int | None = None) -> Rows:
        """Rows of ``X`` as the kernels want them."""
        rows = Rows(X, *columns, n_jobs=n_jobs, view=self.coordinates.inner)
        kind = self.kind
        if self.expands:
            rows = rows.through(lambda block: distances.features(block.T, kind).T)
        return rows

    def features(self, block: Array) -> Any:
        """Inner coordinates out of a block of such rows."""
        return block[:, 1 : len(self.coordinates.scale) + 1] if self.expands else block

    def summarizer(self, state: State) -> Callable[..., Stats]:
        """The function of blocks whose sum over the rows are the statistics at a state."""
        if self.layout == "features":
            densities = kernel.ready(state)
            return lambda block, w=None, y=None: kernel.summarize(block.T, w, densities, y)
        layout = direct if self.layout == "direct" else missing
        if state.means.ndim == 2:
            return lambda block, w=None, y=None: layout.summarize(block, w, state, y)
        states = kernel.unstack(state)

        def several(block: Array, w: Any = None, y: ArrayLike | None = None) -> Stats:
            parts = [layout.summarize(block, w, one, y) for one in states]
            objectives = np.array([part.objective for part in parts])
            return Stats(np.stack([part.sums for part in parts]), objectives)

        return several

    def posterior(self, state: State, which: int) -> Callable[..., Any]:
        """The function of blocks that gives memberships (``which`` 0) or log-densities (1)."""
        both = self.posteriors(state)
        return lambda block, w=None, y=None: both(block, y)[which]

    def posteriors(self, state: State) -> Callable[..., Any]:
        """The function of blocks that gives memberships and log-densities."""
        if self.layout == "features":
            densities = kernel.ready(state)
            return lambda block, y=None: kernel.memberships(block.T, densities, y)
        layout = direct if self.layout == "direct" else missing
        return lambda block, y=None: layout.memberships(block, state, y)

    def n_parameters(self, k: int, noise: bool = False) -> int:
        """Free parameters of a mixture of ``k`` components."""
        return families.n_parameters(self.family, k, len(self.coordinates.scale), noise)

    def kind_of_sums(self) -> str:
        """Kind of the quadratic features whose sums are the statistics."""
        if self.layout == "features":
            return self.kind
        return "full" if self.layout == "direct" else missing.kind_of_sums(self.family)


@dataclass(frozen=True)
class LinkedRows:
    """Rows that the user linked, as the view wants them (m, q), with weights and known labels.

    ``counted`` says whether they stand among the rows of the likelihood too.
    """

    links: Linked
    block: np.ndarray
    weights: np.ndarray
    labels: np.ndarray | None
    counted: bool

    def memberships(self, view: View, state: State) -> tuple[np.ndarray, float]:
        """Memberships (m, k) by the links, and their part of the log-likelihood."""
        return self._coupled(*self._posteriors(view.posteriors(state)))

    def _posteriors(
        self, of_block: Callable[..., Any], labels: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        U, level = of_block(self.block, labels)[:2]
        return to_numpy(U).astype(np.float64), to_numpy(level).astype(np.float64)

    def _coupled(self, U: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, float]:
        logits = np.log(np.maximum(U, np.finfo(float).tiny)) + level[:, None]
        return self.links.couple(logits, self.weights)

    def change(self, stats: Stats, view: View, state: State) -> Stats:
        """Statistics with those of the linked rows by their links."""
        if state.means.ndim == 3:
            parts = [
                self.change(Stats(sums, value), view, one)
                for sums, value, one in zip(*stats, kernel.unstack(state), strict=True)
            ]
            values = np.array([part.objective for part in parts])
            return Stats(np.stack([part.sums for part in parts]), values)
        if view.layout == "features":
            return self._linear_change(stats, view, state)
        R, value = self.memberships(view, state)
        summarize, sums = view.summarizer(state), stats.sums
        if self.counted:
            plain = summarize(self.block, self.weights, self.labels)
            sums, value = sums - plain.sums, value - plain.objective
        m, k = R.shape  # a copy of every row for each column: of that label, with its membership
        copies, own = np.tile(self.block, (k, 1)), np.repeat(np.arange(k), m)
        sums = sums + summarize(copies, (self.weights * R.T).ravel(), own).sums
        return Stats(sums, stats.objective + value)

    def _linear_change(self, stats: Stats, view: View, state: State) -> Stats:
        """The same where the statistics are sums of z(x) by memberships, in one pass."""
        of_block = view.posteriors(state)
        U, level = self._posteriors(of_block)
        R, value = self._coupled(U, level)
        if self.counted:
            if self.labels is not None:
                U, level = self._posteriors(of_block, self.labels)
            R, value = R - U, value - self.weights @ level
        X = view.features(self.block).astype(np.float64)
        Z = distances.features(X.T, view.kind)
        sums = stats.sums + (Z @ (self.weights[:, None] * R)).T
        return Stats(sums, stats.objective + value)


@dataclass(frozen=True)
class Likelihood:
    """Log-likelihood (with a prior: log posterior) on rows, and how EM climbs it."""

    view: View
    rows: Rows
    total: float  # weight of all rows
    count: float  # number of objects: copies where weights are whole numbers
    frozen: tuple[str, ...] = ()
    prior: Prior | None = None
    linked: LinkedRows | None = None

    def sum(self, state: State) -> Stats:
        """Statistics of all rows at a state."""
        stats = self.rows.sum(self.view.summarizer(state))
        return stats if self.linked is None else self.linked.change(stats, self.view, state)

    def memberships(self, state: State) -> Any:
        """Memberships (n, k) of all rows."""
        U = self.rows.map(self.view.posterior(state, 0))
        if self.linked is not None:
            U[self.linked.links.rows] = self.linked.memberships(self.view, state)[0]
        return U

    def update(self, stats: Stats, state: State) -> State:
        """The M step."""
        return kernel.update(stats, state, self.frozen, self.view.kind_of_sums(), self.prior)

    def step(self, state: State) -> tuple[State, Any]:
        """One step of EM, and the objective of the state that went in."""
        stats = self.sum(state)
        return self.update(stats, state), stats.objective + self.log_prior(state)

    def log_prior(self, state: State) -> Any:
        """Logarithm of the prior density, zero without a prior."""
        if self.prior is None:
            return 0.0
        return self.prior.log_density(state.means, state.covariances, state.family)

    def objective(self, state: State) -> float:
        """Objective of a state."""
        return self.sum(state).objective + self.log_prior(state)

    def run(self, state: State, max_iter: int, tol: float) -> loop.Run:
        """Accelerated EM until a step gains less than ``tol`` for each unit of weight."""
        if "float32" in str(self.rows.dtype):
            tol = max(tol, 5e-7)  # rounding alone moves the objective by so much
        if (Z := self._small()) is not None:
            weights, least = self.rows.columns[0], tol * self.total

            def whole() -> loop.Run:
                end, history, done = small.run(Z, weights, state, self.prior, max_iter, least)
                return loop.Run(end, history[-1], history, len(history), done)

            return loop.at_once(whole)
        accelerated = acceleration.Squarem.accelerate(
            self.step, kernel.pack, self._unpack, larger=True
        )
        run = loop.iterate(
            accelerated,
            acceleration.Squarem(state),
            max_iter=max_iter,
            tol=tol,
            relative_to=self.total,
        )
        return run._replace(state=run.state.settled)

    def steps(self, states: list[State], n_steps: int) -> tuple[list[State], np.ndarray]:
        """States after some plain steps each, and the objectives one step before the end."""
        if (Z := self._small()) is not None:
            return small.steps(Z, self.rows.columns[0], states, self.prior, n_steps)
        state, values = kernel.stack(states), np.zeros(len(states))
        for _ in range(n_steps):
            state, values = self.step(state)
        return kernel.unstack(state), values

    def _small(self) -> np.ndarray | None:
        """z(x) (q, n) of all rows where the native loop takes them, else None."""
        rows = self.rows
        labels = rows.columns[1] if len(rows.columns) > 1 else None
        if (
            not self.view.expands
            or rows.stack is None
            or len(rows.stack) != 1
            or rows.stack.shape[2] != rows.shape[0]
            or rows.stack.dtype != np.float64
            or rows.shape[1] > MOST_WHOLE
            or self.frozen
            or labels is not None
            or self.linked is not None
            or self.view.coordinates.thinnest < LEAST_WIDTH
        ):
            return None
        return rows.stack[0]

    def _unpack(self, vector: np.ndarray, like: State) -> State:
        state = kernel.unpack(vector, like)
        return state._replace(**{name: getattr(like, name) for name in self.frozen})

    def log_volume(self) -> float:
        """What the log-likelihood gains by the change of coordinates, over all rows."""
        coordinates = self.view.coordinates
        if self.view.layout != "missing":
            return self.total * coordinates.log_volume()
        scale = np.log(coordinates.scale)

        def block(X: Array, w: Any = None, y: ArrayLike | None = None) -> tuple[float]:
            return (float(np.sum(((~np.isnan(X)) @ scale) * (1.0 if w is None else w))),)

        return float(self.rows.sum(block)[0])

    def rating(self, state: State) -> tuple[float, float]:
        """The log-likelihood, and the sum of the logarithms of every object's largest membership.

        Both weighted.
        """
        if (Z := self._small()) is not None:
            return small.rating(Z, self.rows.columns[0], state)
        if self.view.layout == "features" and self.linked is None:
            densities = kernel.ready(state)

            def both(Z: Array, w: Any = None, y: ArrayLike | None = None) -> tuple[float, ...]:
                parts = kernel.levels(Z.T, densities, y)
                values = (to_numpy(part).astype(np.float64) for part in parts)
                return tuple(float(v.sum() if w is None else v @ to_numpy(w)) for v in values)

            value, sure = self.rows.sum(both)
            return value, sure
        posterior = self.view.posterior(state, 0)

        def block(X: Array, w: Any = None, y: ArrayLike | None = None) -> tuple[float]:
            U = to_numpy(posterior(X, w, y)).astype(np.float64)
            sure = np.log(U.max(axis=1))
            return (float(sure.sum() if w is None else sure @ w),)

        return float(self.sum(state).objective), float(self.rows.sum(block)[0])

    def n_parameters(self, k: int, noise: bool = False) -> int:
        """Free parameters of a mixture of ``k`` components."""
        return self.view.n_parameters(k, noise)


def inner_covariances(
    covariances: np.ndarray, covariance_type: str, k: int, coordinates: Coordinates
) -> np.ndarray:
    """Covariances shaped as the family needs them, in inner coordinates."""
    family = families.family_of(covariance_type)
    if covariance_type in ("diag", "spherical"):
        scale = _own_scale(covariance_type, coordinates)
        return covariances * scale * scale
    M = coordinates.inner_matrix()
    inner = M.T @ covariances @ M
    inner = np.broadcast_to(inner, (k, *inner.shape[-2:]))
    return families.reduced(inner, family)


def _own_scale(covariance_type: str, coordinates: Coordinates) -> Any:
    """What every feature is multiplied by, or all of them alike; its square may overflow."""
    return coordinates.scale if covariance_type == "diag" else coordinates.scale[0]


def outer_covariances(state: State, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """Covariances in the units of the data, shaped by their type, exactly symmetric."""
    if covariance_type in ("diag", "spherical"):
        scale = _own_scale(covariance_type, coordinates)
        return state.covariances / scale / scale
    A = coordinates.outer_matrix()
    inner = kernel.matrices(state)
    back = A.T @ (inner[0] if covariance_type == "tied" else inner) @ A
    return (back + np.swapaxes(back, -1, -2)) / 2.0


def precision_factors(state: State, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """C with C C' the inverse of a covariance in the units of the data, upper triangular.

    Entries beyond all numbers, of features of 1e-300 say, are the largest number.
    """
    unit = float(np.exp2(np.floor(np.log2(coordinates.scale.max(initial=1.0)))))
    coordinates = coordinates._replace(scale=coordinates.scale / unit)
    factors = _precision_factors(state, covariance_type, coordinates)
    with np.errstate(over="ignore"):
        return np.nan_to_num(factors * unit)


def _precision_factors(state: State, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    if covariance_type in ("diag", "spherical"):
        return _own_scale(covariance_type, coordinates) / np.sqrt(state.covariances)
    full = kernel.matrices(state)
    full = full[0] if covariance_type == "tied" else full
    inner = np.swapaxes(np.linalg.inv(kernel.cholesky(full, state.floor)), -1, -2)
    factor = np.swapaxes(coordinates.inner_matrix() @ inner, -1, -2)[..., ::-1]
    upper = np.linalg.qr(factor)[1]
    upper = np.swapaxes(upper, -1, -2)[..., ::-1, ::-1]
    return upper * np.sign(np.diagonal(upper, axis1=-2, axis2=-1))[..., None, :]


def unmixed(state: State, coordinates: Coordinates) -> tuple[State, Coordinates]:
    """The same mixture in coordinates that keep features apart, as missing values need."""
    if coordinates.mix is None:
        return state, coordinates
    A = np.linalg.inv(coordinates.mix)
    noise = state.noise
    if noise is not None:
        noise = np.full_like(noise, (noise.sum() - np.linalg.slogdet(A)[1]) / len(noise))
    apart = state._replace(
        means=state.means @ A, covariances=A.T @ state.covariances @ A, noise=noise
    )
    return apart, coordinates._replace(mix=None)
