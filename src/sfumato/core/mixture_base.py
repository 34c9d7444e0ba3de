"""What mixtures with a density share: information criteria, and a search over candidates.

A *setting* is what a candidate fixes: the number of clusters and, in some models, a shape.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .base import InductiveClusterer, weight_of
from .growth import first_sizes, more_sizes
from .loop import Run
from .model_search import ModelCandidate, ModelSearch
from .rows import Rows
from .types import Array, ArrayLike, Weights
from .validation import check_choice, check_features, check_n_clusters, check_number, check_weights
from .warn import warn

__all__ = ["DensityMixture", "Fit"]

COLLAPSED = "a cluster holds too few objects for its shape, or has no width"


class Fit(NamedTuple):
    """Log-likelihood, uncertainty of the memberships (twice the logarithm of each row's largest,
    negative) and total weight.
    """

    log_likelihood: float
    uncertainty: float
    total: float


class DensityMixture(InductiveClusterer):
    """Mixtures fitted by maximum likelihood or by a maximum of the posterior.

    Hooks beside those of ``InductiveClusterer``: ``_read`` (evidence to an array), ``_posterior``
    (memberships and log-density, in the units of the data, of a block), ``_n_parameters``.
    Hooks find what to fit in ``_setting``, not in the parameters, which may say "auto".
    """

    chooses_n_clusters = "auto"
    _larger = True
    _relative = False
    _screen = 8192
    _draft_steps = 0  # that every start takes before the best go on; 0: all go on
    _finalists = 3
    _setting: dict[str, Any]

    @abstractmethod
    def _tabulate(self) -> None:
        """Set ``selection_`` where the number of clusters was searched for."""

    @abstractmethod
    def _start(self, rows: Rows, rng: np.random.Generator, turn: int = 0) -> Any:
        """A first state; ``turn`` counts the starts, so that they may take turns in their kind."""

    @abstractmethod
    def _posterior(self, block: Array, ready: Any) -> tuple[np.ndarray, np.ndarray]:
        """Memberships (b, k) and log-densities (b,) of a block, in float64."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Number of free parameters of the present setting."""

    def _is_sound(self, rows: Rows, state: Any) -> bool:
        """Whether no cluster has collapsed; models that cannot collapse need not say."""
        return True

    def _failure(self, rows: Rows, state: Any) -> str:
        """Why a candidate must not win, or ""; one that was asked for by its number always may."""
        return "" if self._is_sound(rows, state) else COLLAPSED

    def _read(self, X: Array, *, reset: bool) -> Any:
        return check_features(self, X, reset=reset, missing=True, sparse=False)

    def _settings(self, sizes: list[int]) -> list[dict[str, Any]]:
        """Candidates, the simplest first; models with shapes add theirs."""
        return [{"n_clusters": k} for k in sizes]

    def _sizes(self, n_objects: int) -> list[int]:
        wanted = self.n_clusters
        if isinstance(wanted, str):
            check_choice(wanted, "n_clusters", ("auto",))
            return first_sizes(n_objects, self.max_clusters)
        if not isinstance(wanted, Iterable):
            return [check_n_clusters(wanted, n_objects)]
        sizes = [check_n_clusters(k, n_objects) for k in wanted]
        if not sizes:
            raise ValueError("n_clusters is an empty sequence: give at least one number to try")
        return sizes

    def _more_sizes(
        self, failed: bool, best: dict[str, Any], tried: list[int], n_objects: int
    ) -> list[int]:
        """Numbers that "auto" tries next; none where even the best candidate has collapsed."""
        if failed or not isinstance(self.n_clusters, str):
            return []
        return more_sizes(best["n_clusters"], tried[-1], n_objects, self.max_clusters)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.criterion, "criterion", ("bic", "icl", "aic"))
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn the mixture.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            One object per row; NaN means missing.
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object.

        Returns
        -------
        self
        """
        self._forget()
        self._check_parameters()
        self._check_room(X)
        rows = self._prepare(X, sample_weight)
        sizes, table, best = self._sizes(rows.shape[0]), [], None
        while sizes:
            for setting in self._settings(sizes):
                self._setting = setting
                run = self._best_run(rows)
                tried, reason = self._candidate(rows, run.state), self._failure(rows, run.state)
                table.append(tried.failed(reason) if reason else tried)
                # What failed has no claim to its likelihood: it wins only over its like.
                value = (bool(reason), getattr(tried, self.criterion))
                if best is None or value < best[0]:
                    best = (value, setting, run, tried)
            assert best is not None
            sizes = self._more_sizes(best[0][0], best[1], sizes, rows.shape[0])
        assert best is not None
        _, self._setting, run, candidate = best
        self._finish(rows, self._ordered(run))
        self.search_ = ModelSearch(table, self.criterion)
        self.log_likelihood_ = candidate.log_likelihood
        self._tabulate()
        if all(row.setting["n_clusters"] > 1 for row in table):
            self._warn_if_one_is_enough(rows, candidate)
        return self

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[Run]:
        """Runs from all starts, or drafts of which the best go on; unsound ones only if all are."""
        firsts = [
            self._start(rows, np.random.default_rng(seed), turn) for turn, seed in enumerate(seeds)
        ]
        if self._setting["n_clusters"] == 1:
            firsts = firsts[:1]
        if self._draft_steps and len(firsts) > 1:
            step, drafts = self._step(rows), []
            for state in firsts:
                for _ in range(self._draft_steps):
                    state, value = step(state)
                drafts.append((value, state))
            drafts.sort(key=lambda draft: -draft[0])
            firsts = [state for _, state in drafts[: self._finalists]]
        runs = [self._run(rows, state, total) for state in firsts]
        return [run for run in runs if self._is_sound(rows, run.state)] or runs

    def _candidate(self, rows: Rows, state: Any) -> ModelCandidate:
        fit, p = self._fit_of(rows, state), self._n_parameters()
        deviance = -2.0 * fit.log_likelihood
        bic = deviance + p * np.log(fit.total)
        return ModelCandidate(
            dict(self._setting),
            float(bic),
            float(bic + fit.uncertainty),
            float(deviance + 2.0 * p),
            fit.log_likelihood,
            p,
        )

    def _warn_if_one_is_enough(self, rows: Rows, chosen: ModelCandidate) -> None:
        """Compare with one cluster of the same shape: structureless data get a warning."""
        mine = self._setting
        self._setting = {**mine, "n_clusters": 1}
        run = self._run(rows, self._start(rows, np.random.default_rng(0)), weight_of(rows))
        one = self._candidate(rows, run.state)
        self._setting = mine
        if one.bic < chosen.bic:
            warn(
                f"one cluster describes these data better than {chosen.setting['n_clusters']} "
                f"(BIC {one.bic:.1f} against {chosen.bic:.1f}): the memberships may mean nothing"
            )

    def _fit_of(self, rows: Rows, state: Any) -> Fit:
        ready = self._ready(state)

        def part(block: Array, weights: Weights = None, *_: Any) -> Fit:
            U, log_density = self._posterior(block, ready)
            w = np.ones(len(U)) if weights is None else weights
            surest = np.log(U.max(axis=1))
            return Fit(float(w @ log_density), float(-2.0 * (w @ surest)), float(w.sum()))

        return rows.sum(part)

    def _finish(self, rows: Rows, run: Run) -> None:
        self._dtype = np.float32 if "float32" in str(rows.dtype) else np.float64
        super()._finish(rows, run)

    def _assign(self, block: Array, state: Any) -> np.ndarray:
        return self._posterior(block, state)[0].astype(self._dtype)

    def _given(self, X: Array, sample_weight: ArrayLike | None = None) -> Rows:
        self._check_fitted()
        X = self._read(X, reset=False)
        return self._rows(X, check_weights(sample_weight, X))

    def predict_proba(self, X: Array) -> np.ndarray:
        """Posterior probabilities of new objects; missing values are integrated out.

        Parameters
        ----------
        X : array or data frame of shape (n_new, p)

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        rows = self._given(X)
        ready = self._ready(self._state)
        kind = np.float32 if "float32" in str(rows.dtype) else np.float64
        return rows.map(lambda block, _: self._posterior(block, ready)[0].astype(kind))

    def score_samples(self, X: Array) -> np.ndarray:
        """Logarithm of the density at every object, of its observed values if some are missing.

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        log_density : array of shape (n,)
        """
        rows = self._given(X)
        ready = self._ready(self._state)
        return rows.map(lambda block, _: self._posterior(block, ready)[1])

    def score(
        self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log-likelihood per unit of weight."""
        fit = self._fit_of(self._given(X, sample_weight), self._state)
        return fit.log_likelihood / fit.total

    def bic(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion, ``-2 log L + p log n``: lower is better."""
        return self._candidate(self._given(X, sample_weight), self._state).bic

    def aic(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, ``-2 log L + 2 p``: lower is better."""
        return self._candidate(self._given(X, sample_weight), self._state).aic

    def icl(self, X: Array, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood: ``bic`` plus the uncertainty of the memberships.

        The addition is ``-2 sum_i w_i log max_j u_ij`` (Biernacki, Celeux and Govaert 2000, in the
        form that R's mclust uses); lower is better.
        """
        return self._candidate(self._given(X, sample_weight), self._state).icl

    def _draw_labels(self, n_samples: Any, rng: np.random.Generator) -> np.ndarray:
        """Components of ``n_samples`` objects to draw, in ascending order."""
        self._check_fitted()
        n_samples = check_number(n_samples, "n_samples", low=1, integer=True)
        share = np.asarray(self.weights_, dtype=np.float64)
        return np.repeat(np.arange(len(share)), rng.multinomial(n_samples, share / share.sum()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags
