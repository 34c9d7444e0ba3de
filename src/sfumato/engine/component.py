"""The definition of a cluster in a mixture, and the likelihood of such mixtures.

A model provides a ``Component``. ``Likelihood`` maximises by EM; weights, links, labels, blocks of
rows, acceleration and interrupts are written here, once for all mixtures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..array.arrays import to_numpy
from ..array.rows import Rows, add
from ..array.types import Array, Weights
from ..numerics.distances import softmax_columns
from . import loop
from .linked import LinkedRows, free_weights
from .loop import State, climb

Stats: TypeAlias = Any  # a NamedTuple of sums over rows, with an entry ``objective``
Ready: TypeAlias = Any  # quantities of a state needed in a pass over the rows
_NAN = float("nan")


class Component(ABC):
    """Mixtures of ``n_clusters`` clusters of the same shape.

    A state is a NamedTuple whose arrays have the clusters along their first axis. ``pack`` turns it
    into one unconstrained vector; without it, steps are not extrapolated.
    """

    n_clusters: int
    missing: bool = True  # whether rows may miss values
    pack: Callable[[Any], np.ndarray] | None = None
    unpack: Callable[[np.ndarray, Any], Any] | None = None  # turns a vector into a state again

    @property
    @abstractmethod
    def setting(self) -> dict[str, Any]:
        """Settings that identify the candidate: the number of clusters, and what else varies."""

    @property
    def key(self) -> Hashable:
        """Components with equal keys transform rows in the same way."""
        return ""

    @property
    def leads(self) -> bool:
        """Whether this candidate tries all starts even with many objects and shapes."""
        return False

    def within(self, other: Component) -> bool:
        """Whether the other component has a freer shape, and so at least the same likelihood."""
        return False

    @abstractmethod
    def rows(self, X: Array, *columns: Any) -> Rows:
        """Rows of ``X`` in the coordinates of this component."""

    def log_volumes(self, block: Array) -> Any:
        """Log-determinants of the coordinates, (b,) or a number, to add to log-densities."""
        return 0.0

    def place(self, X: np.ndarray) -> np.ndarray:
        """Objects of the sample for starts, in the coordinates of this component."""
        return X

    @abstractmethod
    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> Any:
        """The state of weighted groups ``R`` (k, n) of placed objects; ``unit`` is the weight of
        one. ``shrink`` pulls small groups towards the others.
        """

    def starts(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: Sequence[bool]) -> Any:
        """The states of several groupings ``R`` (s, k, n)."""
        return [self.start(X, one, unit, s) for one, s in zip(R, shrink, strict=True)]

    def for_missing(self, state: State) -> tuple[Component, Any]:
        """The same mixture, in the form for rows with missing values."""
        return self, state

    def in_batches(self) -> Component:
        """The same mixture, with statistics that do not refer to the means of one state."""
        return self

    def ready(self, state: State) -> Any:
        """Quantities of a state needed in a pass, computed once for all blocks."""
        return state

    @abstractmethod
    def summarize(self, block: Array, weights: Weights, ready: Ready, given: Weights = None) -> Any:
        """Statistics of a block, for its own or for ``given`` memberships (b, k)."""

    @abstractmethod
    def update(self, stats: Stats, state: State) -> Any:
        """The state that maximises the expected objective."""

    @abstractmethod
    def logits(self, block: Array, ready: Ready) -> Any:
        """log( pi_j f_j(x_i) ) (k, b) of a block; the array may be overwritten."""

    def posterior(self, block: Array, ready: Ready) -> tuple[Any, Any]:
        """Memberships (b, k) and log-densities (b,) of a block."""
        U, level = softmax_columns(self.logits(block, ready))
        return U.T, level

    def log_prior(self, state: State) -> float:
        """Logarithm of the prior density of a state."""
        return 0.0

    def uncounted(self, state: State) -> float:
        """Part of the objective that is ignored when maxima are compared."""
        return 0.0

    def whole(self, rows: Rows, linked: LinkedRows | None) -> Any:
        """A native runner of whole runs on these rows, some of them linked, or None."""
        return None

    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters."""

    def failure(self, state: State, count: float) -> str:
        """Why a state for ``count`` objects must not be chosen, or ""."""
        return ""

    def is_sound(self, state: State, count: float) -> bool:
        """Whether no cluster has collapsed."""
        return not self.failure(state, count)

    def has_small(self, state: State, count: float) -> bool:
        """Whether a cluster has so few objects that runs without such clusters are preferred."""
        return False

    @abstractmethod
    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> Any:
        """One object, in the units of the data, from the cluster of each label."""

    def doubt(self, state: State, count: float) -> float:
        """Twice the log-likelihood that a state gains from thin clusters of few objects."""
        return 0.0

    def ordered(self, state: State) -> Any:
        """The same clusters, largest first; ties are sorted by parameters."""
        keys = [part.reshape(len(part), -1).T for part in state[1:] if np.ndim(part)]
        order = np.lexsort([*np.concatenate(keys)[::-1], -np.round(state[0], 6)])
        return self.permuted(state, order)

    def permuted(self, state: State, order: np.ndarray) -> Any:
        """The clusters in another order."""
        return type(state)(*(part[order] for part in state))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihood (with a prior: log posterior) of mixtures on rows, and its maximisation by EM.

    ``total`` is the weight of all rows and ``count`` the number of objects. The first column of the
    rows holds weights, the second is 0 for linked rows.
    """

    component: Component
    rows: Rows
    total: float
    count: float
    linked: LinkedRows | None = None
    log_volume: float = 0.0  # change of the log-likelihood by the change of coordinates

    def sum(self, state: State) -> Any:
        """Statistics of all rows at a state; their objective is the log-likelihood."""
        summarize, ready = self.component.summarize, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            own = w if free is None else free_weights(block.shape[0], w, free)
            return summarize(block, own, ready, None, *more)

        stats = self.rows.sum(part)
        if self.linked is None:
            return stats
        U, value = self._couple(ready)
        own = self.linked.sum(U, lambda block, w, given: summarize(block, w, ready, given))
        return add(stats, own._replace(objective=value))

    def _couple(self, ready: Ready) -> tuple[np.ndarray, float]:
        """Memberships (m, k) of linked rows, and their contribution to the log-likelihood."""
        assert self.linked is not None
        logits = self.component.logits
        return self.linked.couple(lambda b: to_numpy(logits(b, ready)).T.astype(np.float64))

    def step(self, state: State) -> tuple[Any, float]:
        """One EM step, and the objective of the state before it."""
        stats = self.sum(state)
        objective = stats.objective + self.component.log_prior(state)
        return self.component.update(stats, state), objective

    def run(self, state: State, max_iter: int, tol: float) -> loop.Run:
        """Accelerated EM until a step gains less than ``tol`` per unit of weight."""
        # A smaller gain per object is only rounding.
        tol = max(tol, 2e-6 if "float32" in str(self.rows.dtype) else 1e-13)
        whole = self._whole
        if whole is not None:
            return loop.at_once(lambda: whole.run(state, max_iter, tol * self.total))
        pack, unpack = self.component.pack, self.component.unpack
        limits = {"max_iter": max_iter, "tol": tol, "relative_to": self.total}
        return climb(self.step, state, pack, unpack, larger=True, **limits)

    def steps(self, state: State, n_steps: int) -> tuple[Any, float]:
        """The state after some plain EM steps, and the objective one step before the end."""
        if self._whole is not None:
            run = self._whole.run(state, n_steps, -1.0)
            return run.state, float(run.objective)
        value = -np.inf
        for _ in range(n_steps):
            state, value = self.step(state)
        return state, value

    @cached_property
    def _whole(self) -> Any:
        return self.component.whole(self.rows, self.linked)

    def memberships(self, state: State) -> Any:
        """Memberships (n, k) of all rows."""
        posterior, ready = self.component.posterior, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            return posterior(block, ready, *more)[0]

        U = self.rows.map(part)
        if self.linked is not None:
            U[self.linked.links.rows] = self._couple(ready)[0]
        return U

    def rating(self, state: State) -> tuple[float, float]:
        """Log-likelihood in inner coordinates, and the weighted sum of log largest memberships."""
        if self._whole is not None:
            return self._whole.levels(state)
        posterior, ready = self.component.posterior, self.component.ready(state)

        def part(block: Array, w: Weights = None, free: Weights = None, *more: Any) -> Any:
            U, level = (to_numpy(a).astype(np.float64) for a in posterior(block, ready, *more))
            own = free_weights(len(U), w if w is None else to_numpy(w), free)
            return float(own @ level), float(own @ np.log(U.max(axis=1)))

        value, sure = self.rows.sum(part)
        if self.linked is not None:
            U, more = self._couple(ready)
            value, sure = value + more, sure + float(self.linked.weights @ np.log(U.max(axis=1)))
        return value, sure


class ModelCandidate(NamedTuple):
    """A setting that was tried (number of clusters and, in some models, a shape), with its criteria
    (lower is better), or NaN and the reason of failure.
    """

    setting: dict[str, Any]
    bic: float = _NAN
    icl: float = _NAN
    aic: float = _NAN
    log_likelihood: float = _NAN
    n_parameters: int = 0
    reason: str = ""

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.setting["n_clusters"])

    @property
    def covariance_type(self) -> str:
        """Family of the covariances; "" in models without families."""
        return str(self.setting.get("covariance_type", ""))

    @property
    def shape(self) -> str:
        """The settings other than the number of clusters, in words."""
        others = {key: value for key, value in self.setting.items() if key != "n_clusters"}
        if set(others) <= {"covariance_type"}:
            return self.covariance_type or "all"
        return ", ".join(f"{key} {value}" for key, value in others.items())

    def failed(self, reason: str) -> ModelCandidate:
        """The same setting without criteria, so that it neither wins nor gets a probability."""
        return self._replace(bic=_NAN, icl=_NAN, aic=_NAN, log_likelihood=_NAN, reason=reason)


class ModelSearch(Sequence[ModelCandidate]):
    """The candidates of a search on ``n_objects``, in order; prints as a table."""

    def __init__(
        self, candidates: Sequence[ModelCandidate], criterion: str, n_objects: int | None = None
    ) -> None:
        self.candidates, self.criterion = tuple(candidates), criterion
        self.n_objects = n_objects

    def __getitem__(self, index: Any) -> Any:
        return self.candidates[index]

    def __len__(self) -> int:
        return len(self.candidates)

    def best(self, n: int = 3) -> list[ModelCandidate]:
        """The ``n`` best candidates, best first; ties are sorted by number of parameters."""
        sound = [row for row in self.candidates if np.isfinite(self._value(row))]
        return sorted(sound, key=lambda row: (self._value(row), row.n_parameters))[:n]

    def table(self) -> tuple[list[int], list[str], np.ndarray]:
        """Sizes, shapes, and the criterion (sizes, shapes), NaN if a fit failed."""
        sizes = sorted({row.n_clusters for row in self.candidates})
        shapes = list(dict.fromkeys(row.shape for row in self.candidates))
        values = np.full((len(sizes), len(shapes)), np.nan)
        for row in self.candidates:
            values[sizes.index(row.n_clusters), shapes.index(row.shape)] = self._value(row)
        return sizes, shapes, values

    def best_of_each(self) -> dict[int, ModelCandidate]:
        """For every number of clusters the best candidate (a failed one if all failed)."""
        best: dict[int, ModelCandidate] = {}
        for row in sorted(self.candidates, key=lambda row: row.n_clusters):
            held = best.setdefault(row.n_clusters, row)
            if np.isnan(self._value(held)) or self._value(row) < self._value(held):
                best[row.n_clusters] = row
        return best

    def _value(self, row: ModelCandidate) -> float:
        return float(getattr(row, self.criterion))

    def __repr__(self) -> str:
        sizes, shapes, values = self.table()
        width = max(11, *(len(name) + 2 for name in shapes))
        on = "" if self.n_objects is None else f" of {self.n_objects} objects"
        lines = [f"{self.criterion.upper()}{on} (lower is better):"]
        cells = np.where(np.isfinite(values), np.char.mod("%.3f", values), "NA")
        for start in range(0, len(shapes), 7):
            part = slice(start, start + 7)
            lines.append("k".rjust(3) + "".join(name.rjust(width) for name in shapes[part]))
            lines += [
                f"{k:3d}" + "".join(cell.rjust(width) for cell in row[part])
                for k, row in zip(sizes, cells.tolist(), strict=True)
            ]
        best = (f"{row.shape},{row.n_clusters} {self._value(row):.3f}" for row in self.best())
        return "\n".join([*lines, f"best three: {', '.join(best)}"])


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted candidate: its criteria, its likelihood, and where EM ended."""

    candidate: ModelCandidate
    likelihood: Likelihood
    run: loop.Run

    @classmethod
    def of(cls, likelihood: Likelihood, run: loop.Run, *, keep_order: bool = False) -> Fit:
        """The rated run; a collapsed cluster counts as a failure, with the reason."""
        component = likelihood.component
        if not keep_order:
            run = run._replace(state=component.ordered(run.state))
        inner, sure = likelihood.rating(run.state)
        value, p = inner + likelihood.log_volume, component.n_parameters()
        run = run._replace(objective=value + component.log_prior(run.state))
        share = likelihood.count / likelihood.total
        deviance, log_n = -2.0 * value * share, float(np.log(likelihood.count))
        bic = deviance + p * log_n
        icl, aic = bic - 2.0 * sure * share, deviance + 2.0 * p
        candidate = ModelCandidate(component.setting, bic, icl, aic, value, p)
        reason = component.failure(run.state, likelihood.count)
        return cls(candidate.failed(reason) if reason else candidate, likelihood, run)

    def value(self, criterion: str) -> float:
        """A criterion of the candidate, NaN if it failed."""
        return float(getattr(self.candidate, criterion))

    def doubt(self) -> float:
        """Twice the log-likelihood that the fit gains from thin clusters of few objects."""
        return self.likelihood.component.doubt(self.run.state, self.likelihood.count)
