"""Many small Gaussian mixtures of the same objects, and the constants of the consensus.

They are soft evidence that follows the density and does not depend on units. EM steps, and the
posteriors of many mixtures at once:

    E:  r_ij ~ pi_j N(y_i | mu_j, Sigma_j)
    M:  Sigma_j = (W_j + a K^(-2/d) I) / N_j ,   W_j = sum_i r_ij (y_i - mu_j)(y_i - mu_j)'

in whitened coordinates y. The last term keeps a component of few objects from collapsing (after
Fraley and Raftery 2007, who add the same matrix with more weight). log pi_j N(y | mu_j, Sigma_j) is
linear in z(y) = (1, y, y_a y_b), so that E and M are one product each, and all mixtures of the
ensemble are one product too.

Missing values are integrated out. Under one Gaussian for all objects (``numerics.missing``), the
coordinates of an object are y = e + F't with a standard normal t: e is their expectation, and F (r,
d) spans the unknown directions. The density of the observed values under component j with precision
Q and mean m, relative to that Gaussian, is

    log p_j = log N(e | m, Q) - log N(e | 0, I) - log|K| / 2 + g'K^(-1)g / 2
    K = I + F (Q - I) F' ,   g = F (Q (e - m) - e)

and t ~ N(-K^(-1)g, K^(-1)) given the observed values, which gives the expected sums of z(y)
(Ghahramani and Jordan 1994). Without missing values K is 1 and g is 0.

Mixtures with about as many Gaussians as clusters, in families chosen by BIC, describe ellipses, and
few objects with many features, which small mixtures with full covariances cannot. They come from
the search of ``GaussianMixture`` in whitened coordinates, as coefficients of z(y), too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import check_is_fitted

from ...array.arrays import asarray_like, is_numpy, namespace, native, to_numpy
from ...array.rows import Rows, in_threads, one_blas_thread
from ...array.types import Array, ArrayLike, Estimator, Weights
from ...array.validation import as_generator, check_number
from ...array.warn import warn
from ...components import gaussian as families
from ...components.gaussian import Gaussian, Measured
from ...data.features import check_observed, without_empty
from ...engine import loop
from ...engine.component import Fit
from ...engine.objects import distinct_sample, object_weights
from ...engine.search import Objects, Plan, choose, fit_all
from ...memberships import check_memberships
from ...numerics import distances, seeding
from ...numerics.axes import Axes, by_radius, fit_axes
from ...numerics.missing import Missing
from .ensemble import Failure, fit_weighted, range_of, sound

MAX_STEPS = 60  # members need to be different rather than converged; TOLERANCE is per object
TOLERANCE = 1e-4
# The golden ratio: its multiples spread evenly over a circle, however many there are
GOLDEN = 0.6180339887498949


class Tuning(NamedTuple):
    """Constants of the consensus. Those marked (c) were chosen on the sets of
    ``benchmarks/quality_sets.py`` that are marked so, and checked on other draws and sets."""

    # Mixtures: components of few objects must not collapse (c). More members change nothing.
    prior: float = 0.1  # weight of the whitened covariance
    n_mixtures: int = 24
    share: float = 0.9  # share of the sampled objects to which each mixture is fitted,
    most: int = 2000  # and their largest number: the cost grows with its power 3/2
    # Cells: with ten neighbours, rings of the dartboard data are sometimes joined.
    n_cells: int = 40
    n_neighbors: int = 7
    # Families: numbers of components as multiples of the number of clusters.
    multiples: tuple[float, ...] = (1.0, 1.5, 2.0)
    most_in_families: int = 1000  # largest number of objects for these
    # With fewer objects, graphs fall apart at outliers: for 569 tumours with 30 features they are
    # worse than mixtures, for 1200 and 1797 images better.
    fewest_in_graph: int = 1000
    # Similarity added to every pair, relative to the mean degree, so that a few isolated outliers
    # do not form a cluster. It is smaller for cells, which overlap less than posteriors and whose
    # long clusters are chains of short steps (c).
    soft_regularization: float = 0.02
    hard_regularization: float = 0.001
    # Divided by the root of the number of objects, this is the mean score that noise rarely
    # exceeds: at most 5 % did of normal, uniform, exponential and t clouds each (100 to 1000
    # objects, 2 to 10 dimensions).
    noise: float = 3.2
    # Factor on the misfit in the score of a number of clusters (c, and on 33 real tables). It is
    # half of that in ``engine.numbers``, since the information falls with the misfit, too.
    penalty: float = 5.0
    compared: int = 1500  # objects on which candidates are compared
    summed: int = 50_000  # largest number of objects for sums


TUNING = Tuning()


class Partial(NamedTuple):
    """Objects with missing values: expected coordinates (m, d) sorted by pattern, the start of each
    pattern (P + 1,), its F (P, r, d), and weights (m,) or None."""

    Y: np.ndarray
    starts: np.ndarray
    spreads: np.ndarray
    mass: Weights

    @classmethod
    def of(cls, Y: np.ndarray, missing: Missing, mass: Weights) -> tuple[Partial, np.ndarray]:
        """The objects with missing values, and their indices."""
        rows = np.flatnonzero(missing.pattern >= 0)
        rows = rows[np.argsort(missing.pattern[rows], kind="stable")]
        used, counts = np.unique(missing.pattern[rows], return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        own = None if mass is None else mass[rows]
        spreads = np.ascontiguousarray(missing.spreads[used])
        return cls(np.ascontiguousarray(Y[rows]), starts, spreads, own), rows

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Log pi_j N (k, m) of the observed values, relative to the one Gaussian, whose mean is
        added."""
        L = rows @ distances.features(np.ascontiguousarray(self.Y.T), "full")
        self.native(rows).correct(L)
        return L + 0.5 * (np.sum(self.Y**2, axis=1) - self.Y.shape[1])

    def sums(self, rows: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Expected sums (k, q) of z(y) weighted by ``share`` (k, m)."""
        total = self.native(rows).sums(share)
        return np.hstack([total[:, 0, :1], total[:, 0, 1:], distances.pack(total[:, 1:, 1:])])

    def native(self, rows: np.ndarray) -> Any:
        """Native loops over these objects, for components with coefficients ``rows``."""
        Q, linear = _natural(rows, self.Y.shape[1])
        return native("mixtures").Incomplete(Q, linear, self.Y, self.starts, self.spreads)

    def expected(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Expected coordinates (m, d) of each object under its component ``chosen`` (m,)."""
        Q, linear = _natural(rows, self.Y.shape[1])
        F = np.repeat(self.spreads, np.diff(self.starts), axis=0)
        FM = F @ (Q[chosen] - np.eye(Q.shape[1]))
        K = np.eye(F.shape[1]) + FM @ np.swapaxes(F, 1, 2)
        g = FM @ self.Y[:, :, None] - F @ linear[chosen][:, :, None]
        return self.Y - (np.swapaxes(F, 1, 2) @ np.linalg.solve(K, g))[:, :, 0]


def _natural(rows: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Precisions (k, d, d), and precisions times means (k, d), from coefficients of z(y)."""
    Q = -distances.moments(rows, d, "full")[2]
    Q[:, np.arange(d), np.arange(d)] *= 2.0
    return Q, np.ascontiguousarray(rows[:, 1 : d + 1])


class Mixtures(NamedTuple):
    """Coefficients (K, q) of log pi_j N(y) for all components, and the start of each mixture."""

    rows: np.ndarray
    offsets: np.ndarray

    def posteriors(self, Y: Any, missing: Missing | None = None) -> Any:
        """Posteriors (K, n) of all components for ``Y`` (n, d); ``missing`` are missing values."""
        columns = np.ascontiguousarray(Y.T) if is_numpy(Y) else Y.T
        logits = asarray_like(self.rows, Y) @ distances.features(columns, "full")
        if missing is not None:
            # So far computed at expected coordinates; now corrected to the observed values.
            partial, where = Partial.of(Y, missing, None)
            L = np.ascontiguousarray(logits[:, where])
            partial.native(self.rows).correct(L)
            logits[:, where] = L
        if is_numpy(Y):
            native("mixtures").normalize_members(logits, self.offsets)
            return logits
        members = pairwise(self.offsets.tolist())
        parts = [distances.softmax_columns(logits[low:high, :])[0] for low, high in members]
        return namespace(logits).concat(parts)

    def guesses(
        self, Y: np.ndarray, missing: Missing, n_guesses: int
    ) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        """Objects with missing values, and several guesses (m, d) of their coordinates. Each guess
        is the expectation under one component, drawn by its posterior in one mixture; mixtures are
        used in turn. Equal objects get equal guesses."""
        partial, where = Partial.of(Y, missing, None)

        def guess(number: int) -> np.ndarray:
            member = number % (len(self.offsets) - 1)
            rows = self.rows[self.offsets[member] : self.offsets[member + 1]]
            share = distances.softmax_columns(partial.logits(rows))[0]
            level = (number + 0.5) * GOLDEN % 1.0
            chosen = np.minimum((np.cumsum(share, axis=0) < level).sum(axis=0), len(rows) - 1)
            return partial.expected(rows, chosen)

        return where, map(guess, range(n_guesses))


class Seen(NamedTuple):
    """Objects in the form of the E step: z(y) (q, n), with expectations for missing values, and
    weights; if values are missing, also the complete objects (``whole``) and the others."""

    Z: np.ndarray
    mass: Weights
    whole: Seen | None = None
    partial: Partial | None = None

    @classmethod
    def of(cls, Y: np.ndarray, mass: Weights, missing: Missing | None) -> Seen:
        """Objects with coordinates (n, d), weights (n,) and a description of missing values."""
        Z = distances.features(np.ascontiguousarray(Y.T), "full")
        if missing is None:
            return cls(Z, mass)
        partial, _ = Partial.of(Y, missing, mass)
        rest = np.flatnonzero(missing.pattern < 0)
        own = None if mass is None else mass[rest]
        return cls(Z, mass, cls(np.ascontiguousarray(Z[:, rest]), own), partial)

    @property
    def total(self) -> float:
        """Total weight of the objects."""
        return float(self.Z.shape[1]) if self.mass is None else float(self.mass.sum())


def join(mixtures: list[np.ndarray]) -> Mixtures:
    """Several mixtures, each given by coefficients (K_b, q), in one record."""
    return Mixtures(np.concatenate(mixtures), np.cumsum([0, *map(len, mixtures)]))


def fit_mixture(seen: Seen, R: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Coefficients (k, q) of a fitted mixture, started by k-means in coordinates ``R`` (s, d)."""
    weights = np.ones(len(R)) if seen.mass is None else seen.mass
    labels = seeding.kmeans(R, weights, k, rng, n_steps=5)
    share = (labels == np.arange(k)[:, None]) * weights
    sums = share[share.sum(axis=1) > 0] @ seen.Z.T
    d, before = R.shape[1], -np.inf
    if seen.partial is None:
        settings = (d, _prior(len(sums), d), MAX_STEPS, TOLERANCE)
        rows, value = native("mixtures").climb(seen.Z, seen.mass, sums, *settings)
        if np.isfinite(value):  # otherwise densities are degenerate and need more care
            return rows  # type: ignore[no-any-return]
    for _ in range(MAX_STEPS):
        rows = maximize(sums, d)
        sums, now = expect(seen, rows)
        if not np.isfinite(now):
            raise ArithmeticError("the likelihood is not finite")
        if now - before < TOLERANCE:
            break
        before = now
    return rows  # type: ignore[no-any-return]


def expect(seen: Seen, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """The E step: sums (k, q) of z(y) weighted by the posterior, and the mean log-density."""
    if seen.whole is not None and seen.partial is not None:
        share, level = distances.softmax_columns(seen.partial.logits(rows))
        if seen.partial.mass is not None:
            share, level = share * seen.partial.mass, level * seen.partial.mass
        sums, value = seen.partial.sums(rows, share), float(level.sum())
        if seen.whole.Z.shape[1]:
            others, mean = expect(seen.whole, rows)
            sums, value = sums + others, value + mean * seen.whole.total
        return sums, value / seen.total
    found = distances.fused_sums(seen.Z, seen.mass, rows, 0)
    if found is not None:
        return found[0], found[1] / seen.total
    share, log_density = distances.softmax_columns(rows @ seen.Z)
    share = share if seen.mass is None else share * seen.mass
    return share @ seen.Z.T, float(np.average(log_density, weights=seen.mass))


def maximize(sums: np.ndarray, d: int) -> np.ndarray:
    """The M step, as coefficients of z(y), from weighted sums (k, q) of z(y)."""
    return native("mixtures").maximize(sums, d, _prior(len(sums), d))  # type: ignore[no-any-return]


def _prior(k: int, d: int) -> float:
    """The factor a K^(-2/d) in the formula above."""
    return TUNING.prior * k ** (-2.0 / d)


class Stock(NamedTuple):
    """Data for the members: whitened coordinates ``Y`` (s, d), coordinates ``R`` in which k-means
    starts them, weights, and missing values."""

    Y: np.ndarray
    R: np.ndarray
    mass: Weights
    missing: Missing | None = None

    @classmethod
    def of(cls, points: Array, axes: Axes, mass: Weights) -> Stock:
        """Objects in an order that does not change under linear mixing of the features."""
        Y, missing = axes.seen(points)
        order = by_radius(Y)
        own = None if mass is None else mass[order]
        missing = missing and missing.take(order)
        return cls(Y[order], Y[order] @ axes.near, own, missing)

    def take(self, rows: np.ndarray) -> Stock:
        """The selected objects."""
        mass = None if self.mass is None else self.mass[rows]
        return Stock(self.Y[rows], self.R[rows], mass, self.missing and self.missing.take(rows))


def attempt(stock: Stock, n: int, sizes: tuple[int, int], seed: int) -> Any:
    """Coefficients of a mixture of ``n`` random objects, or a ``Failure``; others continue."""
    rng = np.random.default_rng(seed)
    own = stock.take(np.sort(rng.permutation(len(stock.Y))[:n]))
    try:
        k = int(rng.integers(sizes[0], sizes[1] + 1))
        return fit_mixture(Seen.of(own.Y, own.mass, own.missing), own.R, k, rng)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        return Failure("Gaussian mixture", f"{type(error).__name__}: {error}")


def family_mixtures(stock: Stock, k: int, seed: int) -> list[np.ndarray]:
    """Coefficients (q, Q) of mixtures of k, 1.5 k and 2 k components; empty if all collapse."""
    few = stock.take(np.arange(0, len(stock.Y), -(-len(stock.Y) // TUNING.most_in_families)))
    sizes = sorted({int(np.ceil(times * k)) for times in TUNING.multiples})
    data, (n, d) = Objects.of(few.Y, few.mass), few.Y.shape
    names = families.suited(n, d)
    kinds = {families.kind_of(name) for name in names}
    rows, per_feature = Rows(few.Y, few.mass), kinds != {"spherical"}
    coordinates = distances.measure(rows, per_feature=per_feature, mix="full" in kinds)
    measured = Measured(coordinates, data.count, missing=False)
    sample = seeding.feature_sample(few.Y, few.mass, coordinates, missing=False)
    # Members need not be the best mixtures; a longer search gives no better answers.
    plan = Plan(
        lambda k: [Gaussian(k, name, measured, floor=1e-9) for name in names],
        lambda _: sample,
        "bic",
        n_init=2,
        max_iter=200,
        tol=1e-4,
        seed=seed,
        thorough=False,
    )
    most = min(max(k, n // 5), n)
    with one_blas_thread():
        best = [choose(fit_all(data, [size], plan), "bic") for size in sizes if size <= most]
    return [_coefficients(fit) for fit in best if np.isfinite(fit.candidate.bic)]


def _coefficients(fit: Fit) -> np.ndarray:
    """log pi_j N(y) as coefficients (k, Q) of z(y)."""
    component: Any = fit.likelihood.component
    mu = component.coordinates.outer(fit.run.state.means)
    d = mu.shape[1]
    covariances = component.outer_covariances(fit.run.state)  # (k, d, d), for families by name
    precisions = np.linalg.inv(covariances)
    linear = np.einsum("jab,jb->ja", precisions, mu)
    level = np.linalg.slogdet(covariances)[1] + np.sum(linear * mu, axis=1) + d * np.log(2 * np.pi)
    constant = np.log(np.maximum(fit.run.state.weights, np.finfo(float).tiny)) - 0.5 * level
    square = -precisions
    square[:, np.arange(d), np.arange(d)] *= 0.5
    return np.hstack([constant[:, None], linear, distances.pack(square)])


class MixtureEnsemble(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Soft partitions (n, K) of the objects: posteriors of many small Gaussian mixtures, side by
    side.

    Each mixture has full covariances and its own number of components, and is fitted from one start
    to a random nine tenths of a sample, in whitened principal axes, so that units do not matter.

    Parameters
    ----------
    n_members : int
        Number of mixtures.
    n_clusters : int, (low, high) or None
        Number of components of a mixture, or a range to draw it from; None means from sqrt(s)/2 to
        sqrt(s) for s fitted objects.
    n_axes : int
        Largest number of principal axes, and of those at most sqrt(s)/2 for s fitted objects.
    max_objects : int
        Largest size of the sample that all mixtures are fitted to.
    members : list of estimators or None
        Estimators to use instead of mixtures. They give memberships by ``predict_proba``, or
        one-hot labels (by ``predict``, or of the nearest fitted object; -1 means not seen). They
        get the features unchanged. ``random_state`` is set if theirs is None.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    members_ : Mixtures, or Members if ``members``
        Coefficients of all components, and the start of the columns of each mixture.
    axes_ : Axes
        Coordinates of the mixtures; not with ``members``.
    failures_ : list of (algorithm, message)
        Members that could not be fitted.

    References
    ----------
    Fraley and Raftery (2007). Bayesian regularization for mixtures. J. Classification 24.
    Art, Gnanadesikan and Kettenring (1982). Data-based metrics. Utilitas Mathematica 21A.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MixtureEnsemble
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> H = MixtureEnsemble(5, random_state=0).fit_transform(X)
    >>> H.shape[0], H.sum(axis=1).round(12).tolist()[0]
    (60, 5.0)
    """

    _streams = True
    _any_library = True  # arrays of every library that follows the array API standard

    members_: Any

    def __init__(
        self,
        n_members=TUNING.n_mixtures,
        *,
        n_clusters=None,
        n_axes=20,
        max_objects=5000,
        members=None,
        random_state=None,
    ):
        self.n_members, self.n_clusters = n_members, n_clusters
        self.n_axes, self.max_objects = n_axes, max_objects
        self.members, self.random_state = members, random_state

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> MixtureEnsemble:
        """Fit the mixtures.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Values may be missing (NaN) in a dense array; mixtures integrate them out.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object.

        """
        for name in ("n_members", "n_axes", "max_objects"):
            check_number(getattr(self, name), name, low=1, integer=True)
        X = check_observed(self, X, reset=True)
        rng = as_generator(self.random_state)
        weights = without_empty(X, object_weights(sample_weight, X))
        points, mass = distinct_sample(X, self.max_objects, rng, weights)
        if self.members is not None:
            self._fit_members(points, rng, mass)
        else:
            axes = fit_axes(points, self.n_axes, mass)
            seeds = rng.integers(2**63, size=self.n_members)
            self._fit_stock(Stock.of(points, axes, mass), axes, seeds)
        return self

    def _fit_members(self, points: Array, rng: np.random.Generator, mass: Weights = None) -> None:
        check_members(self.members)
        n = points.shape[0]
        if more := sorted({type(each).__name__ for each in self.members if lowered(each, n)}):
            warn(f"{', '.join(more)}: more clusters than the {n} different objects, lowered to {n}")
        seeds = rng.integers(2**31, size=len(self.members))
        made = zip(self.members, seeds, strict=True)
        fitted = [fit_member(points, each, mass, int(seed)) for each, seed in made]
        self.members_ = Members(self._sound(fitted))

    def _fit_stock(self, stock: Stock, axes: Axes, seeds: np.ndarray) -> None:
        n = self._n_fitted(len(stock.Y))
        tasks = [(stock, n, self._range(n), int(seed)) for seed in seeds]
        results: list[Any] = []
        for result in in_threads(attempt, tasks, None):
            results.append(result)
            loop.tell(len(results), len(tasks), math.nan)
        self._keep(self._sound(results), axes)

    def _n_fitted(self, n: int) -> int:
        """Number of objects that a mixture is fitted to, for a sample of ``n``."""
        return max(1, min(TUNING.most, math.ceil(TUNING.share * n)))

    def _keep(self, mixtures: list[np.ndarray], axes: Axes) -> None:
        """Publish mixtures, each given by coefficients (k, q)."""
        self.axes_ = axes
        self.members_ = join(mixtures)

    def _sound(self, results: list[Any]) -> list[Any]:
        """The members that could be fitted; the others are recorded in ``failures_``."""
        self._fitted = [i for i, each in enumerate(results) if not isinstance(each, Failure)]
        kept, self.failures_ = sound(results, "mixtures" if self.members is None else "members")
        return kept

    def _range(self, n: int) -> tuple[int, int]:
        """Smallest and largest number of components of a mixture of ``n`` objects."""
        given = self.n_clusters
        if given is None:
            high = max(2, math.isqrt(n))
            return min(n, max(2, high // 2)), min(n, high)
        low, high = range_of(given)
        return min(low, n), min(high, n)

    def transform(self, X: Array) -> np.ndarray:
        """Posteriors (n, K) of new objects (n, p); the columns of every mixture sum to one."""
        check_is_fitted(self)
        X = check_observed(self, X, reset=False)
        rows = Rows(X)
        xp = namespace(X)
        return rows.map(lambda block: xp.astype(self._posteriors(block).T, X.dtype, copy=False))

    def partitions(self, X: Array) -> list[np.ndarray]:
        """The posteriors of objects (n, p) as a list of membership matrices (n, k_b), one for each
        mixture, for ``EvidenceAccumulation(3, ensemble="precomputed").fit(...)``."""
        return np.split(self.transform(X), self.members_.offsets[1:-1], axis=1)

    def _posteriors(self, block: Array) -> Any:
        if isinstance(self.members_, Members):
            here = is_numpy(block) or sp.issparse(block)
            columns = self.members_.columns(block if here else to_numpy(block)).T
            return columns if here else asarray_like(columns, block)
        return self.members_.posteriors(*self.axes_.seen(block))

    @property
    def _n_features_out(self) -> int:
        return int(self.members_.offsets[-1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class Given(NamedTuple):
    """A fitted estimator of the user: its memberships, or indicators of its labels ``names``.
    Labels that are not in ``names``, such as -1 for noise, give a row of zeros (not seen)."""

    estimator: Estimator
    width: int
    names: np.ndarray | None = None

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, width) of a block of objects."""
        if self.names is not None:
            labels = np.asarray(self.estimator.predict(block))
            return (labels[:, None] == self.names).astype(np.float64)
        U = np.asarray(check_memberships(self.estimator.predict_proba(block)), dtype=np.float64)
        if U.shape[1] != self.width:
            raise ValueError(
                f"{type(self.estimator).__name__}.predict_proba has {U.shape[1]} columns for new "
                f"objects and {self.width} for the fitted ones"
            )
        return U


class Members(NamedTuple):
    """Fitted members."""

    members: list[Given]

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member, (m + 1,)."""
        return np.cumsum([0, *(each.width for each in self.members)])

    def columns(self, block: Any) -> np.ndarray:
        """Columns (b, K) of all members side by side."""
        return np.hstack([each(block) for each in self.members])


def check_members(members: Any) -> None:
    """Refuse anything but a list of estimators."""
    if not isinstance(members, (list, tuple)) or not members:
        raise ValueError(f"members must be a list of at least one estimator, got {members!r}")
    for each in members:
        if isinstance(each, type):
            raise TypeError(
                f"members must hold estimators, not classes: give {each.__name__}() in place of "
                f"{each.__name__}"
            )
        if not hasattr(each, "fit"):
            raise TypeError(f"members must hold estimators with fit, got {each!r}")


def lowered(estimator: Estimator, n_objects: int) -> dict[str, int]:
    """Numbers of clusters above the number of objects, lowered to it."""
    own = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: n_objects
        for name in ("n_clusters", "n_components")
        if isinstance(own.get(name), Integral) and own[name] > n_objects
    }


def fit_member(X: Array, estimator: Estimator, weights: Weights, seed: int) -> Any:
    """A member fitted to objects (s, p), or a ``Failure``, so that the others continue. Warnings of
    a member, for example about its number of clusters, do not concern the user."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _fitted(X, estimator, weights, seed)
    except Exception as error:
        return Failure(type(estimator).__name__, f"{type(error).__name__}: {error}")


def _fitted(X: Any, estimator: Estimator, weights: Weights, seed: int) -> Given:
    model = clone(estimator)
    if model.get_params().get("random_state", 0) is None:
        model.set_params(random_state=seed)
    model.set_params(**lowered(model, X.shape[0]))
    rows = fit_weighted(model, X, weights)
    if hasattr(model, "predict_proba"):
        U = np.asarray(check_memberships(model.predict_proba(X)))
        return Given(model, U.shape[1])
    by_rule = hasattr(model, "predict")
    labels = np.asarray(model.predict(X) if by_rule else model.labels_)
    n_objects = X.shape[0] if by_rule else len(rows)
    if labels.shape != (n_objects,):
        raise ValueError(f"it has labels of shape {labels.shape} for {n_objects} objects")
    names = np.unique(labels)
    names = names[names != -1] if names.dtype.kind in "if" else names
    if names.size == 0:
        raise ValueError("every object is noise, label -1")
    # Without a rule, new objects get the label of the nearest fitted one.
    known = model if by_rule else KNeighborsClassifier(1).fit(X[rows], labels)
    return Given(known, len(names), names)
