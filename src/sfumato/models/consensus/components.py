"""One Gaussian for each cluster, fitted beside fine mixtures.

Mixtures of exactly k components are fitted beside some of the fine mixtures, to the
same objects. Where held-out objects are as likely under them as under the fine mixtures, the data
show no further structure, and the memberships are the posteriors of these mixtures, matched and
averaged:

    u_i = (1/m) sum_b P_b' t_b(i)               P_b a permutation of the k components of member b

The covariances of a mixture share ``s`` objects (``em``): where clusters overlap, separate
covariances overfit. The largest ``s`` is taken that is within one standard error of the best
(Breiman, Friedman, Olshen and Stone 1984). Where fine mixtures have more parameters than there are
objects, this comparison says little. The mixtures of k components must then also have a higher
held-out density than a single Gaussian, which has -d (1 + log 2 pi) / 2 in whitened coordinates,
and must agree with each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...array.rows import in_threads
from ...numerics import distances, seeding
from .em import Fitted, Seen, climb, expect, join, n_axes, starting_sums
from .mixtures import Judged, Stock

__all__ = ["N_MEMBERS", "fit_components", "gain", "level", "matching", "one_gaussian"]

N_MEMBERS = 8  # mixtures of k components, beside as many fine ones
# Objects that the covariances share, s above. Chosen on iris, digits, crossing streaks and on three
# Gaussians 2.5 and 3.5 apart (seeds 100 to 107).
SHRINKAGES = (1e6, 50.0, 10.0)
FREE = 10  # objects per parameter of a covariance above which s = 0 is tried too
# A component counts as a cluster if its posterior at its own center is at least this: two that
# cross in one point have a half each
OWN_CENTER = 0.3
# Share of the labels by mixtures of k components that must agree where fine ones have more
# parameters than there are objects. Digits reach .88; clusters six standard deviations apart exceed
# .99.
AGREEMENT = 0.95
MAX_STEPS = 100
TOLERANCE = 1e-5


class Member(NamedTuple):
    """What a mixture is fitted to, the objects that judge it, and sums (k, q) to start from: those
    of k-means and of its fine mixture merged to k components, where there are as many.
    """

    seen: Seen
    others: Stock
    starts: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, stock: Stock, n: int, k: int, seed: int, fine: np.ndarray) -> Member:
        """The same objects as the fine mixture by this seed."""
        rng = np.random.default_rng(seed)
        own, others = stock.split(n, rng)
        seen = Seen.of(own.Y, own.mass, own.gaps)
        starts = starting_sums(seen, own.R, k, rng, 10), _merged(fine, k, own.Y.shape[1])
        return cls(seen, others, tuple(each for each in starts if len(each) == k))


def fit_components(stock: Stock, n: int, fine: list[Any], seeds: np.ndarray, k: int) -> list[Any]:
    """Mixtures of ``k`` components, or none where fine mixtures fit held-out objects better.

    ``fine`` are fitted mixtures, or failures, by the same ``seeds``.
    """
    good = [(each, int(seed)) for each, seed in zip(fine, seeds, strict=True) if _judged(each)]
    if not good:
        return []
    known = level([each for each, _ in good])
    d = stock.Y.shape[1]
    vague = bool(np.mean([each.rows.size for each, _ in good]) > n)
    if vague and known < one_gaussian(d):
        return []
    tasks = [(stock, n, k, seed, each.fitted.sums) for each, seed in good]
    members = list(in_threads(Member.of, tasks, None))
    everything = Seen.of(stock.Y, stock.mass, stock.gaps)
    free = (0.0,) if n >= FREE * k * d * (d + 3) / 2 else ()
    families = [_family(stock, everything, members, s, vague) for s in SHRINKAGES + free]
    best = max((each for each in families if each), key=level, default=[])
    if not best or level(best) < known:
        return []
    return next(each for each in families if each and _no_worse(each, best))


def level(members: list[Any]) -> float:
    """Mean log-density of held-out objects under fitted mixtures, NaN where there are none."""
    found = [each.held_out for each in members if _judged(each)]
    return float(np.mean(found)) if found else np.nan


def one_gaussian(d: int) -> float:
    """The same under a single Gaussian, in whitened coordinates."""
    return -0.5 * d * (1.0 + np.log(2.0 * np.pi))


def gain(members: list[Any], d: int) -> float:
    """What fitted mixtures of ``d`` whitened axes add to the log-density of held-out objects, NaN
    where there are none.
    """
    return level(members) - one_gaussian(d)


def _no_worse(members: list[Judged], best: list[Judged]) -> bool:
    """Whether the loss against the best is within one standard error of its mean."""
    loss = np.array([b.held_out - m.held_out for m, b in zip(members, best, strict=True)])
    return bool(loss.mean() <= loss.std() / np.sqrt(len(loss)))


def _family(
    stock: Stock, everything: Seen, members: list[Member], shrinkage: float, vague: bool
) -> list[Judged]:
    """Mixtures with one shrinkage, or none where one of them failed.

    ``vague`` asks that they agree, each from its own starts. ``everything`` is the stock as
    mixtures see it.
    """
    tasks = [(each, each.starts, shrinkage) for each in members]
    found = [each for each in in_threads(_attempt, tasks, None) if each is not None]
    if len(found) < len(tasks):
        return []
    if vague and _agreement(stock, found, len(found[0].rows)) < AGREEMENT:
        return []
    best = max(found, key=lambda each: expect(everything, each.rows)[1]).rows
    again = [(each, best, shrinkage, run) for each, run in zip(members, found, strict=True)]
    return list(in_threads(_improved, again, None))


def _agreement(stock: Stock, members: list[Judged], k: int) -> float:
    """Mean share of the members, matched to the first, that give an object its usual label."""
    H = join([each.rows for each in members], stock.Y.shape[1]).posteriors(stock.Y, stock.gaps).T
    hard = np.zeros_like(H)
    for first in range(0, H.shape[1], k):
        labels = first + H[:, first : first + k].argmax(axis=1)
        hard[np.arange(len(H)), labels] = 1.0
    usual = (hard @ matching(hard, k, 0)).max(axis=1)
    return float(np.average(usual, weights=stock.mass))


def _judged(each: Any) -> bool:
    return isinstance(each, Judged) and bool(np.isfinite(each.held_out))


def _attempt(
    member: Member,
    starts: tuple[np.ndarray, ...],
    shrinkage: float,
    before: Judged | None = None,
) -> Judged | None:
    """The likeliest mixture of several starts and ``before``, or None."""
    runs = [] if before is None else [before.fitted]
    for start in starts:
        try:
            run = climb(member.seen, start, shrinkage=shrinkage, max_steps=MAX_STEPS, tol=TOLERANCE)
        except (ArithmeticError, np.linalg.LinAlgError):
            continue
        if _own_centers(run):
            runs.append(run)
    if not runs:
        return None
    likeliest = max(runs, key=lambda each: each.value)
    if before is not None and likeliest is before.fitted:
        return before
    return Judged(likeliest, member.others.log_density(likeliest.rows))


def _improved(member: Member, best: np.ndarray, shrinkage: float, before: Judged) -> Judged | None:
    """From the ``best`` of all members, where that is likelier than ``before``."""
    return _attempt(member, (expect(member.seen, best)[0],), shrinkage, before)


def _own_centers(run: Fitted) -> bool:
    """Whether each component has a posterior of at least a threshold at its own center.

    A wide component around another one is the tail of that cluster, not a cluster.
    """
    d = n_axes(run.rows.shape[1])
    centers = run.sums[:, 1 : d + 1] / np.maximum(run.sums[:, :1], 1e-10)
    Z = distances.features(np.ascontiguousarray(centers.T), "full")
    return bool(np.diag(distances.softmax_columns(run.rows @ Z)[0]).min() >= OWN_CENTER)


def _merged(sums: np.ndarray, k: int, d: int) -> np.ndarray:
    """Sums (k, q) of the components of a fine mixture, merged as agglomeration would."""
    sums = sums[sums[:, 0] > 1e-8]
    if len(sums) <= k:
        return sums
    mass, first, second = distances.moments(sums, d, "full")
    mean = first / mass[:, None]
    scatter = second - mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
    prior = 0.1 * (d + 1) * np.eye(d)

    def cost(N: np.ndarray, W: np.ndarray) -> np.ndarray:
        return N * np.linalg.slogdet((W + prior) / (N + d + 1)[..., None, None])[1]

    group = seeding.merge(mass.copy(), mean, scatter, cost, {k})[k]
    return (group == np.arange(k)[:, None]) @ sums


def matching(H: np.ndarray, k: int, first: int) -> np.ndarray:
    """Matrix (m k, k) that averages posteriors (n, m k) of m mixtures, matched to one of them."""
    reference = H[:, first * k : (first + 1) * k]
    m = H.shape[1] // k
    bridge = np.zeros((m * k, k))
    for member in range(m):
        columns = slice(member * k, (member + 1) * k)
        rows, matched = linear_sum_assignment(-(H[:, columns].T @ reference))
        bridge[member * k + rows, matched] = 1.0 / m
    return bridge
