"""Consensus of hard labelings: from an ensemble to a table of labels, to a solution and warnings.

The number of clusters is that with the largest score,

    (relative eigengap reduced by the misfit) times the mean adjusted Rand index of clusters and
    partitions:

such clusters are separate, and the partitions agree with them. If partitions are few and coarse,
two parts that none of them joins are as separate as five, but agree less with the partitions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_feature_names, has_fit_parameter

from ...array.labels import check_labelings
from ...array.types import ArrayLike, Estimator
from ...array.validation import check_n_clusters
from ...array.warn import EvidenceWarning, warn
from ...data.features import check_features, refuse_tensors
from ...engine.mixture import GROWTH
from ...engine.numbers import noise_level, reading
from ...engine.objects import Objects, object_weights, objects_of
from ...memberships import align
from ...numerics import label_table as tables
from ...selection import criteria
from ...similarity.coassociation import Coassociation, check_partition_weight, coassociation
from .ensemble import ClusteringEnsemble
from .solutions import Settings
from .solvers import LINKAGES, solve

COMPARED = 2000  # objects on which clusters and partitions are compared
FEW = 5  # fewest partitions for a reliable bootstrap
CRISP = 0.95  # mean largest membership that data without clusters do not reach
LOCAL = 0.5  # larger eigenvalues are compared with the next; fine partitions bring them close
FAINT = 0.25  # smallest relative gap after an eigenvalue that indicates a cluster


def decided(table: tables.Table) -> tables.Table:
    """The table without partitions that share no object with the largest connected set. Nothing
    relates the other sets of objects to this one, so their partitions are left out."""
    if not tables.has_missing(table):
        return table
    seen = table.seen() & (table.weights > 0)
    together = tables.separate_groups(tables.encode(np.where(seen, 0, -1), table.weights))
    sizes = np.bincount(together, table.mass)
    sizes[together[table.coverage <= 0]] = 0.0
    if (sizes > 0).sum() < 2:
        return table
    warn(
        f"the objects fall into {int((sizes > 0).sum())} sets that no partition saw together: "
        "only the largest set is clustered, since nothing relates clusters of different sets; fit "
        "each set separately, or add partitions that see objects of several sets"
    )
    kept = seen[together == np.argmax(sizes)].any(axis=0)
    return tables.reweight(table, table.weights * kept)


def doubt_of(solution: Any, table: tables.Table) -> str | None:
    """Text of a warning if eigenvalues of the co-association do not single out k clusters."""
    values, level = getattr(solution, "eigenvalues", np.ones(1)), tables.chance_level(table)
    k = len(values)
    if k < 2:
        return None
    lower = np.maximum(np.append(values[2:], solution.following), -1.0)
    gaps = (values[1:] - lower) / np.maximum(1.0 - lower, np.finfo(float).tiny)
    vague = solution.memberships.max(axis=1).mean() < CRISP
    if vague and level < 0.9 and values[-1] <= level:
        return (
            f"the partitions agree on {int(np.sum(values > level))} of {k} clusters, on the "
            "others no more than random partitions would: these memberships may be noise; use "
            "fewer clusters or a better ensemble, or compare with what consensus='average' finds, "
            "which sees small clusters in few partitions better"
        )
    if values[-1] - solution.following <= tables.SMALLEST_REGULARIZATION and k < len(table.codes):
        return (
            f"the partitions do not say which {k} clusters to keep: eigenvalues {k} and {k + 1} "
            f"of the co-association are equal ({values[-1]:.6g}). Where no partition joins the "
            "groups, the largest are the clusters and where the others belong is left open; use "
            "another n_clusters"
        )
    if vague and gaps.max() < FAINT:
        shown = ", ".join(f"{value:.3f}" for value in [1.0, *values[1:3], *lower[-1:]])
        return (
            f"the partitions show no clusters: of the first {k} eigenvalues of the co-association "
            f"none stands apart from the next ({shown}); the memberships cut a continuum"
        )
    if vague and gaps[-1] < FAINT and solution.following > LOCAL:
        return (
            f"the partitions do not single out {k} clusters: eigenvalues {k} and {k + 1} of the "
            f"co-association are close ({values[-1]:.3f}, {solution.following:.3f}), so that where "
            "the last cut goes is hardly more than chance; "
            f"{int(np.argmax(gaps)) + 2} clusters stand apart most"
        )
    return None


class HardConsensus(NamedTuple):
    """A solution, its settings, and the numbers of clusters tried with their scores."""

    solution: Any
    consensus: Any
    settings: Settings
    scores: dict[int, float]
    objects: Objects

    def spread(self, table: tables.Table, memberships: np.ndarray) -> np.ndarray:
        """Memberships (n, k) of the rows of a table, from those of the objects."""
        group = self.objects.group
        if group is None:
            return memberships
        U = memberships[np.maximum(group, 0)]
        absent = np.flatnonzero(group < 0)
        if absent.size:
            U[absent] = self.solution.place(table.objects(absent))
        return U


def accumulate(
    model: Estimator,
    X: Any,
    partition_weight: ArrayLike | None,
    sample_weight: ArrayLike | None,
    rng: np.random.Generator,
) -> tuple[Coassociation, np.dtype, Objects]:
    """Co-association of given or made labelings, dtype of the memberships, and objects."""
    if model._precomputed():
        C = coassociation(X, partition_weight)
        C = Coassociation(decided(C.table), C.categories)
        _check_feature_names(model, X, reset=True)
        n, model.n_features_in_ = C.table.codes.shape
        if model.n_features_in_ > 20 * n:
            warn(
                f"{model.n_features_in_} labelings of {n} objects: labelings are columns, objects "
                "rows; if it is the other way round, transpose them (np.column_stack)"
            )
        weights = object_weights(sample_weight, C)
        # Copies are one object, so that weights and copies give the same result, unless that leaves
        # hardly more objects than clusters.
        given = isinstance(model.n_clusters, Integral)
        most = model.n_clusters if given else model.max_clusters
        return C, np.dtype(np.float64), objects_of(C.table.codes, weights, most + 1)
    refuse_tensors(model, X)
    X = check_features(model, X, reset=True)
    weights = object_weights(sample_weight, X)
    objects = objects_of(X, weights, model.n_clusters)
    if isinstance(model.n_clusters, Integral):
        check_n_clusters(model.n_clusters, X.shape[0])
    given = model.ensemble
    if isinstance(given, type) or not (given is None or hasattr(given, "fit_transform")):
        raise TypeError(
            "ensemble must be a MixtureEnsemble, a ClusteringEnsemble, 'precomputed' or None, "
            f"got {given!r}"
        )
    model.ensemble_ = ClusteringEnsemble() if given is None else clone(given)
    if getattr(model.ensemble_, "random_state", 0) is None:
        model.ensemble_.set_params(random_state=int(rng.integers(2**31)))
    name = type(model.ensemble_).__name__
    if sample_weight is not None and not has_fit_parameter(model.ensemble_, "sample_weight"):
        raise ValueError(
            f"ensemble={name} takes no sample_weight: use ClusteringEnsemble or MixtureEnsemble"
        )
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    labelings = model.ensemble_.fit_transform(X, **weighted)
    if not isinstance(model.ensemble_, ClusteringEnsemble):
        labelings = check_labelings(labelings, f"what ensemble={name} makes of X")
    shares = check_partition_weight(partition_weight, labelings.shape[1])
    return Coassociation(tables.encode(labelings, shares)), X.dtype, objects


def _of_objects(table: tables.Table, objects: Objects) -> tables.Table:
    """Table of the objects with their weights, from that of the rows."""
    if objects.group is not None:
        table = table.objects(objects.first())
    return table._replace(mass=objects.weights)


def fit_hard(
    model: Estimator, C: Coassociation, settings: Settings, objects: Objects
) -> HardConsensus:
    """The solution for the given number of clusters, or for the best one."""
    table, k, scores = _of_objects(C.table, objects), model.n_clusters, {}
    if table.coverage.max() <= 0:
        raise ValueError(
            "no partition with a weight above 0 saw any object: give labels other than -1 or NaN"
        )
    seen = int(np.count_nonzero(table.coverage))
    if isinstance(k, Integral):
        check_n_clusters(k, seen)
    elif seen == 1:  # there is no number of clusters to choose
        k, scores = 1, {1: 0.0}
    else:
        with warnings.catch_warnings():
            # Ignore warnings from rejected candidates.
            warnings.simplefilter("ignore", EvidenceWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores, chance = choose(model.consensus, table, k, model.max_clusters, settings)
        k = max(scores, key=lambda number: scores[number])
        if chance and isinstance(model.n_clusters, str):
            warn(
                f"no number of clusters stands out: {k} clusters stand no further apart than noise "
                "does; one cluster is the answer"
            )
            k = 1
    solution = solve(model.consensus, table, k, settings)
    if model.consensus in LINKAGES and tables.has_unseen_pairs(table):
        warn(
            "some pairs of objects were seen together by no partition: "
            f"consensus={model.consensus!r} uses the mean of all other pairs for them; "
            "consensus='cluster-kernel' treats them as missing"
        )
    if (doubt := doubt_of(solution, table)) is not None:
        warn(doubt)
    return HardConsensus(solution, model.consensus, settings, scores, objects)


def choose(
    consensus: Any, table: tables.Table, asked: Any, largest: int, settings: Settings
) -> tuple[dict[int, float], bool]:
    """Scores by number of clusters, and whether the gaps are those of noise. ``asked`` are the
    numbers, or "auto" for 2, ..., ``largest``, doubled as long as the largest is the best."""
    n = len(table.codes)
    if not isinstance(asked, str):
        return _scores(consensus, table, sorted({int(k) for k in asked if k < n} or {1}), settings)
    limit, cap = largest, min(GROWTH * largest, n)
    while True:
        candidates = range(2, max(2, min(limit, n - 1)) + 1)
        scores, chance = _scores(consensus, table, candidates, settings)
        if max(scores, key=lambda k: scores[k]) < limit or limit >= cap:
            return scores, chance
        limit = min(2 * limit, cap)


def _scores(
    consensus: Any, table: tables.Table, candidates: Sequence[int], settings: Settings
) -> tuple[dict[int, float], bool]:
    step = -(-len(table.codes) // COMPARED)
    given, mass = table.objects(slice(None, None, step)).labels(), table.root[::step] ** 2
    kernel = isinstance(consensus, str) and consensus == "cluster-kernel"
    filled = kernel and len(table.codes) <= tables.FEW_PAIRS and tables.has_unseen_pairs(table)
    readings = _completed(table, candidates, settings) if filled else _read(table, candidates)
    highest, scores = 0.0, dict.fromkeys(candidates, 0.0)
    for k, gap, labels in readings:
        highest = max(highest, gap)
        scores[k] = gap * criteria.mean_agreement(given, labels[::step], table.weights, mass)
    # Noise has small gaps, which agreement between clusters and partitions does not reveal.
    return scores, highest < noise_level(table.total)


def _read(
    table: tables.Table, candidates: Sequence[int]
) -> Iterator[tuple[int, float, np.ndarray]]:
    """For each number of clusters with a gap: the number, the eigengap of the normalised
    co-association reduced by the misfit, and labels (n,).
    """
    spectrum, _ = tables.spectrum(table, min(candidates[-1], len(table.codes)))
    following = spectrum.following if np.isfinite(spectrum.following) else 0.0
    gaps = criteria.eigengap(np.append(spectrum.values, following))
    mass, root = table.root**2, table.root[:, None]
    for k in candidates:
        # With few objects there are fewer eigenvalues than candidates; the rest have no gap.
        if 2 <= k <= len(gaps):
            Z = spectrum.vectors[:, :k]
            Z = Z / np.maximum(np.linalg.norm(Z, axis=1), 1e-150)[:, None]
            U = reading(Z, mass)
            fit = criteria.misfit(root * Z, root * U)
            yield k, float(criteria.penalized_eigengap(gaps[k - 1], fit)), U.argmax(axis=1)


def _completed(
    table: tables.Table, candidates: Sequence[int], settings: Settings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """What ``_read`` gives, but with pairs that were never seen filled in for each number."""
    for k in candidates:
        if k <= np.count_nonzero(table.coverage):  # no more clusters than objects with a label
            found = solve("cluster-kernel", table, k, settings._replace(n_init=1))
            gap = criteria.eigengap(found.spectrum)[-1]
            score = float(criteria.penalized_eigengap(gap, found.misfit))
            yield k, score, found.memberships.argmax(axis=1)


def uniform_where_unseen(table: tables.Table, memberships: np.ndarray) -> np.ndarray:
    """Memberships, made uniform (with a warning) for objects that no partition saw. Sets left
    undecided are uniform as well; ``decided`` has warned about them."""
    unseen = table.coverage <= 0
    if not unseen.any():
        return memberships
    n = int((~table.objects(unseen).seen().any(axis=1)).sum())
    if n:
        warn(
            f"{n} of {len(unseen)} objects were seen by no partition: their memberships are uniform"
        )
    return np.where(unseen[:, None], 1.0 / memberships.shape[1], memberships)


def draws(
    fitted: HardConsensus, table: tables.Table, memberships: np.ndarray, n_draws: int
) -> Iterator[np.ndarray]:
    """Memberships of the rows from resampled partitions, matched to the fit."""
    rng = np.random.default_rng(fitted.settings.random_state)
    memberships = np.asarray(memberships, dtype=np.float64)
    m = len(table.weights)
    if m < FEW:
        warn(
            f"resampling {m} partition{'s' if m > 1 else ''} says little about how much "
            f"memberships vary: give at least {FEW}"
        )
    k, once = memberships.shape[1], fitted.settings._replace(n_init=1)
    few = _of_objects(table, fitted.objects)
    start = memberships if few is table else fitted.solution.memberships
    for _ in range(n_draws):
        counts = np.bincount(rng.integers(m, size=m), minlength=m)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            resampled = tables.reweight(few, table.weights * counts)
            if not (resampled.coverage > 0).any():  # only partitions without any label were drawn
                yield np.full_like(memberships, 1.0 / k)
                continue
            solution = solve(fitted.consensus, resampled, k, once, start)
            U = fitted._replace(solution=solution).spread(table, solution.memberships)
        yield align(U, memberships)[:, :k]


def standard_errors(
    resampled: Iterable[np.ndarray], memberships: np.ndarray, n_draws: int
) -> np.ndarray:
    """Standard deviation (n, k) of memberships over ``n_draws`` resamples."""
    total, squares = np.zeros(memberships.shape), np.zeros(memberships.shape)
    for draw in resampled:
        total += draw
        squares += draw**2
    return np.sqrt(np.clip(squares / n_draws - (total / n_draws) ** 2, 0.0, None))
