"""Dirichlet process mixtures by variational Bayes: truncated stick-breaking (Blei and Jordan 2006).

    v_k ~ Beta(1, alpha),  pi_k = v_k prod_{j<k} (1 - v_j),  z_i ~ pi,  x_i ~
    component(theta_{z_i}),  alpha ~ Gamma(shape, rate)

    bound = sum_i w_i log sum_k exp( E log pi_k + C(S_k) . z(x_i) ) - sum_k [ C(S_k) . S_k - E(S_k)
    ] - KL(sticks) - KL(alpha)

with C and E as in ``components.conjugate``. A step is exact coordinate ascent, so the bound never
falls. Clusters are sorted by size, the best order of the sticks. ``best_merge`` finds pairs of
clusters whose union raises the bound.

Starts are small groups of objects that are merged before the first pass. For hard groups, the log
joint probability of objects and partition depends only on sums of features,

    log p = sum_k [ E(S_k) + log Gamma(N_k) + log alpha ] + constant.

The pair that raises it most is merged repeatedly, as in Bayesian hierarchical clustering (Heller
and Ghahramani 2005). The best partition found and two finer ones start the ascent, since clusters
may overlap. Links act on the log responsibilities of linked rows (``engine.linked``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, xlogy, zeta

from ...array.arrays import asarray_like, namespace, to_numpy
from ...array.rows import Rows, add, has_missing
from ...array.types import Array, Weights
from ...array.validation import check_number
from ...engine import loop
from ...engine.base import weight_of
from ...engine.component import Likelihood
from ...engine.linked import LinkedRows
from ...numerics import seeding
from ...numerics.distances import softmax_columns


class Tuning(NamedTuple):
    """Constants of the starts."""

    sample: int = 5_000  # objects among which starting centers are searched
    screen: int = 10_000  # objects on which starts compete
    cells: int = 20  # number of small groups in a start
    # Number of finer partitions that are tried. On 25 sets of overlapping normal clusters (50 to
    # 400 objects, 2 to 8 features), four gave no higher bound than two.
    finer: int = 2
    phase: int = 10  # steps between two attempts to merge


TUNING = Tuning()


class Concentration(NamedTuple):
    """Gamma distribution of alpha; with an infinite rate, alpha is fixed at ``shape``."""

    shape: float
    rate: float

    @property
    def mean(self) -> float:
        """Expected concentration."""
        return self.shape if np.isinf(self.rate) else self.shape / self.rate


class State(NamedTuple):
    """Sums of features (k, q) and counts (k,) of each cluster, and derived quantities."""

    sums: np.ndarray
    counts: np.ndarray
    sticks: np.ndarray  # parameters (2, k - 1) of the beta distributions of v
    concentration: Concentration
    coefficients: np.ndarray
    offset: np.ndarray  # E log pi
    penalty: float  # sum of the divergences that the bound subtracts


class Summary(NamedTuple):
    """Additive statistics of a pass: sums of features, counts, and the data term of the bound."""

    sums: Any
    counts: Any
    objective: float


def update(
    component: Any,
    sums: np.ndarray,
    counts: np.ndarray,
    current: Concentration,
    prior: Concentration,
) -> State:
    """Best posteriors of components, sticks and alpha; the largest cluster comes first."""
    # Sorting by size maximises the bound over all orders of the sticks.
    order = np.argsort(-counts, kind="stable")
    sums, counts = sums[order], counts[order]
    sticks = _sticks(counts, 0.0)
    sticks[1] += current.mean if np.isinf(prior.rate) else _best_alpha(sticks, current.mean, prior)
    log_v, log_rest = digamma(sticks) - digamma(sticks.sum(axis=0))
    offset = np.append(log_v, 0.0) + np.append(0.0, np.cumsum(log_rest))
    if not np.isinf(prior.rate):
        current = Concentration(prior.shape + len(log_rest), prior.rate - log_rest.sum())
    coefficients = component.coefficients(sums)
    penalty = float(np.sum(coefficients * sums) - component.log_marginal_likelihood(sums).sum())
    penalty += _stick_divergence(sticks, log_v, log_rest, current)
    penalty += _gamma_divergence(current, prior)
    return State(sums, counts, sticks, current, coefficients, offset, penalty)


def _sticks(counts: np.ndarray, alpha: float) -> np.ndarray:
    # Mass of all later clusters; rounding may make it negative.
    later = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1] - counts
    return np.stack([1.0 + counts[..., :-1], alpha + np.maximum(later[..., :-1], 0.0)])


def _best_alpha(sticks: np.ndarray, guess: float, prior: Concentration) -> float:
    """Mean of alpha that is consistent with the sticks it implies.

    ``sticks`` (2, k - 1) hold 1 + N_k and the mass M_k of later clusters. The fixed point

        alpha (rate + sum_k [ digamma(1 + N_k + M_k + alpha) - digamma(1 + M_k + alpha) ])
            = shape + sum_k M_k / (M_k + alpha),

    has a unique solution: the difference of its sides is increasing and concave, so Newton's method
    converges from anywhere."""
    later, alpha = sticks[1], guess
    places = np.stack([sticks.sum(axis=0), 1.0 + later])
    for _ in range(100):
        at = places + alpha
        high, low = digamma(at)
        curve = zeta(2.0, at)  # the derivative of digamma
        rate = prior.rate + float(np.sum(high - low))
        share = later / (later + alpha)
        slope = rate + float(np.sum(alpha * (curve[0] - curve[1]) + share / (later + alpha)))
        change = (prior.shape + float(share.sum()) - alpha * rate) / slope
        alpha, before = max(alpha + change, 0.1 * alpha), alpha
        if abs(alpha - before) <= 1e-13 * alpha:
            break
    return alpha


def _stick_divergence(
    sticks: np.ndarray, log_v: np.ndarray, log_rest: np.ndarray, concentration: Concentration
) -> float:
    """KL divergence of the sticks from Beta(1, alpha), averaged over alpha."""
    shape, rate = concentration
    log_alpha = np.log(shape) if np.isinf(rate) else digamma(shape) - np.log(rate)
    entropy = (sticks[0] - 1) * log_v + (sticks[1] - 1) * log_rest - betaln(*sticks)
    return float(np.sum(entropy - log_alpha - (concentration.mean - 1) * log_rest))


def _gamma_divergence(q: Concentration, p: Concentration) -> float:
    if np.isinf(p.rate):
        return 0.0
    normalizer = gammaln(p.shape) - gammaln(q.shape) + p.shape * np.log(q.rate / p.rate)
    return float((q.shape - p.shape) * digamma(q.shape) + normalizer + q.mean * (p.rate - q.rate))


def logits(component: Any, state: State, Z: Array) -> Any:
    """Expected log densities and weights (k, b) of the clusters for features ``Z`` (q, b)."""
    expected = component.expected_logits(state.coefficients, Z)
    return expected + asarray_like(state.offset[:, None], expected)


def responsibilities(component: Any, state: State, Z: Array) -> tuple[Any, Any]:
    """Responsibilities (k, b) for features ``Z`` (q, b), and log normalisers (b,)."""
    return softmax_columns(logits(component, state, Z))


def summarize(
    component: Any,
    state: State,
    X: np.ndarray,
    weights: Any,
    given: Weights = None,
    *,
    columns: int = 2**18,
) -> Summary:
    """Statistics of a block of objects (b, p), for their own or for ``given`` responsibilities (b,
    k). The block is processed in pieces whose features fit into the cache."""
    size = X.shape[0] if namespace(X) is not np else max(64, columns // state.sums.shape[1])
    total = Summary(np.zeros_like(state.sums), np.zeros_like(state.counts), 0.0)
    for start in range(0, X.shape[0], size):
        piece = slice(start, start + size)
        Z = component.features(X[piece])
        R, bound = (
            responsibilities(component, state, Z)
            if given is None
            else (given[piece].T, np.zeros(len(given[piece])))
        )
        if weights is not None:
            w = namespace(R).asarray(weights[piece])
            R, bound = R * w, bound * w
        sums, counts = component.expected_sums(R, state.coefficients, Z), to_numpy(R.sum(axis=1))
        total = add(total, Summary(sums, counts, float(bound.sum())))
    return total


def opened(state: State) -> State:
    """The clusters that objects may join: those in use, and one empty cluster. The other empty
    clusters are equal to it, but later sticks make them less probable."""
    k = int(np.sum(state.counts > 1e-12 * state.counts.sum())) + 1
    kept = {name: getattr(state, name)[:k] for name in ("sums", "counts", "coefficients", "offset")}
    return state._replace(**kept)


@dataclass(frozen=True)
class Process:
    """The mixture in the form that ``engine.component.Likelihood`` maximises."""

    component: Any
    prior: Concentration
    linked: bool  # links may require several empty clusters at once
    pack: ClassVar[None] = None  # steps are not extrapolated
    unpack: ClassVar[None] = None

    def whole(self, rows: Rows, linked: object) -> None:
        """None: there is no native loop that makes a whole run."""

    def ready(self, state: State) -> State:
        """The clusters to evaluate in a pass."""
        return state if self.linked else opened(state)

    def summarize(self, block: Any, weights: Any, ready: State, given: Weights = None) -> Summary:
        """Statistics of a block."""
        return summarize(self.component, ready, block, weights, given)

    def logits(self, block: Array, ready: State) -> Any:
        """Expected log densities and weights (k, b) of a block."""
        return logits(self.component, ready, self.component.features(block))

    def log_prior(self, state: State) -> float:
        """Minus the divergences in the bound."""
        return -state.penalty

    def update(self, stats: Summary, state: State) -> State:
        """Best state for these statistics."""
        empty = len(state.counts) - len(stats.counts)
        sums, counts = np.pad(stats.sums, ((0, empty), (0, 0))), np.pad(stats.counts, (0, empty))
        return update(self.component, sums, counts, state.concentration, self.prior)


def log_weights(state: State) -> np.ndarray:
    """Logarithms of the expected weights of the clusters, (k,)."""
    total = np.log(state.sticks.sum(axis=0))
    v, rest = np.log(state.sticks) - total
    return np.append(v, 0.0) + np.append(0.0, np.cumsum(rest))


def assign(component: Any, log_weight: np.ndarray, parameters: object, X: Array) -> tuple[Any, Any]:
    """Posterior predictive memberships (b, k) of a block, and log densities (b,)."""
    Z = component.features(X)
    logits = component.log_predictive(parameters, Z)
    logits += asarray_like(log_weight[:, None], logits)
    R, density = softmax_columns(logits)
    return R.T, density + component.log_base(Z)


def occupied(log_vacancy: np.ndarray) -> np.ndarray:
    """Probabilities (k + 1,) of 0, 1, ... occupied clusters, given their log vacancies."""
    chances = np.ones(1)
    for vacancy in np.exp(np.minimum(log_vacancy, 0.0)):
        chances = np.append(chances * vacancy, 0.0) + np.append(0.0, chances * (1.0 - vacancy))
    return chances


def best_merge(component: Any, state: State, losses: Any) -> tuple[int, int] | None:
    """The pair of clusters whose union raises the bound most, less its ``losses``; or None."""
    # Merging empty clusters, which hold the prior, changes nothing.
    active = np.flatnonzero(state.counts > 1e-8 * max(1.0, state.counts.sum()))
    left, right = (active[index] for index in np.triu_indices(len(active), 1))
    if not len(left):
        return None
    evidence = component.log_marginal_likelihood(state.sums)
    union = component.log_marginal_likelihood(state.sums[left] + state.sums[right])
    gain = union - evidence[left] - evidence[right]
    counts, rows = np.repeat(state.counts[None], len(left), axis=0), np.arange(len(left))
    counts[rows, left] += counts[rows, right]
    counts[rows, right] = 0.0
    alpha = state.concentration.mean
    promise = gain + _stick_evidence(counts, alpha) - _stick_evidence(state.counts, alpha)
    # The loss of entropy is never negative and needs a pass over the data, so only the thirty most
    # promising pairs are tried.
    best = np.argsort(-promise, kind="stable")[:30]
    best = best[promise[best] > 0]
    pairs = [(int(left[i]), int(right[i])) for i in best]
    if not pairs:
        return None
    gains = promise[best] - losses(pairs)
    return pairs[gains.argmax()] if gains.max() > 1e-9 * max(1.0, state.counts.sum()) else None


def _stick_evidence(counts: np.ndarray, alpha: float) -> Any:
    """Log probability of cluster sizes (..., k), up to a constant, in the best order."""
    return betaln(*_sticks(-np.sort(-counts, axis=-1), alpha)).sum(axis=-1)


def pair_losses(R: Array, weights: Weights, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Entropy lost in a block when the responsibilities (k, b) of each pair are added."""
    R = to_numpy(R)
    w = 1.0 if weights is None else to_numpy(weights)
    entropy = {k: xlogy(R[k], R[k]) for k in {k for pair in pairs for k in pair}}
    unions = ((a, b, R[a] + R[b]) for a, b in pairs)
    return np.array([np.sum(w * (xlogy(p, p) - entropy[a] - entropy[b])) for a, b, p in unions])


def merged(state: State, pair: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Sums and counts after a merge; the emptied cluster remains with zeros."""
    sums, counts = state.sums.copy(), state.counts.copy()
    a, b = pair
    for part in (sums, counts):
        part[a] += part[b]
        part[b] = 0.0
    return sums, counts


class Approximation(NamedTuple):
    """A fitted variational posterior that assigns objects to the clusters in use."""

    component: Any
    state: State
    used: np.ndarray
    log_weight: np.ndarray
    parameters: tuple[np.ndarray, ...]

    def memberships(self, block: Array) -> Any:
        """Posterior predictive memberships (b, used) of a block of objects."""
        chosen = tuple(part[self.used] for part in self.parameters)
        return assign(self.component, self.log_weight[self.used], chosen, block)[0]

    def reordered(self, order: np.ndarray) -> Approximation:
        """The approximation with its clusters in another order."""
        return self._replace(used=self.used[order])

    def log_density(self, block: Array) -> Any:
        """Log posterior predictive density (b,) of a block of objects."""
        return assign(self.component, self.log_weight, self.parameters, block)[1]

    def linked(self, links: LinkedRows) -> np.ndarray:
        """Memberships (m, used) of linked rows, coupled by their links."""

        def logits(block: Array) -> np.ndarray:
            return np.log(np.maximum(self.memberships(block), np.finfo(float).tiny))

        return links.couple(logits)[0]


def approximate(
    component: Any, rows: Rows, state: State, links: LinkedRows | None = None
) -> tuple[Approximation, np.ndarray]:
    """The posterior for new objects, and probabilities of 0, 1, ... clusters in use."""
    log_weight, parameters = log_weights(state), component.predictive(state.sums)

    def look(block: Array, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        R = to_numpy(assign(component, log_weight, parameters, block)[0])
        w = np.ones(len(R)) if weights is None else to_numpy(weights)
        first = np.bincount(R.argmax(axis=1), weights=w, minlength=R.shape[1])
        return first, w @ np.log(np.maximum(1.0 - R, 1e-300))

    leading, log_vacancy = rows.sum(look)
    every = Approximation(component, state, np.arange(len(leading)), log_weight, parameters)
    if links is not None:
        leading[every.linked(links).argmax(axis=1)] = 1.0
    return every.reordered(np.flatnonzero(leading > 0)), occupied(log_vacancy)


class Ascent(NamedTuple):
    """Coordinate ascent on the bound: the model, the objects, and when to stop."""

    component: Any
    rows: Rows
    prior: Concentration
    max_iter: int
    tol: float
    links: LinkedRows | None = None

    def best(self, n_clusters: int, seeds: np.ndarray) -> loop.Run:
        """Best of several starts, compared on a sample if there are many objects."""
        rows = self.rows
        if rows.shape[0] <= 2 * TUNING.screen or self.links is not None:
            return self._race(self.starts(n_clusters, seeds))
        few = self._replace(rows=rows.sample(TUNING.screen, np.random.default_rng(seeds[0])))
        run = few._race(few.starts(n_clusters, seeds))
        # The full fit starts from the statistics of the sample, scaled to the weight of all
        # objects.
        grown, state = weight_of(rows) / weight_of(few.rows), run.state
        start = self._update(grown * state.sums, grown * state.counts, state.concentration)
        return self.ascend(start)

    def _update(self, sums: np.ndarray, counts: np.ndarray, current: Concentration) -> State:
        return update(self.component, sums, counts, current, self.prior)

    def _steps(self, state: State, max_iter: int) -> loop.Run:
        process: Any = Process(self.component, self.prior, self.links is not None)
        rows, total = self.rows, weight_of(self.rows)
        if self.links is not None:
            rows = rows.with_columns(*rows.columns, self.links.free(rows.shape[0]))
        return Likelihood(process, rows, total, total, self.links).run(state, max_iter, self.tol)

    def log_base(self) -> float:
        """Parameter-free part of the log density of all objects."""

        def block(X: Any, weights: Any) -> tuple[float]:
            values = self.component.log_base(self.component.features(X))
            return (float(values.sum() if weights is None else (values * weights).sum()),)

        return self.rows.sum(block)[0]

    def _race(self, states: list[State]) -> loop.Run:
        """Run from the state that leads after three steps."""
        if len(states) == 1:
            return self.ascend(states[0])
        few = min(3, self.max_iter)
        first = loop.best([self._steps(state, few) for state in states], larger=True)
        if few == self.max_iter:
            return first
        run = self._replace(max_iter=self.max_iter - few).ascend(first.state)
        history = np.concatenate([first.history, run.history])
        return run._replace(history=history, n_iter=len(history))

    def ascend(self, state: State) -> loop.Run:
        """Coordinate ascent that regularly merges clusters whose union raises the bound."""
        history: list[np.ndarray] = []
        n_iter = 0
        while True:
            run = self._steps(state, min(TUNING.phase, self.max_iter - n_iter))
            history.append(run.history)
            n_iter += run.n_iter
            state = run.state
            # Coordinate ascent alone cannot join two clusters that share one group.
            pair = best_merge(self.component, state, partial(self._losses, state))
            done = run.converged and pair is None
            if done or n_iter >= self.max_iter:
                whole = np.concatenate(history)
                return run._replace(history=whole, n_iter=n_iter, converged=done)
            if pair is not None:
                state = self._update(*merged(state, pair), state.concentration)

    def _losses(self, state: State, pairs: list[tuple[int, int]]) -> np.ndarray:
        """Entropy lost by merging pairs of clusters; infinite if links keep them apart."""

        def block(X: Array, weights: Weights, *_: Any) -> tuple[np.ndarray]:
            R = responsibilities(self.component, state, self.component.features(X))[0]
            return (pair_losses(R, weights, pairs),)

        apart = self._apart(state)
        return np.where([pair in apart for pair in pairs], np.inf, self.rows.sum(block)[0])

    def _apart(self, state: State) -> set[tuple[int, int]]:
        if self.links is None:
            return set()
        links = self.links.links

        def of(X: Array) -> np.ndarray:
            return logits(self.component, state, self.component.features(X)).T

        U, _ = self.links.couple(of)
        label = np.empty(links.labels.size, dtype=np.intp)
        label[links.unit] = U.argmax(axis=1)
        ends = (label[of].tolist() for of in (links.pull < 0).nonzero())
        return set(zip(*ends, strict=True))

    def starts(self, n_clusters: int, seeds: np.ndarray) -> list[State]:
        """Different starts from merged groups around objects that are far from each other."""
        component, prior = self.component, self.prior
        n_cells = min(max(n_clusters, TUNING.cells), self.rows.shape[0])
        states: list[State] = []
        for seed in seeds:
            sums, counts = _cells(component, self.rows, n_cells, np.random.default_rng(seed))
            for group in fuse(component, sums, counts, prior.mean, n_clusters):
                fused = np.zeros((n_clusters, sums.shape[1])), np.zeros(n_clusters)
                np.add.at(fused[0], group, sums)
                np.add.at(fused[1], group, counts)
                states.append(self._update(*fused, prior))
        return states


def most_probable(components: list[Any], rows: Rows, alpha: float) -> Any:
    """The component under which objects and partition are most probable, by empirical Bayes. With
    missing values it is the first one. The seed of a fit does not matter."""
    if len(components) == 1 or has_missing(rows):
        return components[0]
    rng = np.random.default_rng(0)
    few = rows if rows.shape[0] <= TUNING.sample else rows.sample(TUNING.sample, rng)
    sums, counts = _cells(components[0], few, min(TUNING.cells, few.shape[0]), rng)
    best = np.full(len(components), -np.inf)
    chosen, merged = 0, -1
    while chosen != merged:
        merged = chosen
        tree = Tree.of(components[merged], sums, counts, np.log(alpha))
        values = np.array([tree.log_joint(component).max() for component in components])
        best = np.maximum(best, values)
        chosen = int(np.argmax(best))
    return components[chosen]


def _cells(
    component: Any, rows: Rows, n_cells: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of features (m, q) and weights (m,) of groups around objects far from each other."""
    X, weights, _ = seeding.sorted_sample(rows, TUNING.sample, rng, features=component.embedding)
    centers = seeding.kmeans_plus_plus(X, weights, n_cells, rng)

    def block(X: Array, weights: Weights) -> tuple[Any, Any]:
        labels = seeding.nearest(component.embedding(X), centers)
        R = (labels == np.arange(n_cells)[:, None]) * (
            1.0 if weights is None else to_numpy(weights)
        )
        Z = component.features(X)
        if isinstance(Z, np.ndarray) and np.isnan(Z).any():
            Z = np.nan_to_num(Z)  # missing values start at the mean of the data
        R = asarray_like(R, Z)
        return to_numpy(R @ Z.T), to_numpy(R.sum(axis=1))

    sums, counts = rows.sum(block)
    return sums[counts > 0], counts[counts > 0]


def fuse(
    component: Any, sums: np.ndarray, counts: np.ndarray, alpha: float, most: int
) -> list[np.ndarray]:
    """Clusters (m,), numbered from 0, of groups with these sums (m, q) and positive weights (m,).
    Among the partitions into at most ``most`` clusters found by merging pairs, the last is the most
    probable; before it come finer ones."""
    tree = Tree.of(component, sums, counts, np.log(alpha))
    first = max(0, len(counts) - most)
    best = first + int(np.argmax(tree.log_joint(component)[first:]))
    return [tree.groups(n_merges) for n_merges in range(max(first, best - TUNING.finer), best + 1)]


class Tree(NamedTuple):
    """Groups (m,) merged in pairs: ``pairs`` (m - 1, 2), with sums (2 m - 1, q) and weights (2 m -
    1,) of all groups and unions in the order of merging."""

    pairs: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    log_alpha: float

    @classmethod
    def of(cls, component: Any, sums: np.ndarray, counts: np.ndarray, log_alpha: float) -> Tree:
        """Tree in which each merge raises the log joint probability most."""
        m, n_nodes = len(counts), 2 * len(counts) - 1
        sums, counts = np.pad(sums, ((0, m - 1), (0, 0))), np.pad(counts, (0, m - 1))
        pairs, own, gains = [], np.zeros(n_nodes), np.full((n_nodes, n_nodes), -np.inf)
        alive = list(range(m))

        def value(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
            return component.log_marginal_likelihood(sums) + gammaln(counts) + log_alpha

        own[:m] = value(sums[:m], counts[:m])
        left, right = np.triu_indices(m, 1)
        union = value(sums[left] + sums[right], counts[left] + counts[right])
        gains[left, right] = union - own[left] - own[right]
        for node in range(m, n_nodes):
            a, b = divmod(int(gains.argmax()), n_nodes)
            pairs.append((a, b))
            sums[node], counts[node] = sums[a] + sums[b], counts[a] + counts[b]
            own[node] = own[a] + own[b] + gains[a, b]
            gains[[a, b]] = gains[:, [a, b]] = -np.inf
            alive = [other for other in alive if other not in (a, b)]
            union = value(sums[alive] + sums[node], counts[alive] + counts[node])
            gains[alive, node] = union - own[alive] - own[node]
            alive.append(node)
        return cls(np.array(pairs, dtype=np.intp).reshape(-1, 2), sums, counts, log_alpha)

    def log_joint(self, component: Any) -> np.ndarray:
        """Log joint probability (m,) of objects and partition after 0, 1, ... merges."""
        m, (left, right) = len(self.pairs) + 1, self.pairs.T
        values = (
            component.log_marginal_likelihood(self.sums) + gammaln(self.counts) + self.log_alpha
        )
        gained = np.cumsum(values[m:] - values[left] - values[right])
        return values[:m].sum() + np.append(0.0, gained)

    def groups(self, n_merges: int) -> np.ndarray:
        """Group number (m,) of every initial group after some merges, from 0."""
        m = len(self.pairs) + 1
        names = np.arange(m)
        for step in range(n_merges):
            names[np.isin(names, self.pairs[step])] = m + step
        return np.unique(names, return_inverse=True)[1]


def check_concentration(given: Any) -> Concentration:
    """The prior of alpha given as a number or a pair (shape, rate)."""
    pair = isinstance(given, (tuple, list, np.ndarray)) and np.ndim(given) > 0
    if pair and len(given) != 2:
        raise ValueError(f"concentration must be a number or a pair (shape, rate), got {given!r}")
    given_parts = given if pair else (given,)
    parts = [check_number(part, "concentration", low=0, strict=True) for part in given_parts]
    prior = Concentration(parts[0], parts[1] if pair else np.inf)
    if not (min(parts) >= 1e-100 and max(parts) <= 1e100 and 1e-100 <= prior.mean <= 1e10):
        raise ValueError(
            f"concentration={given!r} must give alpha a mean (shape / rate) between 1e-100 and "
            "1e10, with neither part beyond 1e-100 or 1e100: try (1.0, 1.0)"
        )
    return prior
