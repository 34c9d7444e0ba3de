"""Mixtures for tables with columns of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.rows import Rows
from ..array.types import ArrayLike, RandomState
from ..array.validation import check_number
from ..components.mixed import Layout, Mixed, mixed_sample
from ..data.columns import Column, as_frame, code_array, code_frame, decode
from ..data.features import check_features, refuse_tensors
from ..engine.component import Component
from ..engine.mixture import Mixture
from ..engine.search import Objects, Plan
from ..numerics.distances import measure
from ..selection.automatic import AutomaticMixture

__all__ = ["MixedMixture"]

# Numeric kinds, and the scales on which their clusters are approximately round.
_SCALES: dict[str, Callable[[np.ndarray], np.ndarray]]
_SCALES = {"normal": np.asarray, "log-normal": np.log, "counts": np.sqrt}


@documented
class MixedMixture(AutomaticMixture, Mixture):
    """Posterior probabilities of clusters in a table whose columns are of different kinds.

    The latent class model [1]_: within a cluster, columns are independent, and each is normal,
    log-normal, categorical, a count (Poisson) or binary. Missing values are integrated out. A weak
    conjugate prior [2]_ keeps every parameter away from its boundary, so no cluster collapses.

    Parameters
    ----------
    %(mixture_numbers)s
    columns : dict, optional
        Kind of columns, by name or position: ``"normal"``, ``"log-normal"``, ``"categorical"``,
        ``"counts"`` or ``"binary"``. By default, kinds follow from the types of a data frame:
        floats are normal; strings, categories and objects are categorical; booleans are binary.
        Whole numbers are binary if they have two values, counts if none is negative and some are
        zero, categorical if they have at most ten values, all positive, and normal otherwise. The
        columns of an array are normal.
    smoothing : float, default=1.0
        Weight of the prior, in objects, shared by the clusters.
    %(mixture_loop)s

    Attributes
    ----------
    %(posterior)s
    parameters_ : dict
        For every column, a dict of arrays of shape (n_clusters,): ``mean`` and
        ``standard_deviation`` (of the logarithm for log-normal columns), ``rate``, or the
        probability of every level.
    columns_ : dict
        Kind of every column.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood; the objective adds the log prior. ``history_`` has it at every step.
    %(ended)s

    References
    ----------
    .. [1] Vermunt and Magidson, Latent class cluster analysis, Applied Latent Class Analysis, 2002.
    .. [2] Vermunt and Magidson, Technical Guide for Latent GOLD 4.0, 2005.

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

    _component: Mixed
    _columns: list[Column]
    _constant: dict[int, float]  # values of the numeric columns that do not vary

    unit_free = True

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
    ) -> None:
        self.columns, self.smoothing = columns, smoothing
        self.max_clusters, self.criterion = max_clusters, criterion
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _drawn(self, labels: np.ndarray, rng: np.random.Generator) -> Any:
        codes = self._component.draw(self._state, labels, rng)
        codes.update({i: np.full(len(labels), value) for i, value in self._constant.items()})
        values = {c.name: decode(codes[i], c) for i, c in enumerate(self._columns)}
        if self._backend is None:
            return np.column_stack([np.asarray(v) for v in values.values()])
        import narwhals as nw

        return nw.from_dict(values, backend=self._backend).to_native()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self.smoothing, "smoothing", low=0.0, high=np.inf, strict=True)

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Codes (n, p); with ``reset``, the columns are learnt."""
        frame = as_frame(X)
        fitted = None if reset else self._columns
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in frame.shape:
                raise ValueError(f"X is an empty table of shape {tuple(frame.shape)}")
            codes, columns = code_frame(frame, fitted, self.columns)
        else:
            refuse_tensors(self, X)
            X = check_features(self, X, reset=reset, missing=True)
            X = X.toarray() if sp.issparse(X) else X
            names = list(getattr(self, "feature_names_in_", range(X.shape[1])))
            codes, columns = code_array(X, fitted, self.columns, names)
        if reset:
            self._columns = columns
            self._backend = None if frame is None else frame.implementation.value
        return codes

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """Numeric columns for the structure test, unless categories already separate the clusters.
        Categories always have gaps, so valleys of density prove nothing there."""
        codes = to_numpy(self._read(evidence, reset=False))
        if separated_by_categories(codes, self._columns, to_numpy(self.labels_)):
            return None, ""
        kinds = [column.kind for column in self._columns]
        found = [_SCALES[kind](codes[:, j]) for j, kind in enumerate(kinds) if kind in _SCALES]
        return (np.column_stack(found) if found else None), "features"

    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        plain = Rows(data.X, data.weights)
        layout = self._laid_out(plain)
        view = Mixed(1, layout, np.empty(0), 1.0).rows(data.X, data.weights)
        overall = view.sum(lambda Z, w: (Z.sum(axis=0) if w is None else w @ Z,))[0]

        def components(k: int) -> list[Component]:
            return [Mixed(k, layout, overall, float(self.smoothing))]

        sample = partial(mixed_sample, layout=layout, overall=overall)
        return self._planned(components, sample, seed, fixed)

    def _laid_out(self, plain: Rows) -> Layout:
        low, high = plain.extremes()
        kinds = np.array([column.kind for column in self._columns])
        # Numeric columns without variance do not separate clusters and stay out of the fit.
        constant = (low == high) & (low != high).any() & np.isin(kinds, list(_SCALES))
        constant &= not self._in_batches
        self._constant = {int(i): float(low[i]) for i in np.flatnonzero(constant)}
        kinds[constant] = ""
        normal = np.flatnonzero((kinds == "normal") | (kinds == "log-normal"))
        discrete = np.flatnonzero((kinds == "categorical") | (kinds == "binary"))
        coordinates = measure(plain, per_feature=True, mix=False)
        return Layout(
            normal,
            coordinates.shift[normal],
            coordinates.scale[normal],
            (kinds[normal] == "log-normal").astype(np.float64),
            np.flatnonzero(kinds == "counts"),
            discrete,
            np.array([len(self._columns[i].levels) for i in discrete], dtype=np.int64),
        )

    def _publish_parameters(self) -> None:
        state, layout = self._state, self._component.layout
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


def separated_by_categories(
    codes: np.ndarray, columns: Sequence[Column], labels: np.ndarray
) -> bool:
    """Whether a naive Bayes rule on the categories recovers most of the labels. It must avoid half
    of the errors made by always naming the largest cluster (Goodman and Kruskal's lambda)."""
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    scores = np.log(np.maximum(sizes, 1e-9))[None].repeat(len(labels), axis=0)
    for j, column in enumerate(columns):
        if not column.is_discrete:
            continue
        seen = np.flatnonzero(np.isfinite(codes[:, j]))
        levels = codes[seen, j].astype(int)
        table = np.ones((levels.max(initial=0) + 1, k))
        np.add.at(table, (levels, labels[seen]), 1.0)
        scores[seen] += np.log(table / table.sum(axis=0))[levels]
    errors, without = np.mean(scores.argmax(axis=1) != labels), 1.0 - sizes.max() / sizes.sum()
    return bool(without > 0 and errors <= 0.5 * without)
