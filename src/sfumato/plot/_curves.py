"""Curves: calibration, choice of the number of clusters, convergence, information."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.types import ArrayLike
from ..engine.component import ModelSearch
from ..metrics import ConsensusDistribution
from ..selection.choose import Choice
from ._objects import Axes, axes_or_new, literal, palette


@documented
def calibration(
    stated: Any, observed: Any, counts: ArrayLike | None = None, *, ax: Axes | None = None
) -> Any:
    """Observed frequency against stated probability; calibrated memberships lie on the diagonal.

    Parameters
    ----------
    stated, observed : arrays of shape (b,)
        Mean stated probability in every bin, and the observed frequency.
    counts : array of shape (b,), optional
        Number of cases in every bin, drawn as the area of the points; empty bins are left out.
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.calibration([0.1, 0.5, 0.9], [0.12, 0.48, 0.85], [40, 10, 50])
    """
    stated, observed = _same_length(stated, observed, "stated", "observed")
    counts = np.ones(len(stated)) if counts is None else to_numpy(counts)
    ax = axes_or_new(ax)
    seen = (counts > 0) & np.isfinite(stated) & np.isfinite(observed)
    colour = palette(1)[0]
    ax.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--", label="perfect")
    ax.plot(stated[seen], observed[seen], color=colour, label="observed (area: cases)")
    area = 20 + 180 * counts[seen] / max(counts.max(initial=0), 1e-300)
    ax.scatter(stated[seen], observed[seen], s=area, color=colour, alpha=0.8, linewidths=0)
    ax.set(xlabel="stated probability", ylabel="observed frequency", aspect="equal")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    ax.legend(loc="upper left", frameon=False)
    return ax


@documented
def selection(
    n_clusters: Any,
    scores: ArrayLike | None = None,
    *,
    spread: Any = None,
    chosen: int | None = None,
    name: str = "score",
    ax: Axes | None = None,
) -> Any:
    """Score of every number of clusters, with the chosen one marked.

    Parameters
    ----------
    n_clusters : array of shape (c,), or what ``choose_n_clusters`` returned
    scores : array of shape (c,)
        Left out if the first argument is a choice, which has its scores.
    spread : array of shape (c,), optional
        Standard errors, drawn as a band.
    chosen : int, optional
    name : str, what the score is
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.selection([2, 3, 4], [0.5, 0.8, 0.7], chosen=3)
    """
    if hasattr(n_clusters, "table"):
        choice = n_clusters
        rows = [row for row in choice.table if np.isfinite(row.score)]
        n_clusters, scores = [row.n_clusters for row in rows], [row.score for row in rows]
        errors = [row.standard_error for row in rows]
        spread = np.nan_to_num(errors) if spread is None else spread
        chosen = choice.n_clusters if chosen is None else chosen
        name = f"{choice.score_name} (higher is better)" if name == "score" else name
    if scores is None:
        raise ValueError("selection needs scores, one for each number of clusters, or a Choice")
    n_clusters, scores = _same_length(n_clusters, scores, "n_clusters", "scores")
    ax = axes_or_new(ax)
    colour = palette(2)
    ax.plot(n_clusters, scores, color=colour[0], marker="o", markersize=5)
    if spread is not None:
        band = scores - to_numpy(spread), scores + to_numpy(spread)
        ax.fill_between(n_clusters, *band, color=colour[0], alpha=0.2, linewidth=0)
    if chosen is not None:
        ax.axvline(chosen, color=colour[1], linestyle="--", label=f"chosen: {chosen}")
        ax.legend(frameon=False)
    _number_ticks(ax, n_clusters)
    ax.set(xlabel="number of clusters", ylabel=literal(name))
    return ax


def _number_ticks(ax: Axes, numbers: Sequence[int] | np.ndarray) -> None:
    ax.set_xticks(numbers if len(numbers) <= 15 else numbers[:: len(numbers) // 10])


@documented
def model_search(search: Any, *, ax: Axes | None = None) -> Any:
    """Criterion of every candidate of a mixture: one line for each covariance family.

    Parameters
    ----------
    search : fitted mixture, or its ``search_``
    %(axes)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GaussianMixture, plot
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([0, 9], 30)[:, None]
    >>> model = GaussianMixture([1, 2, 3], n_init=1, random_state=0).fit(X)
    >>> ax = plot.model_search(model.search_)
    """
    search = getattr(search, "search_", search)
    if not isinstance(search, ModelSearch):
        raise TypeError(
            "search must be a fitted mixture or its search_, got "
            f"{type(search).__name__}: plot.selection draws a Choice"
        )
    sizes, types, values = search.table()
    ax = axes_or_new(ax)
    colours = palette(min(len(types), 7))
    for i, (name, column) in enumerate(zip(types, values.T, strict=True)):
        # Seven colours times two line styles distinguish fourteen families.
        style = "o-" if i < 7 else "s--"
        ax.plot(sizes, column, style, color=colours[i % 7], markersize=4, label=literal(name))
    for best in search.best(1):
        at = best.n_clusters, getattr(best, search.criterion)
        ax.plot(*at, "o", markersize=12, markerfacecolor="none", markeredgecolor="black")
    what = f"{search.criterion.upper()} (lower is better)"
    ax.set(xlabel="number of components", ylabel=what, xticks=sizes)
    ax.legend(ncols=2, frameon=False, fontsize="small")
    return ax


@documented
def cluster_numbers(
    distribution: Mapping[int, float] | Choice, *, chosen: int | None = None, ax: Axes | None = None
) -> Any:
    """Probability of every number of clusters, with the chosen one marked.

    Parameters
    ----------
    distribution : mapping from numbers of clusters to probabilities, or a Choice
    chosen : int, optional
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.cluster_numbers({1: 0.0, 2: 0.1, 3: 0.9}, chosen=3)
    """
    if isinstance(distribution, Choice):
        chosen = distribution.n_clusters if chosen is None else chosen
        distribution = distribution.distribution
    if not isinstance(distribution, Mapping) or not distribution:
        raise TypeError(f"distribution must be a mapping or a Choice, got {distribution!r}")
    numbers = sorted(distribution)
    ax = axes_or_new(ax)
    colour = palette(2)
    shares = [distribution[k] for k in numbers]
    ax.bar(numbers, shares, color=[colour[int(k == chosen)] for k in numbers])
    _number_ticks(ax, numbers)
    ax.set(xlabel="clusters", ylabel="probability", ylim=(0, 1.05))
    return ax


@documented
def consensus_cdf(distribution: ConsensusDistribution, *, ax: Axes | None = None) -> Any:
    """Share of the pairs at or below every co-association, one curve for each number of clusters.

    Parameters
    ----------
    distribution : ConsensusDistribution
        Made by ``metrics.consensus_distribution``.
    %(axes)s
        Clear clusters give curves that are steep at 0 and 1 and flat between.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import metrics, plot
    >>> C = np.kron(np.eye(2), np.ones((3, 3)))
    >>> ax = plot.consensus_cdf(metrics.consensus_distribution({2: C, 3: 0.6 * C}))
    """
    ax = axes_or_new(ax)
    colors = palette(len(distribution.n_clusters))
    for k, cdf, color in zip(distribution.n_clusters, distribution.cdf, colors, strict=True):
        x = np.concatenate([[0.0], distribution.values, [1.0]])
        y = np.concatenate([[0.0], cdf, [1.0]])
        ax.step(x, y, where="post", color=color, linewidth=1.4, label=f"{k} clusters")
    ax.set(xlabel="co-association", ylabel="share of pairs", xlim=(-0.02, 1.02), ylim=(0, 1.02))
    ax.legend(frameon=False)
    return ax


@documented
def history(objective: float | np.ndarray, *, name: str = "objective", ax: Any = None) -> Any:
    """Objective after every iteration.

    Parameters
    ----------
    objective : array of shape (n_iter,) or (n_iter, runs)
    name : str, what the objective is
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.history([10.0, 4.0, 3.5, 3.4])
    """
    try:
        values = np.asarray(to_numpy(objective), dtype=float)
    except (TypeError, ValueError):
        values = np.empty(())
    if values.ndim not in (1, 2):
        raise TypeError(f"objective must be a list of numbers, such as history_, got {objective!r}")
    ax = axes_or_new(ax)
    marker = "o" if len(values) <= 30 else None
    places = np.arange(1, len(values) + 1)
    ax.plot(places, values, color=palette(1)[0], marker=marker, markersize=3.5)
    ax.set(xlabel="iteration", ylabel=literal(name))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(x=0.03)
    return ax


@documented
def information(compression: Any, relevance: Any, *, ax: Axes | None = None) -> Any:
    """Information curve of clusters, in nats: about the relevant variable, and about the objects.

    Parameters
    ----------
    compression, relevance : arrays of shape (c,)
        I(cluster; object) and I(cluster; relevant variable) of every solution.
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.information([0.0, 0.7, 1.5], [0.0, 0.4, 0.5])
    """
    compression, relevance = _same_length(compression, relevance, "compression", "relevance")
    order = np.argsort(compression, kind="stable")
    ax = axes_or_new(ax)
    ax.plot(compression[order], relevance[order], color=palette(1)[0], marker="o", markersize=4)
    ax.set(xlabel="I(cluster; object), nats", ylabel="I(cluster; relevance), nats")
    return ax


def _same_length(first: ArrayLike, second: ArrayLike, *names: str) -> tuple[np.ndarray, np.ndarray]:
    first, second = to_numpy(np.asarray(first)), to_numpy(np.asarray(second))
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"{names[0]} and {names[1]} must be two lists of one length, got shapes {first.shape} "
            f"and {second.shape}"
        )
    return first, second


@documented
def conjugate(
    prior: Any, data: Any, *, confidence: float = 0.9, grid: Any = None, ax: Axes | None = None
) -> Any:
    """Density of a parameter before and after the data, with the likelihood.

    Parameters
    ----------
    prior : BetaBinomial, NormalKnownVariance or NormalKnownMean
        A prior of ``sfumato.conjugate`` on one number.
    data : array
        As for ``prior.posterior``.
    confidence : float
        Posterior probability of the shaded interval.
    grid : array of shape (g,), optional
        Values of the parameter; by default where prior and posterior are not negligible.
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> from sfumato.conjugate import BetaBinomial
    >>> ax = plot.conjugate(BetaBinomial(2, 2), [1, 1, 0, 1])
    """
    posterior = prior.posterior(data)
    if not hasattr(posterior, "distribution") or np.ndim(posterior.mean) != 0:
        raise ValueError(f"prior must be on one number, such as BetaBinomial, got {prior!r}")
    if grid is None:
        ends = [d.distribution.ppf([0.005, 0.995]) for d in (prior, posterior)]
        grid = np.linspace(np.min(ends), np.max(ends), 400)
    grid = np.asarray(grid, dtype=float)
    before, after = prior.distribution.pdf(grid), posterior.distribution.pdf(grid)
    likelihood = np.divide(after, before, out=np.zeros_like(after), where=before > 0)
    area = np.trapezoid(likelihood, grid)
    ax = axes_or_new(ax)
    colors = palette(3)
    ax.plot(grid, before, ":", color=colors[0], label="prior")
    likelihood /= area if area > 0 else 1.0
    ax.plot(grid, likelihood, "--", color=colors[1], label="likelihood")
    ax.plot(grid, after, color=colors[2], label="posterior")
    low, high = posterior.interval(confidence)
    label = f"{confidence:.0%} interval"
    ax.axvspan(low, high, color=colors[2], alpha=0.12, linewidth=0, label=label)
    ax.set(xlabel="parameter", ylabel="density")
    ax.legend(frameon=False)
    return ax
