"""``n_clusters="auto"``: choice of the number of clusters inside ``fit``, and its table."""

import sys
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import _check_feature_names

from ..array.arrays import is_numpy, reader
from ..array.types import ArrayLike
from ..array.validation import check_number, check_numbers, refuse_mask
from ..array.warn import one_warning, warn
from ..data.constraints import Known
from ..engine.linked import publish_kept
from ..engine.mixture import GROWTH
from ..engine.numbers import noise_level, number_scores
from ._evidence import TUNING
from .choose import INFORMATION, Choice, choose_n_clusters, reported


class AutomaticMixture:
    """A mixture that chooses among candidates by its ``criterion``."""

    own_criteria: ClassVar[tuple[str, ...]] = INFORMATION
    n_clusters: Any
    search_: Any

    @property
    def selection_(self) -> Choice:
        """The best candidate for each number of clusters, if there were several."""
        if isinstance(self.n_clusters, Integral) or not hasattr(self, "search_"):
            raise AttributeError("selection_ is there after a fit that chose n_clusters")
        best, name = self.search_.best_of_each(), self.search_.criterion
        # Information criteria are minimised, scores are maximised.
        scores = {k: -float(getattr(row, name)) for k, row in best.items()}
        failures = {k: row.reason or None for k, row in best.items()}
        return reported(self, name, scores, failures)  # type: ignore[arg-type]

    def _finest(self) -> int:
        """The largest number of clusters that the criterion rates above one cluster."""
        rows = self.selection_.table if hasattr(self, "selection_") else ()
        one = {row.n_clusters: row.score for row in rows}.get(1, np.nan)
        better = [row.n_clusters for row in rows if row.score > one]
        return max([super()._finest(), *better])  # type: ignore[misc]


class AutomaticClusters:
    """A clusterer whose ``n_clusters`` may be "auto": then ``choose_n_clusters`` finds it."""

    n_clusters: Any
    max_clusters: Any
    selection_: Choice

    def _fit_automatic(
        self,
        X: ArrayLike,
        sample_weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        **links: ArrayLike | None,
    ) -> Any:
        """Fit with the number found without links, or the fewest that links and labels need."""
        numbers = self._candidates(X)
        model = clone(self).set_params(n_clusters=2)
        given: Any = {"max_clusters": self.max_clusters, "sample_weight": sample_weight}
        choice = choose_n_clusters(model, X, numbers, random_state=0, **given)
        fitted = choice.estimator
        known = Known.of(links.get("must_link"), links.get("cannot_link"), y, X, sys.maxsize)
        links = {name: pairs for name, pairs in links.items() if pairs is not None}
        if known.links is not None:
            model = clone(self).set_params(n_clusters=max(choice.n_clusters, known.fewest_clusters))
            fitted = model.fit(X, y, sample_weight=sample_weight, **links)
        self._take_over(fitted)
        _check_feature_names(self, X, reset=True)
        self.selection_ = choice._replace(estimator=None)
        return self

    def _candidates(self, X: Any) -> list[int] | None:
        """The candidate numbers, ascending, or None for "auto"; unsuitable data are refused."""
        refuse_mask(X, "X")
        numbers = check_numbers(self.n_clusters, "n_clusters")
        if numbers is None:
            check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        if reader(X) is not None:
            raise TypeError(
                f"{type(self).__name__} with n_clusters='auto' does not read dask arrays: choose "
                "on a sample, sfumato.selection.choose_n_clusters(model, X[:5000].compute()), "
                "and give the number; EvidenceAccumulation('auto') streams"
            )
        plain = isinstance(X, (np.ndarray, list, tuple)) or sp.issparse(X) or hasattr(X, "columns")
        if not (plain or (hasattr(X, "__array__") and is_numpy(X))):
            raise TypeError(
                "n_clusters='auto' reads arrays and sparse arrays in memory, got "
                f"{type(X).__name__}: give the number of clusters"
            )
        return numbers

    def _take_over(self, fitted: Any) -> None:
        """Take over the fitted attributes of a copy with another number of clusters."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        self.__dict__.update({k: v for k, v in vars(fitted).items() if k not in parameters})


class AutomaticSimilarity(AutomaticClusters):
    """A model of a similarity whose ``n_clusters`` may be "auto": the number with the largest score
    of one spectrum, or one if none is above that of noise.
    """

    own_criteria: ClassVar[tuple[str, ...]] = ("penalized-eigengap",)
    _scores_: dict[int, float]  # score of each number of clusters

    def _fit_automatic(
        self,
        X: ArrayLike,
        sample_weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        **links: ArrayLike | None,
    ) -> Any:
        """Fit with the number found without links, or the fewest that links and labels need."""
        numbers = self._candidates(X)
        model, evidence, rows = self._prepared_for_any_number(X, sample_weight)
        if numbers is None:
            scores = self._searched(evidence)
        else:
            every = number_scores(_weighted(evidence), evidence.weights, max(numbers))
            scores = {k: every.get(k, 0.0) for k in numbers if k > 1}
        best = max(scores, key=lambda k: scores[k], default=1)
        least = noise_level(_total(evidence))
        one = numbers is None or 1 in numbers
        found = 1 if not scores or (one and scores[best] <= least) else best
        known = Known.of(links.get("must_link"), links.get("cannot_link"), y, X, rows.n)
        model.set_params(n_clusters=max(found, known.fewest_clusters))
        with one_warning():
            if found == 1 < rows.n:
                highest = f"{scores[best]:.2f}" if scores else "there are too few objects"
                warn(
                    f"no number of clusters scores above noise ({highest}, noise up to "
                    f"{least:.2f}): one cluster is the answer; give n_clusters to see others"
                )
            model._fit(model._prepared(evidence, rows, known), known, X)
            publish_kept(model, known)
        self._take_over(model)
        # One cluster gets the score that noise would have.
        rated = ({1: least} if one else {}) | scores
        self._scores_ = scores
        self.selection_ = reported(model, self.own_criteria[0], rated)._replace(n_clusters=found)
        return self

    def _prepared_for_any_number(self, X: Any, *weights: Any) -> tuple[Any, Any, Any]:
        """A copy of the model, the similarity of the objects, and the object of each row."""
        model: Any = clone(self).set_params(n_clusters=1)  # type: ignore[type-var]
        model._check_parameters()
        return model, *model._objects(X, *weights)

    def _searched(self, evidence: Any) -> dict[int, float]:
        """Scores by number of clusters; more numbers are tried if the best is near the largest."""
        W = _weighted(evidence)
        largest, most = self.max_clusters, min(GROWTH * self.max_clusters, W.shape[0] - 1)
        twice = 2 * largest
        while True:
            largest = min(largest, most)
            scores = number_scores(W, evidence.weights, largest)
            best = max(scores, key=lambda k: scores[k], default=1)
            few = scores.get(best, 0.0) <= noise_level(_total(evidence)) and 2 * largest <= twice
            if largest == most or (best < TUNING.near * largest and not few):
                return scores
            largest *= 2

    def _level_scores(self) -> dict[int, float]:
        given = getattr(self, "_fitted_to_", {})
        here = bool(given) and reader(given["X"]) is None and is_numpy(given["X"])
        if not hasattr(self, "_scores_") and here:
            named = (given.get(name) for name in ("sample_weight", "pair_weight"))
            self._scores_ = self._searched(self._prepared_for_any_number(given["X"], *named)[1])
        return getattr(self, "_scores_", {})


def _weighted(evidence: Any) -> Any:
    """The similarity times the weights of its pairs."""
    return evidence.W if evidence.pairs is None else evidence.W * evidence.pairs


def _total(evidence: Any) -> float:
    """Total weight of the objects."""
    return float(evidence.W.shape[0] if evidence.weights is None else evidence.weights.sum())
