"""Prior, likelihood and posterior of one parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._style import axes_or_new, palette

__all__ = ["conjugate"]


def conjugate(
    prior: Any, data: Any, *, level: float = 0.9, grid: Any = None, ax: Any = None
) -> Any:
    """Densities of a parameter before and after the data, and the likelihood between them.

    Parameters
    ----------
    prior : BetaBinomial, NormalKnownVariance or NormalKnownMean
        A prior of ``sfumato.conjugate`` on one number.
    data : array
        As for ``prior.posterior``.
    level : float
        Posterior probability of the shaded interval.
    grid : array of shape (g,), optional
        Values of the parameter; by default where prior and posterior have their mass.
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes

    Examples
    --------
    >>> from sfumato import plot
    >>> from sfumato.conjugate import BetaBinomial
    >>> ax = plot.conjugate(BetaBinomial(2, 2), [1, 1, 0, 1])
    """
    posterior = prior.posterior(data)
    if not hasattr(posterior, "distribution") or np.ndim(posterior.mean) != 0:
        raise ValueError(
            "prior must be on one number (BetaBinomial, GammaPoisson, NormalKnownVariance, ...), "
            f"got {prior!r}"
        )
    if grid is None:
        ends = [
            member.distribution.ppf(share)
            for member in (prior, posterior)
            for share in (0.005, 0.995)
        ]
        grid = np.linspace(min(ends), max(ends), 400)
    grid = np.asarray(grid, dtype=float)
    before, after = prior.distribution.pdf(grid), posterior.distribution.pdf(grid)
    likelihood = np.divide(after, before, out=np.zeros_like(after), where=before > 0)
    area = np.trapezoid(likelihood, grid)
    ax = axes_or_new(ax)
    colors = palette(3)
    ax.plot(grid, before, ":", color=colors[0], label="prior")
    ax.plot(
        grid,
        likelihood / area if area > 0 else likelihood,
        "--",
        color=colors[1],
        label="likelihood",
    )
    ax.plot(grid, after, color=colors[2], label="posterior")
    low, high = posterior.interval(level)
    ax.axvspan(low, high, color=colors[2], alpha=0.12, linewidth=0, label=f"{level:.0%} interval")
    ax.set(xlabel="parameter", ylabel="density")
    ax.legend(frameon=False)
    return ax
