"""Seats and visits of a Dirichlet process in NumPy, object by object: what native loops must do."""

from types import SimpleNamespace

import numpy as np
from scipy.special import gammaln


class FullSeats(SimpleNamespace):
    def scores(self, x):
        gap = x - self.means
        square = ((self.inverses @ gap[:, :, None])[:, :, 0] * gap).sum(axis=1)
        kappa = self.kappa + self.counts
        return (
            self.table[self.counts]
            - 0.5 * self.log_dets
            - 0.5 * (self.df + self.counts + 1) * np.log1p(kappa / (kappa + 1) * square)
        )

    def shift(self, k, x, sign):
        """``x`` enters (sign 1) or leaves (sign -1) cluster ``k``.

        The count is still the old one.
        """
        kappa = self.kappa + self.counts[k]
        gap = x - self.means[k]
        direction = self.inverses[k] @ gap
        weight = sign * kappa / (kappa + sign)
        growth = weight * (gap @ direction)
        self.means[k] += sign / (kappa + sign) * gap
        self.inverses[k] -= weight / (1 + growth) * direction[:, None] * direction
        self.log_dets[k] += np.log1p(growth)

    def clear(self, k):
        self.means[k], self.inverses[k], self.log_dets[k] = self.empty


class DiagonalSeats(SimpleNamespace):
    def scores(self, x):
        at = np.flatnonzero(~np.isnan(x))
        seen, scale = self.seen[:, at], self.scales[:, at]
        kappa = self.kappa[at] + seen
        growth = np.log1p(0.5 * kappa / (kappa + 1) * (x[at] - self.means[:, at]) ** 2 / scale)
        return (
            self.table[seen, at]
            - 0.5 * np.log(scale)
            - (self.shape[at] + 0.5 * seen + 0.5) * growth
        ).sum(axis=1)

    def shift(self, k, x, sign):
        at = np.flatnonzero(~np.isnan(x))
        kappa = self.kappa[at] + self.seen[k, at]
        gap = x[at] - self.means[k, at]
        self.scales[k, at] += 0.5 * sign * kappa / (kappa + sign) * gap**2
        self.means[k, at] += sign / (kappa + sign) * gap
        self.seen[k, at] += sign

    def clear(self, k):
        self.seen[k] = 0
        self.means[k], self.scales[k] = self.empty


class CountSeats(SimpleNamespace):
    def scores(self, x):
        at = np.flatnonzero(x)
        drawn = x.reshape(-1, self.n_groups).sum(axis=0)
        inside = self.concentrations[:, at]
        up = gammaln(inside + x[at]) - gammaln(inside)
        down = gammaln(self.totals + drawn) - gammaln(self.totals)
        return up.sum(axis=1) - down.sum(axis=1)

    def shift(self, k, x, sign):
        self.concentrations[k] += sign * x
        self.totals[k] += sign * x.reshape(-1, self.n_groups).sum(axis=0)

    def clear(self, k):
        self.concentrations[k], self.totals[k] = self.empty


def slow(table):
    """A table with the methods above."""
    return globals()[table.kind](**vars(table))


def slow_visit(table, X, labels, choices, uniforms, log_alpha, first):
    """As ``sampling.visit``."""
    table = slow(table)
    log_count = np.log(np.maximum(np.arange(len(X) + 2), 0.5))
    log_chance = 0.0
    for i in range(first, len(X)):
        x, old = X[i], labels[i]
        if old >= 0:
            table.shift(old, x, -1)
            table.counts[old] -= 1
            labels[i] = -1
            if table.counts[old] == 0:
                table.clear(old)
        weights = np.where(table.counts > 0, log_count[table.counts], -np.inf)
        if log_alpha > -np.inf:
            free = int(table.counts.argmin())
            if table.counts[free] > 0:
                return i, log_chance
            weights[free] = log_alpha
        new, chance = _choose(weights + table.scores(x), int(choices[i]), uniforms[i])
        log_chance += chance
        table.shift(new, x, 1)
        table.counts[new] += 1
        labels[i] = new
    return len(X), log_chance


def _choose(scores, choice, uniform):
    """Slot drawn in proportion to exp(scores), or the one prescribed, and its log chance.

    The first if all scores are infinite.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    top = scores.max()
    if np.isinf(top):
        return max(choice, 0), 0.0
    chances = np.cumsum(np.exp(scores - top))
    if choice < 0:
        choice = int(np.searchsorted(chances, uniform * chances[-1], side="right"))
    return choice, float(scores[choice] - top - np.log(chances[-1]))
