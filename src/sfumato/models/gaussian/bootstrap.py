"""Draws from the approximate posterior of a mixture: the weighted likelihood bootstrap.

Every draw maximises the likelihood with random weights of the objects, exponential ones whose mean
is one (Newton and Raftery 1994), from all maxima that the starts found: where several are about as
likely, draws move between them. Memberships averaged over draws are less confident than those of
the best parameters where the data leave the parameters uncertain.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...engine import loop
from .candidate import Fit, Problem, problem
from .data import MixtureData, partitions
from .kernel import State
from .parameters import Settings
from .runs import merit

__all__ = ["DRAWS", "draws"]

DRAWS = 24  # the standard error of an averaged membership is at most a tenth
MAXIMA = 6  # of the likelihood, from which every draw starts
MOST_OBJECTS = 2000  # beyond which draws start from the best maximum only
TOL = 1e-5  # gain per object at which a draw stops; the random weights change it by far more
APART = 1e-3  # log-likelihoods that differ by less belong to one maximum


def draws(data: MixtureData, fit: Fit, settings: Settings, n_draws: int) -> list[State]:
    """States of mixtures of the family and size of ``fit``, drawn from their posterior."""
    rng = np.random.default_rng([settings.seed % 2**32, DRAWS])
    firsts = [fit.run.state]
    if data.X.shape[0] <= MOST_OBJECTS and not (settings.fixed or settings.frozen):
        firsts += _maxima(data, fit, settings, rng)
    found = []
    for _ in range(n_draws):
        weighted = replace(data, weights=_random(data, rng), _rows={})
        likelihood = weighted.likelihood(
            fit.likelihood.view.family, settings.frozen, fit.likelihood.prior
        )
        runs = [likelihood.run(state, settings.max_iter, TOL) for state in firsts]
        found.append(max(runs, key=lambda run: merit(likelihood, run)).state)
    return found


def _random(data: MixtureData, rng: np.random.Generator) -> np.ndarray:
    """Random weights of the objects with their own weights as means, with the same sum."""
    n = data.X.shape[0]
    drawn = rng.gamma(np.ones(n) if data.weights is None else data.weights)
    return drawn * (data.total / max(drawn.sum(), np.finfo(float).tiny))


def _maxima(
    data: MixtureData, fit: Fit, settings: Settings, rng: np.random.Generator
) -> list[State]:
    """States of the highest maxima below that of ``fit``, each once."""
    k = len(fit.run.state.means)
    sample = data.sample(rng)
    each: Problem = problem(data, sample, k, fit.candidate.covariance_type, settings)
    groups = partitions(sample, [k], settings.n_init, rng, nested=True)[k]
    R = (groups[:, None, :] == np.arange(k)[:, None]) * sample.weights
    runs: list[loop.Run] = [
        each.likelihood.run(state, settings.max_iter, settings.tol) for state in each.states(R)
    ]
    runs.sort(key=lambda run: -merit(each.likelihood, run))
    value, chosen = fit.candidate.log_likelihood - each.likelihood.log_volume(), []
    for run in runs:
        own = merit(each.likelihood, run)
        if own < value - APART:
            chosen.append(run.state)
            value = own
    return chosen[: MAXIMA - 1]
