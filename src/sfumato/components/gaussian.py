"""Normal clusters of the fourteen covariance families.

A family determines the coordinates of EM. Families that are invariant under linear maps use
whitened data, axis-parallel ones standardised data; the others depend on the units of the features,
which are only centred and scaled by one factor.

Complete rows are quadratic features z(x), of which E and M steps are one product each (``kernel``).
With missing values or known errors, expected sums are used instead (``incomplete``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import is_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..conjugate import NormalInverseWishart
from ..conjugate.normal import positive_definite
from ..engine.component import Component, Ready
from ..engine.linked import LinkedRows, free_weights
from ..numerics import distances, families, seeding
from ..numerics.distances import Coordinates, weighted_columns
from . import kernel
from .incomplete import deconvolved, expected_sums, incomplete_logits, with_errors
from .kernel import Prior, State, Stats, Whole

AFFINE = ("EEE", "VEE", "EVV", "VVV")  # families that are invariant under linear maps
MOST_KEPT = 2**22  # most quadratic features to keep in memory


class Start(NamedTuple):
    """Starting parameters of a Gaussian mixture, in the units of the data.

    Parameters
    ----------
    weights : array of shape (k,), optional
    means : array of shape (k, p), optional
    covariances : array shaped as ``covariances_``, optional
    frozen : tuple of {"weights", "means", "covariances"}
        Parameters that keep these values.

    Examples
    --------
    >>> from sfumato import GaussianMixture, Start
    >>> start = Start(means=[[0.0], [5.0]], frozen=("means",))
    >>> model = GaussianMixture(2, init=start).fit([[-0.5], [0.6], [0.1], [4.0], [5.5], [5.2]])
    >>> model.means_.tolist()
    [[0.0], [5.0]]
    """

    weights: Any = None
    means: Any = None
    covariances: Any = None
    frozen: tuple[str, ...] = ()


def read_start(init: Any) -> Start | None:
    """The start given by the user, or None; frozen parameters must have values."""
    if init is None:
        return None
    if not isinstance(init, (Start, Mapping)):
        raise TypeError(
            "init must be Start(weights=, means=, covariances=, frozen=) or a dict of these, got "
            f"{init!r}"
        )
    given = Start(**init) if isinstance(init, Mapping) else init
    names = ("weights", "means", "covariances")
    if not isinstance(given.frozen, (tuple, list, set, frozenset)) or any(
        not isinstance(name, str) or name not in names for name in given.frozen
    ):
        raise ValueError(
            f"init.frozen must be a tuple of names out of {', '.join(map(repr, names))}, got "
            f"{given.frozen!r}"
        )
    for name in given.frozen:
        if getattr(given, name) is None:
            raise ValueError(
                f"init.frozen={given.frozen!r} needs init.{name}: give the {name} to keep"
            )
    return None if all(value is None for value in given[:3]) else given


def check_start(given: Start, covariance_type: str, k: int, d: int, *, noise: bool) -> Start:
    """Starting values as finite arrays of the right shapes; weights sum to one."""
    weights = _check_initial(given.weights, "init.weights", (k + noise,))
    if weights is not None:
        if weights.min() < 0 or weights.sum() <= 0:
            raise ValueError(f"init.weights must be nonnegative with a positive sum, got {weights}")
        weights = weights / weights.sum()
    means = _check_initial(given.means, "init.means", (k, d))
    shapes: dict[str, tuple[int, ...]] = {"tied": (d, d), "diag": (k, d), "spherical": (k,)}
    shape = shapes.get(covariance_type, (k, d, d))
    covariances = _check_initial(given.covariances, "init.covariances", shape)
    if covariances is not None:
        if covariance_type not in ("diag", "spherical"):
            covariances = positive_definite(covariances, "init.covariances")
        elif covariances.min() <= 0:
            raise ValueError(
                f"init.covariances must be positive, got {covariances.min():g}: give variances"
            )
    return Start(weights, means, covariances, tuple(given.frozen))


def _check_initial(value: object, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """A given starting parameter as a finite float64 array of this shape."""
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers of shape {shape}, got {value!r}"
        ) from error
    if array.shape != shape:
        raise ValueError(f"{name} must be an array of shape {shape}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, but holds {'NaN' if np.isnan(array).any() else 'infinity'}: "
            "give a number in its place"
        )
    return array


class Measured(NamedTuple):
    """Coordinates of the data, their number of objects, and whether values are missing."""

    coordinates: Coordinates
    n_objects: float
    missing: bool

    def coordinates_of(self, family: str) -> Coordinates:
        """Coordinates used by the family; with missing values, features are not mixed."""
        if family in AFFINE and not self.missing:
            return self.coordinates
        if family in AFFINE or families.kind_of(family) == "diag":
            return self.coordinates.unmixed()
        return self.coordinates.isotropic()

    def covariance(self, family: str) -> np.ndarray:
        """Covariance (d, d) of the data in the coordinates of the family, divided by n - 1."""
        own, measured = self.coordinates_of(family), self.coordinates
        unbiased = self.n_objects / max(self.n_objects - 1.0, 1.0)
        if own.mix is not None:
            return unbiased * np.eye(len(own.scale))
        if measured.mix is None:
            return unbiased * np.diag(np.maximum(own.variances, 1e-12))
        # With very small features, the factor of a constant one might overflow when squared.
        factors = np.minimum(own.scale / measured.scale, 1e100)
        return unbiased * measured.covariance() * np.outer(factors, factors)


_NOTHING = Start()


@dataclass(frozen=True, eq=False)
class Gaussian(Component):
    """Normal clusters whose covariances belong to one family.

    ``noise`` is the starting share of a uniform component, ``box`` (d,) its log density along every
    feature of the unmixed coordinates.
    """

    n_clusters: int
    covariance_type: str
    measured: Measured
    floor: float
    noise: float | None = None
    box: np.ndarray | None = None
    belief: str | NormalInverseWishart | None = None
    given: Start = _NOTHING
    errors: bool = False
    pack = staticmethod(kernel.pack)

    @cached_property
    def family(self) -> str:
        """One of the fourteen families."""
        return families.family_of(self.covariance_type)

    @property
    def kind(self) -> str:
        """Form of scatter that the family needs."""
        return families.kind_of(self.family)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates used by the family."""
        return self.measured.coordinates_of(self.family)

    @property
    def missing(self) -> bool:  # type: ignore[override]
        """Whether rows may miss values."""
        return self.measured.missing

    @property
    def n_features(self) -> int:
        return len(self.coordinates.scale)

    @property
    def setting(self) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters, "covariance_type": self.covariance_type}

    @property
    def leads(self) -> bool:
        return self.family in ("EEE", "VVI", "VVV")

    def within(self, other: Component) -> bool:
        return isinstance(other, Gaussian) and families.lies_within(self.family, other.family)

    @cached_property
    def prior(self) -> Prior | None:
        """The prior in the coordinates of the family."""
        if self.belief is None:
            return None
        if isinstance(self.belief, str):  # as in mclust: kappa 0.01, df d + 2
            d = self.n_features
            return Prior(np.zeros(d), 0.01, d + 2.0, self._prior_scale())
        mean = self.coordinates.inner(np.array(self.belief.mean, dtype=np.float64)[None])[0]
        M = self.coordinates.inner_matrix()
        scale = M.T @ np.asarray(self.belief.scale, dtype=np.float64) @ M
        return Prior(mean, float(self.belief.kappa), float(self.belief.df), scale)

    def _prior_scale(self) -> np.ndarray:
        """Scale (d, d) of mclust's prior: the covariance of the data / k^(2/d)."""
        return self.measured.covariance(self.family) / self.n_clusters ** (2.0 / self.n_features)

    @property
    def apart(self) -> bool:
        """Whether rows are kept unchanged, because values are missing or have errors."""
        return self.measured.missing or self.errors

    @property
    def key(self) -> Hashable:
        return self.kind, self.family in AFFINE, self.apart

    def rows(self, X: Array, *columns: Any) -> Rows:
        rows, kind = Rows(X, *columns, view=self.view), self.kind
        fits = X.shape[0] * distances.width(self.n_features, kind) <= MOST_KEPT
        whole = is_numpy(X) and fits and len(rows.slices) == 1
        # Otherwise every pass makes z(x) of x, a tile at a time, which reads less memory.
        if self.apart or (not whole and (kind == "full" or (kind == "diag" and is_numpy(X)))):
            return rows
        return rows.through(lambda block: distances.features(block.T, kind).T)

    def view(self, block: Array) -> Any:
        """A block of rows in the coordinates of the family."""
        return self.coordinates.inner(block)

    def log_volumes(self, block: Array) -> Any:
        if not self.measured.missing or block.shape[1] != self.n_features:
            return self.coordinates.log_volume()
        return ~np.isnan(block) @ np.log(self.coordinates.scale)

    def place(self, X: np.ndarray) -> np.ndarray:
        """Objects in the coordinates of the family, as z(x) if that is small."""
        X = X * (self.coordinates.scale / self.measured.coordinates.scale)
        X = X if self.coordinates.mix is None else X @ self.coordinates.mix
        small = len(X) * distances.width(self.n_features, self.kind) <= MOST_KEPT
        return distances.features(X.T, self.kind).T if small and not self.apart else X

    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> State:
        return self.starts(X, R[None], unit, [shrink])[0]

    def starts(
        self, X: np.ndarray, R: np.ndarray, unit: float, shrink: Sequence[bool]
    ) -> list[State]:
        """States with the moments of groups. The scatter of small groups is shrunk to the pooled
        one; parameters that the user gave keep their values.
        """
        (s, k, n), d, kind = R.shape, self.n_features, self.kind
        Z = distances.features(X.T, kind).T if X.shape[1] == d else X
        if self.given.means is not None:
            means = self.coordinates.inner(np.array(self.given.means))
            nearest = seeding.nearest(Z[:, 1 : d + 1], means)
            R = (nearest == np.arange(k)[:, None]) * R.sum(axis=1, keepdims=True)
        sums = distances.moments(R.reshape(s * k, n) @ Z, d, kind)
        mass, first, second = (part.reshape(s, k, *part.shape[1:]) for part in sums)
        mass = np.maximum(mass, 1e-6 * unit)
        means = first / mass[..., None]
        scatter = kernel.about(second, first, mass, means, kind)
        shares = mass / mass.sum(axis=1, keepdims=True)
        pooled = np.sum(kernel.spread(shares, scatter) * scatter, axis=1, keepdims=True)
        more = np.array(shrink)[:, None] * unit * (d + 1 if kind == "full" else 2)
        part = kernel.spread(mass / (mass + more), scatter)
        # The mean scatter replaces a previous solution; EM refines iterative families.
        before = part * scatter + (1.0 - part) * pooled
        scatter = before * kernel.spread(mass, scatter)
        covariances = families.covariances(self.family, scatter, mass, before, self.floor, 1)
        box = None
        if self.noise is not None:
            noise = np.full((s, 1), self.noise)
            shares, box = np.hstack([shares * (1.0 - noise), noise]), self._noise_density()
        each = zip(shares, means, covariances, strict=True)
        return [self._with_given(State(*own, self.family, self.floor, box)) for own in each]

    def _noise_density(self) -> np.ndarray:
        """Logarithms (d,) whose sum is the log density of the noise in the family's coordinates."""
        assert self.box is not None
        own, feature = self.coordinates, self.measured.coordinates.unmixed()
        if own.mix is None:
            return self.box - np.log(own.scale / feature.scale)
        return self.box - float(np.linalg.slogdet(own.mix)[1]) / len(self.box)

    def _with_given(self, state: State) -> State:
        weights, means, covariances, frozen = self.given
        if weights is not None:
            state = state._replace(weights=weights)
        if means is not None:
            inner = np.asarray(self.coordinates.inner(means.copy()), dtype=np.float64)
            state = state._replace(means=inner)
        if covariances is not None:
            inner = self._inner_covariances(covariances)
            if "covariances" not in frozen:
                mass = np.full(len(inner), 1.0 / len(inner))
                scatter = inner * kernel.spread(mass, inner)
                inner = families.covariances(self.family, scatter, mass, None, self.floor)
            state = state._replace(covariances=inner)
        return state

    def _inner_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances in the form that the family needs, in inner coordinates."""
        if self.covariance_type in ("diag", "spherical"):
            scale = self._own_scale()
            return covariances * scale * scale
        M = self.coordinates.inner_matrix()
        inner = M.T @ covariances @ M
        return families.reduced(
            np.broadcast_to(inner, (self.n_clusters, *inner.shape[-2:])), self.family
        )

    def _own_scale(self) -> Any:
        """Units of the coordinates: one for every feature, or one for all."""
        scale = self.coordinates.scale
        return scale if self.covariance_type == "diag" else scale[0]

    def ready(self, state: State) -> Any:
        return state if self.apart else kernel.ready(state)

    def logits(self, block: Array, ready: Ready) -> Any:
        if not isinstance(ready, State):
            Z = kernel.expanded(block.T, ready)
            return kernel.logits(Z, ready)[0] + ready.peak
        return incomplete_logits(np.asarray(block, dtype=np.float64), ready)[0]

    def posterior(self, block: Array, ready: Ready, errors: Weights = None) -> tuple[Any, Any]:
        if not isinstance(ready, State):
            return kernel.memberships(block.T, ready)
        if errors is not None:
            X = np.asarray(block, dtype=np.float64)
            U, level = with_errors(X, self._inner_errors(errors), ready)[:2]
        else:
            U, level = distances.softmax_columns(self.logits(block, ready))
        return U.T.astype(block.dtype), level.astype(block.dtype)

    def summarize(
        self,
        block: Array,
        weights: Weights,
        ready: Ready,
        given: Weights = None,
        errors: Weights = None,
    ) -> Stats:
        if not isinstance(ready, State):
            return kernel.summarize(block.T, weights, ready, given)
        X = np.asarray(block, dtype=np.float64)
        if errors is not None:
            return deconvolved(X, self._inner_errors(errors), weights, ready)
        L, parts = incomplete_logits(X, ready)
        R, level = weighted_columns(L, weights, given)
        return Stats(expected_sums(X, parts, R), float(level.sum()))

    def _inner_errors(self, errors: np.ndarray) -> np.ndarray:
        """Covariances (b, d, d) of errors in the coordinates of the family."""
        M = self.coordinates.inner_matrix()
        return M.T @ errors @ M

    def update(self, stats: Any, state: State) -> State:
        kind = self.kind
        if self.apart:
            kind = "full" if self.errors or kind == "full" else "diag"
        return kernel.update(stats, state, self.given.frozen, kind, self.prior)

    def log_prior(self, state: State) -> float:
        if self.prior is None:
            return 0.0
        return self.prior.log_density(state.means, state.covariances, self.family)

    def uncounted(self, state: State) -> float:
        # The density of a prior depends on the parametrisation, and is highest for clusters that
        # shrink to a few objects; it would prefer such maxima.
        return self.log_prior(state)

    def unpack(self, vector: np.ndarray, like: State) -> State:
        state = kernel.unpack(vector, like)
        return state._replace(**{name: getattr(like, name) for name in self.given.frozen})

    def whole(self, rows: Rows, linked: LinkedRows | None) -> Whole | None:
        """The native loop, for few features in one block of z(x)."""
        if self.apart or self.given.frozen or rows.only_block is None:
            return None
        block, (weights, *free) = rows.only_block[0], rows.columns or (None,)
        if (
            block.shape[1] != distances.width(self.n_features, self.kind)
            or block.dtype != np.float64
            or rows.shape[1] > 16  # plain loops over large matrices are slower than BLAS
            or self.coordinates.thinnest < 1e-8  # for flat data less accurate than LAPACK
        ):
            return None
        if linked is not None:
            if not linked.links.enumerable(self.n_clusters + (self.noise is not None)):
                return None
            weights = free_weights(rows.shape[0], weights, free[0])
        return Whole(block.T, weights, self.prior, linked)

    def n_parameters(self) -> int:
        noise = self.noise is not None
        return families.n_parameters(self.family, self.n_clusters, self.n_features, noise)

    @cached_property
    def _needed(self) -> float:
        """Number of objects that a component needs: d + 1 for a separate covariance, two for
        separate variances, more than one for a separate volume.
        """
        d, (volume, shape, orientation) = self.n_features, tuple(self.family)
        if orientation == "V" and shape == "V":
            return d + 1.0
        if shape == "V" or orientation == "V":
            return 2.0
        return 1.0 + 1.0 / d if volume == "V" else 0.0

    def failure(self, state: State, count: float) -> str:
        if self.prior is not None:
            return ""
        spikes = self._collapsed(state, count)
        if not spikes.any():
            return ""
        return f"component {np.flatnonzero(spikes)[0]} of {self.n_clusters} collapsed"

    def is_sound(self, state: State, count: float) -> bool:
        return self.prior is not None or not self._collapsed(state, count).any()

    def _collapsed(self, state: State, count: float) -> np.ndarray:
        """Mask (k,) of components with too few objects or without width."""
        held = state.weights[: self.n_clusters] * count
        return (held < self._needed * (1.0 - 1e-6)) | self._flat(state)

    def _flat(self, state: State) -> np.ndarray:
        """Mask (k,) of components that are flat in a direction in which the data vary."""
        k, flat_data = len(state.means), self.coordinates.thinnest <= 100.0 * state.floor
        if flat_data or families.has_one_covariance(self.family):
            return np.zeros(k, dtype=bool)
        if not np.isfinite(state.covariances).all():  # all components are degenerate
            return np.ones(k, dtype=bool)
        widths = self._variances(state)
        if widths is None:
            widths = np.linalg.eigvalsh(state.covariances)
        return widths.min(axis=1) <= 1.5 * state.floor

    def _variances(self, state: State) -> np.ndarray | None:
        """Variances (k, d) along the axes; None for covariances with free axes."""
        if self.kind == "full":
            return None
        return np.broadcast_to(state.covariances.reshape(len(state.means), -1), state.means.shape)

    def has_small(self, state: State, count: float) -> bool:
        """Whether a component has too few objects for a shape (d + 1, or 3 if spherical, at most
        half of n / k), as components of a few outliers have.
        """
        k, d = state.means.shape
        wanted = min(3.0 if self.family[1] == "I" else d + 1.0, 0.5 * count / k)
        return bool((state.weights[:k] * count < wanted * (1.0 - 1e-6)).any())

    def doubt(self, state: State, count: float) -> float:
        """The loss in log-likelihood when the scale of mclust's prior is added to the scatter of
        every component: almost zero for many objects, about ten for seven objects near a line.
        """
        if self.apart or self.prior is not None:
            return 0.0
        counts, scale = state.weights[: self.n_clusters] * count, self._prior_scale()
        one = families.has_one_covariance(self.family)
        counts = counts.sum(keepdims=True) if one else counts
        if (variances := self._variances(state)) is not None:
            own = families.reduced(scale[None], self.family).reshape(1, -1)
            wider = own / variances[: len(counts)]
        else:
            factor = np.linalg.inv(kernel.cholesky(state.covariances[: len(counts)], state.floor))
            wider = np.linalg.eigvalsh(factor @ scale @ np.swapaxes(factor, 1, 2))
        wider = np.maximum(wider, 0.0) / np.maximum(counts, 1e-100)[:, None]
        return float(np.sum(counts[:, None] * (np.log1p(wider) - wider / (1.0 + wider))))

    def permuted(self, state: State, order: np.ndarray) -> State:
        weights = np.concatenate([state.weights[order], state.weights[len(order) :]])
        freedom = None if state.freedom is None else state.freedom[order]
        return state._replace(
            weights=weights,
            means=state.means[order],
            covariances=state.covariances[order],
            freedom=freedom,
        )

    def ordered(self, state: State) -> State:
        sizes = np.round(state.weights[: len(state.means)], 6)  # float32 gives the same
        return self.permuted(state, np.lexsort((*state.means.T[::-1], -sizes)))

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        factors = kernel.cholesky(kernel.matrices(state), state.floor)
        normal = rng.standard_normal((len(labels), self.n_features))
        deviations = np.einsum("nij,nj->ni", factors[labels], normal)
        return self.coordinates.outer(state.means[labels] + deviations)

    def outer_covariances(self, state: State) -> np.ndarray:
        """Covariances in the units of the data, in the form of their type, exactly symmetric."""
        if self.covariance_type in ("diag", "spherical"):
            scale = self._own_scale()
            return state.covariances / scale / scale
        A = self.coordinates.outer_matrix()
        inner = kernel.matrices(state)
        back = A.T @ (inner[0] if self.covariance_type == "tied" else inner) @ A
        return (back + np.swapaxes(back, -1, -2)) / 2.0

    def precision_factors(self, state: State) -> np.ndarray:
        """Upper triangular C such that C C' is the inverse of a covariance of the data."""
        if self.covariance_type in ("diag", "spherical"):
            return self._own_scale() / np.sqrt(state.covariances)
        full = kernel.matrices(state)
        full = full[0] if self.covariance_type == "tied" else full
        inner = np.swapaxes(np.linalg.inv(kernel.cholesky(full, state.floor)), -1, -2)
        largest = np.finfo(np.float64).max ** 0.99
        with np.errstate(over="ignore", invalid="ignore"):  # e.g. features of size 1e-300
            factor = np.nan_to_num(self.coordinates.inner_matrix() @ inner, posinf=largest)
        factor = np.swapaxes(np.clip(factor, -largest, largest), -1, -2)[..., ::-1]
        upper = np.swapaxes(np.linalg.qr(factor)[1], -1, -2)[..., ::-1, ::-1]
        return upper * np.sign(np.diagonal(upper, axis1=-2, axis2=-1))[..., None, :]

    def for_missing(self, state: State) -> tuple[Gaussian, State]:
        """The same mixture in coordinates that do not mix features, as missing values require."""
        measured, mix = self.measured._replace(missing=True), self.coordinates.mix
        if self.measured.missing or mix is None:
            return replace(self, measured=measured), state
        A, noise = np.linalg.inv(mix), state.noise
        if noise is not None:
            noise = np.full_like(noise, (noise.sum() - np.linalg.slogdet(A)[1]) / len(noise))
        apart = state._replace(
            means=state.means @ A, covariances=A.T @ state.covariances @ A, noise=noise
        )
        return replace(self, measured=measured), apart
