"""The mixture of mixed columns as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ...array.arrays import to_numpy
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import ArrayLike, RandomState, Weights
from ...array.validation import check_number, check_weights
from ...data.features import check_features, refuse_tensors, refuse_unseen
from ...engine import loop
from ...engine.mixture_base import DensityMixture
from ...numerics import seeding
from ...numerics.coordinates import measure
from ...selection.automatic import AutomaticMixture
from . import kernel, structure
from .columns import Column, as_frame, code_array, code_frame, decode

__all__ = ["MixedMixture"]

SAMPLE = 4096  # size of the sample for the starts
NUMBERS = ("normal", "log-normal", "counts")


@documented
class MixedMixture(AutomaticMixture, DensityMixture):
    """Posterior probabilities of clusters in a table whose columns are of different kinds.

    The latent class model [1]_: within a cluster columns are independent, each one normal,
    log-normal, categorical, a count (Poisson) or binary. Missing values are integrated out. A weak
    conjugate prior [2]_ keeps every parameter away from its boundary, so no cluster collapses.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default="auto"
        Number of clusters; of several the best by ``criterion``. ``"auto"`` tries 1 to
        ``max_clusters``, and more while the best is the largest one tried.
    columns : dict, optional
        Kind of columns, by name or position: ``"normal"``, ``"log-normal"``, ``"categorical"``,
        ``"counts"`` or ``"binary"``. Others are read from the types of a data frame: floats are
        normal; words, categories and objects are categorical; booleans are binary. Whole numbers
        are binary if they have two values, counts if none is negative and some are zero,
        categorical if they have at most ten values, all positive, and normal otherwise. The columns
        of an array are normal.
    max_clusters : int, default=9
        Largest number that "auto" tries at first; four times as many at most.
    criterion : {"bic", "icl", "aic"}, default="bic"
        How to choose the number of clusters.
    smoothing : float, default=1.0
        Weight of the prior, in objects, shared by the clusters.
    n_init : int, default=10
        Number of starts; the best is kept. With many objects the starts compete on a sample.
    max_iter : int, default=1000
        Most steps of a run.
    tol : float, default=1e-7
        A run stops when a step raises the objective per object by less than this.
    %(seed_and_threads)s

    Attributes
    ----------
    %(posterior)s
    parameters_ : dict
        For every column a dict of arrays of shape (n_clusters,): ``mean`` and
        ``standard_deviation`` (of the logarithm, for log-normal columns), ``rate``, or the
        probability of every level.
    columns_ : dict
        Kind of every column.
    %(search)s
    log_likelihood_ : float
        Log-likelihood of the fitted objects.
    objective_ : float
        Log-likelihood plus logarithm of the prior; ``history_`` at every step.
    %(ended)s

    See Also
    --------
    GaussianMixture : Columns that are all normal and correlated within clusters.
    DirichletProcessMixture : The number of clusters inferred.

    References
    ----------
    .. [1] J. K. Vermunt and J. Magidson, Latent class cluster analysis, in Applied Latent Class
       Analysis, Cambridge University Press, 2002.
    .. [2] J. K. Vermunt and J. Magidson, Technical Guide for Latent GOLD 4.0, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MixedMixture
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat([0, 1], 60)
    >>> X = np.column_stack([rng.normal(4.0 * group), rng.poisson(1 + 6 * group)])
    >>> model = MixedMixture(2, columns={1: "counts"}, random_state=0).fit(X)
    >>> model.columns_
    {0: 'normal', 1: 'counts'}
    >>> np.sort(model.parameters_[1]["rate"]).round(1) > 5
    array([False,  True])
    """

    _columns: list[Column]
    _constant: dict[int, float]  # values of the columns of numbers that do not vary

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature."""
        return True

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        columns: ArrayLike | None = None,
        max_clusters: int = 9,
        criterion: str = "bic",
        smoothing: float = 1.0,
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.columns, self.smoothing = columns, smoothing
        self.max_clusters, self.criterion = max_clusters, criterion
        self.n_jobs = n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _draw(self, labels: np.ndarray, rng: np.random.Generator) -> Any:
        values = {c.name: decode(self._drawn(c, labels, rng), c) for c in self._columns}
        if self._backend is None:
            return np.column_stack([np.asarray(v) for v in values.values()])
        import narwhals as nw

        return nw.from_dict(values, backend=self._backend).to_native()

    def _drawn(self, column: Column, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Codes of one column for objects of known clusters."""
        theta = self.parameters_[column.name]
        if column.is_discrete:
            cumulative = np.cumsum(np.stack([theta[level] for level in column.levels]), axis=0)
            codes = (rng.random(len(labels)) > cumulative[:, labels]).sum(axis=0)
            return np.minimum(codes, len(column.levels) - 1)
        if column.kind == "counts":
            return rng.poisson(theta["rate"][labels])
        return rng.normal(theta["mean"][labels], theta["standard_deviation"][labels])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self.smoothing, "smoothing", low=0.0, high=np.inf, strict=True)

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Codes (n, p); ``reset`` learns the columns."""
        frame = as_frame(X)
        fitted = None if reset else self._columns
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in frame.shape:
                raise ValueError(f"X is an empty table of shape {tuple(frame.shape)}")
            codes, columns = code_frame(frame, fitted, self.columns)
        else:
            refuse_tensors(self, X)
            X = check_features(self, X, reset=reset, missing=True, sparse=False)
            names = list(getattr(self, "feature_names_in_", range(X.shape[1])))
            codes, columns = code_array(X, fitted, self.columns, names)
        if reset:
            self._columns = columns
            self._backend = None if frame is None else frame.implementation.value
        return codes

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """The columns of numbers, unless those of categories tell the clusters apart."""
        codes = to_numpy(self._read(evidence, reset=False))
        if structure.separated_by_categories(codes, self._columns, to_numpy(self.labels_)):
            return None, ""
        return structure.numbers(codes, self._columns), "features"

    def _prepare(self, X: Any, sample_weight: ArrayLike | None) -> Rows:
        codes = self._read(X, reset=True)
        plain = Rows(codes, check_weights(sample_weight, codes), n_jobs=self.n_jobs)
        refuse_unseen(plain.extremes()[:1], [column.name for column in self._columns])
        self._layout = self._laid_out(plain)
        rows = self._rows(codes, *plain.columns).kept()
        self._overall = rows.sum(lambda Z, w: (Z.sum(axis=0) if w is None else w @ Z,))[0]
        return rows

    def _laid_out(self, plain: Rows) -> kernel.Layout:
        low, high = plain.extremes()
        kinds = np.array([column.kind for column in self._columns])
        # Numbers without variance tell no clusters apart: they stay out of the fit.
        constant = (low == high) & (low != high).any() & np.isin(kinds, NUMBERS)
        self._constant = {int(i): float(low[i]) for i in np.flatnonzero(constant)}
        kinds[constant] = ""
        normal = np.flatnonzero((kinds == "normal") | (kinds == "log-normal"))
        discrete = np.flatnonzero((kinds == "categorical") | (kinds == "binary"))
        coordinates = measure(plain, per_feature=True, mix=False)
        return kernel.Layout(
            normal,
            coordinates.shift[normal],
            coordinates.scale[normal],
            (kinds[normal] == "log-normal").astype(np.float64),
            np.flatnonzero(kinds == "counts"),
            discrete,
            np.array([len(self._columns[i].levels) for i in discrete], dtype=np.int64),
        )

    def _rows(self, X: ArrayLike, *columns: ArrayLike) -> Rows:
        layout = self._layout
        view = lambda block: kernel.expand(to_numpy(block), layout)  # noqa: E731
        return Rows(X, *columns, n_jobs=self.n_jobs, view=view)

    def _prior(self) -> kernel.Prior:
        k = self._setting["n_clusters"]
        return kernel.prior_of(self._overall, self._layout, k, float(self.smoothing))

    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> kernel.State:
        """One M step from a partition: k-means, or the cells around objects drawn at random."""
        k = self._setting["n_clusters"]

        def embed(Z: np.ndarray) -> np.ndarray:
            return kernel.embed(Z, self._overall, self._layout)

        Z, weights, _ = seeding.sorted_sample(rows, SAMPLE, rng, key=embed)
        E = embed(Z)
        if turn % 2 == 0:
            labels = seeding.kmeans(E, weights, k, rng)
        else:
            labels = seeding.nearest(E, seeding.kmeans_plus_plus(E, weights, k, rng))
        sums = ((labels == np.arange(k)[:, None]) * weights) @ Z
        return kernel.update(kernel.Stats(sums, 0.0), self._layout, self._prior())

    def _ready(self, state: kernel.State) -> np.ndarray:
        return kernel.coefficients(state)

    def _sum(self, rows: Rows, state: kernel.State) -> kernel.Stats:
        stats = super()._sum(rows, state)
        return stats._replace(objective=stats.objective + kernel.log_prior(state, self._prior()))

    def _summarize(
        self, block: np.ndarray, weights: Any, state: np.ndarray, given: Weights = None
    ) -> kernel.Stats:
        return kernel.summarize(block, weights, state, given)

    def _update(self, stats: kernel.Stats, state: kernel.State) -> kernel.State:
        return kernel.update(stats, self._layout, self._prior())

    def _logits(self, block: Any, ready: np.ndarray) -> np.ndarray:
        return kernel.logits(block, ready)

    def _n_parameters(self) -> int:
        return kernel.n_parameters(self._setting["n_clusters"], self._layout)

    _pack = staticmethod(kernel.pack)

    def _unpack(self, vector: np.ndarray, like: kernel.State) -> kernel.State:
        return kernel.unpack(vector, like, self._layout)

    def _ordered(self, run: loop.Run) -> loop.Run:
        return run._replace(state=kernel.ordered(run.state))

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        super()._finish(rows, run)
        state, layout = run.state, self._layout
        self.weights_ = state.weights
        self.columns_ = {column.name: column.kind for column in self._columns}
        self.parameters_: dict[Any, dict[Any, np.ndarray]] = {
            column.name: {} for column in self._columns
        }
        for at, i in enumerate(layout.normal):
            self.parameters_[self._columns[i].name] = {
                "mean": state.means[:, at] / layout.scale[at] + layout.shift[at],
                "standard_deviation": np.sqrt(state.variances[:, at]) / layout.scale[at],
            }
        for at, i in enumerate(layout.counts):
            self.parameters_[self._columns[i].name] = {"rate": state.rates[:, at]}
        for i, value in self._constant.items():
            same, kind = np.full(len(state.weights), value), self._columns[i].kind
            self.parameters_[self._columns[i].name] = (
                {"rate": same}
                if kind == "counts"
                else {"mean": same, "standard_deviation": np.zeros_like(same)}
            )
        for first, i in zip(layout.offsets, layout.categorical, strict=False):
            column = self._columns[i]
            self.parameters_[column.name] = {
                level: state.probabilities[:, first + at] for at, level in enumerate(column.levels)
            }
