"""Evidence accumulation: consensus of labelings, in every form it takes."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import kl_div
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import make_blobs, make_moons

from sfumato import (
    ClusteringEnsemble,
    CompletelyPositiveFactorization,
    EvidenceAccumulation,
    EvidenceWarning,
    MemoryBudgetError,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.datasets import make_gaussians
from sfumato.engine.objects import present_rows
from sfumato.metrics import adjusted_rand_index, matched_accuracy
from sfumato.models.consensus import hard, soft, solutions, solvers
from sfumato.numerics import label_sweep as sweeps
from sfumato.numerics import label_table as kernel
from sfumato.numerics import simplex
from sfumato.similarity import coassociation

X, Y = make_blobs(120, centers=[[0, 0], [6, 0], [3, 5]], cluster_std=0.8, random_state=0)
NAMES = solvers.NAMES
SOFT = NAMES[:5]


def noisy_labelings(seed=0, n=90, m=20, k=3, error=0.15, missing=0.1):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    L = np.where(rng.random((n, m)) < error, rng.integers(0, k, (n, m)), truth[:, None])
    L = np.stack([rng.permutation(k)[column] for column in L.T], axis=1)
    L[rng.random((n, m)) < missing] = -1
    return L, truth


def consensus(name, k=3, **parameters):
    return EvidenceAccumulation(
        k, ensemble="precomputed", consensus=name, random_state=0, **parameters
    )


def check_memberships(U, n, k):
    assert U.shape == (n, k)
    assert np.isfinite(U).all()
    assert U.min() >= 0
    assert U.max() <= 1
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_every_consensus_finds_the_clusters_of_noisy_labelings(name):
    L, truth = noisy_labelings()
    model = consensus(name).fit(L)
    check_memberships(model.memberships_, 90, 3)
    np.testing.assert_array_equal(model.labels_, model.memberships_.argmax(axis=1))
    assert adjusted_rand_index(truth, model.labels_) > (
        0.3 if name in ("single", "complete") else 0.95
    )
    assert np.all(np.diff(model.history_) <= 1e-9 * np.abs(model.history_[0]))
    assert model.converged_
    placed = model.predict_proba(L)
    check_memberships(placed, 90, 3)
    if name in SOFT:
        np.testing.assert_array_equal(placed.argmax(axis=1), model.labels_)


@pytest.mark.parametrize("error", [0.15, 0.4])
def test_the_kernel_places_an_object_of_the_fit_where_it_stands(error):
    L, _ = noisy_labelings(n=150, m=40, error=error)
    model = consensus("cluster-kernel", tol=1e-12, max_iter=3000).fit(L)
    np.testing.assert_allclose(model.predict_proba(L), model.memberships_, atol=0.01)


def test_a_few_objects_that_coarse_partitions_leave_aside_are_no_cluster():
    """Two clusters of 100, roughly by every partition, but six objects of the first are a group of
    their own in all but one of forty.
    """
    rng = np.random.default_rng(0)
    truth, strays = np.repeat([0, 1], 100), np.arange(6)
    L = np.where(rng.random((200, 40)) < 0.1, 1 - truth[:, None], truth[:, None])
    L[np.ix_(strays, np.arange(39))] = 2
    assert matched_accuracy(truth, consensus("cluster-kernel", 2).fit(L).labels_) > 0.98
    assert matched_accuracy(truth, consensus("average", 2).fit(L).labels_) < 0.6


@pytest.mark.parametrize("sizes", [(560, 30, 10), (590, 10)])
def test_small_clusters_that_noisy_partitions_agree_on_stand(sizes):
    truth, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(0)
    L = np.where(
        rng.random((600, 30)) < 0.2, rng.integers(0, len(sizes), (600, 30)), truth[:, None]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        assert (
            matched_accuracy(truth, consensus("cluster-kernel", len(sizes)).fit(L).labels_) > 0.995
        )


def test_partitions_that_each_join_two_of_three_clusters_are_enough():
    """Nobody saw all three, and there is nothing to warn of."""
    truth = np.repeat([0, 1, 2], [500, 80, 20])
    L = np.stack(
        [np.array(joined)[truth] for joined in ([0, 0, 1], [0, 1, 1], [0, 1, 0])] * 10, axis=1
    )
    assert matched_accuracy(truth, consensus("cluster-kernel").fit(L).labels_) == 1.0


def test_a_small_cluster_beside_a_large_one_that_partitions_cut():
    X, truth = make_blobs([350, 30, 20], centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    L = ClusteringEnsemble(50, algorithms="All", n_clusters=(2, 12), random_state=0).fit_transform(
        X
    )
    assert matched_accuracy(truth, consensus("cluster-kernel").fit(L).labels_) > 0.98


def test_labels_in_a_frame_are_known_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(noisy_labelings(missing=0)[0]).add_prefix("by ")
    model = consensus("cluster-kernel").fit(frame)
    with pytest.raises(ValueError, match="same order"):
        model.predict_proba(frame[frame.columns[::-1]])


def test_a_bootstrap_of_hardly_any_partitions_says_so():
    L, _ = noisy_labelings(m=3, missing=0)
    with pytest.warns(EvidenceWarning, match="resampling 3 partitions"):
        consensus("coassociation", n_resamples=4).fit(L)


def test_clusters_that_no_partition_joins_share_no_object():
    L = np.concatenate(
        [noisy_labelings(seed, n=30, m=8, missing=0)[0] + 3 * seed for seed in range(2)]
    )
    assert consensus("cluster-kernel", 2).fit(L).memberships_.max(axis=1).min() > 1 - 1e-4


@pytest.mark.parametrize("name", SOFT)
def test_same_seed_same_answer_and_input_untouched(name):
    L, _ = noisy_labelings(n=45)
    L.setflags(write=False)
    one, two = (consensus(name, n_init=2).fit(L) for _ in range(2))
    np.testing.assert_array_equal(one.memberships_, two.memberships_)


@pytest.mark.parametrize("name", SOFT)
def test_weights_count_copies_of_partitions(name):
    L, _ = noisy_labelings(m=8)
    weights = np.array([2, 1, 1, 3, 1, 1, 0, 1])
    weighted = consensus(name, tol=1e-12, n_init=1).fit(L, partition_weight=weights)
    copied = consensus(name, tol=1e-12, n_init=1).fit(np.repeat(L, weights, axis=1))
    np.testing.assert_allclose(weighted.memberships_, copied.memberships_, atol=2e-4)


def test_names_of_labels_do_not_matter():
    L, _ = noisy_labelings()
    names = np.array(["not seen", "red", "green", "blue"], dtype=object)[L + 1]
    names[L == -1] = None
    np.testing.assert_allclose(
        consensus("cluster-kernel").fit(names).memberships_,
        consensus("cluster-kernel").fit(L).memberships_,
        atol=1e-5,
    )
    floats = np.where(L == -1, np.nan, L * 10.0)
    np.testing.assert_array_equal(
        consensus("cluster-kernel").fit(floats).memberships_,
        consensus("cluster-kernel").fit(L).memberships_,
    )


def test_published_model_reaches_a_minimum_of_the_pairwise_objective():
    L, _ = noisy_labelings(missing=0.0)
    C = coassociation(L).toarray()
    pairwise = PairwiseProbabilisticClustering(
        3, similarity="precomputed", scale=1.0, random_state=0, tol=1e-10
    ).fit(C)
    ours = consensus("coassociation", tol=1e-10).fit(L)
    U = ours.memberships_
    squares = (C - U @ U.T) ** 2
    np.fill_diagonal(squares, 0)
    assert squares.sum() == pytest.approx(pairwise.objective_, rel=1e-6)
    within = np.sum(C * (1 - C)) * L.shape[1]
    assert ours.objective_ == pytest.approx(squares.sum() * L.shape[1] + within, rel=1e-8)


LOSSES = {
    "coassociation-likelihood": lambda c, p: -(c * np.log(p) + (1 - c) * np.log1p(-p)) / 2,
    "coassociation-kullback-leibler": kl_div,
    "coassociation-itakura-saito": lambda c, p: p / c - np.log(p / c) - 1,
}


@pytest.mark.parametrize("name", LOSSES)
def test_explicit_sweeps_go_down_and_ignore_unseen_pairs(name):
    L, _ = noisy_labelings(n=30, missing=0.6, m=5)
    together, seen = kernel.pair_counts(kernel.encode(L.astype(np.int32)))
    np.fill_diagonal(seen, 0)
    assert (seen[~np.eye(30, dtype=bool)] == 0).any()
    rng = np.random.default_rng(0)
    C = np.where(seen > 0, together / np.maximum(seen, 1), rng.random(seen.shape))
    C = np.maximum(C, 0.05)
    start = simplex.draw(rng, (30, 3))
    U, history = start, []
    for _ in range(20):
        U, value = solutions.sweep(C, seen, U, name)
        history.append(value)
    assert np.all(np.diff(history) <= 1e-9 * history[0])
    other = start
    for _ in range(20):
        other, _ = solutions.sweep(np.where(seen > 0, C, 0.123), seen, other, name)
    np.testing.assert_allclose(U, other, atol=1e-9)
    p = np.clip(U @ U.T, 1e-12, 1 - 1e-12)
    assert history[-1] == pytest.approx(np.sum(seen * LOSSES[name](C, p)), rel=1e-9)


def test_squared_sweeps_over_matrix_and_table_agree():
    L, _ = noisy_labelings(n=40, missing=0.3)
    table = kernel.encode(L.astype(np.int32))
    together, seen = kernel.pair_counts(table)
    np.fill_diagonal(seen, 0)
    C = together / np.maximum(seen, 1)
    U, V = (simplex.draw(np.random.default_rng(s), (40, 3)) for s in (0, 1))
    one, other = (np.sum(seen * (C - each @ each.T) ** 2) for each in (U, V))
    difference = one - other
    assert difference == pytest.approx(
        sweeps.objective(table, U) - sweeps.objective(table, V), rel=1e-10
    )


@pytest.mark.parametrize("name", ["single", "average", "complete"])
def test_linkages_equal_scipy(name):
    L, _ = noisy_labelings(missing=0.0)
    model = consensus(name).fit(L)
    D = 1 - coassociation(L).toarray()
    np.fill_diagonal(D, 0)
    tree = linkage(squareform(D, checks=False), name)
    reference = fcluster(tree, 3, "maxclust")
    if len(np.unique(reference)) == 3:
        assert adjusted_rand_index(reference, model.labels_) == 1.0


def test_the_number_of_clusters_of_a_linkage():
    L, _ = noisy_labelings(error=0.02)
    model = consensus("average", k="auto").fit(L)
    assert model.n_clusters_ == 3
    assert model.candidates_[np.argmax(model.scores_)] == 3


@pytest.mark.parametrize("name", ["cluster-kernel", "coassociation"])
def test_number_of_clusters_is_found(name):
    L, _ = noisy_labelings(error=0.1, k=4, n=120)
    model = consensus(name, k="auto", max_clusters=7).fit(L)
    assert model.n_clusters_ == 4
    assert model.candidates_.tolist() == [2, 3, 4, 5, 6, 7]
    assert model.scores_.shape == (6,)


def test_features_in_memberships_out():
    model = EvidenceAccumulation(3, random_state=0).fit(X)
    assert adjusted_rand_index(Y, model.labels_) > 0.95
    check_memberships(model.memberships_, 120, 3)
    new, truth = make_blobs(60, centers=[[0, 0], [6, 0], [3, 5]], cluster_std=0.8, random_state=9)
    placed = model.predict_proba(new)
    check_memberships(placed, 60, 3)
    assert adjusted_rand_index(truth, placed.argmax(axis=1)) > 0.9
    np.testing.assert_allclose(model.predict_proba(X), model.memberships_, atol=0.2)
    assert (model.predict(X) == model.labels_).mean() > 0.97
    assert EvidenceAccumulation("auto", random_state=0).fit(X).n_clusters_ == 3


def test_shapes_that_are_not_round():
    moons, truth = make_moons(300, noise=0.06, random_state=0)
    assert (
        adjusted_rand_index(truth, EvidenceAccumulation(2, random_state=0).fit(moons).labels_)
        > 0.95
    )


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_units_do_not_matter(factor):
    ensemble = ClusteringEnsemble(20)
    base = EvidenceAccumulation(3, ensemble=ensemble, random_state=0).fit(X).memberships_
    np.testing.assert_allclose(
        EvidenceAccumulation(3, ensemble=ensemble, random_state=0).fit(X * factor).memberships_,
        base,
        atol=1e-6,
    )


def test_single_precision_stays():
    model = EvidenceAccumulation(3, ensemble=ClusteringEnsemble(20), random_state=0).fit(
        X.astype(np.float32)
    )
    assert model.memberships_.dtype == np.float32
    assert model.predict_proba(X[:5].astype(np.float32)).dtype == np.float32


def test_any_estimator_of_similarities_takes_part():
    L, truth = noisy_labelings()
    ours = consensus(PairwiseProbabilisticClustering(scale=1.0)).fit(L)
    assert adjusted_rand_index(truth, ours.labels_) == 1.0
    assert (ours.predict(L) == ours.labels_).all()
    theirs = consensus(AgglomerativeClustering(linkage="average")).fit(L)
    assert adjusted_rand_index(truth, theirs.labels_) == 1.0
    assert (theirs.predict(L) == theirs.labels_).mean() > 0.95


def test_uncertainty_is_larger_where_partitions_disagree():
    L, _ = noisy_labelings(error=0.02, missing=0.0, m=30)
    rng = np.random.default_rng(5)
    L[0] = L[rng.integers(1, 90, 30), np.arange(30)]
    model = consensus("cluster-kernel", n_resamples=20).fit(L)
    assert model.uncertainty_.shape == (90, 3)
    assert model.uncertainty_[0].max() > 3 * np.median(model.uncertainty_.max(axis=1))
    low, high = model.cooccurrence_interval([[3, 6], [3, 4], [0, 3]], n_draws=20).T
    assert (low <= high).all()
    assert low[0] > 0.8
    assert high[1] < 0.2
    assert high[2] - low[2] > high[0] - low[0]


def test_objects_nobody_saw_are_vague_and_named():
    L, _ = noisy_labelings()
    L[4] = -1
    with pytest.warns(EvidenceWarning, match="seen by no partition"):
        model = consensus("cluster-kernel").fit(L)
    np.testing.assert_allclose(model.memberships_[4], 1 / 3)


@pytest.mark.parametrize("name", NAMES)
def test_labelings_without_any_label_are_named(name):
    with pytest.raises(ValueError, match="saw any object"):
        consensus(name).fit(np.full((6, 3), -1))


@pytest.mark.parametrize("n_features", [5, 10, 30])
def test_a_cloud_without_clusters_is_named(n_features):
    X = np.random.default_rng(0).normal(size=(300, n_features))
    with pytest.warns(EvidenceWarning, match="structure test|single out"):
        EvidenceAccumulation(3, random_state=0).fit(X)


def test_an_object_that_is_always_alone_makes_no_cluster():
    """That it was found with itself 40 times says nothing of where it belongs."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 30)
    L = np.where(rng.random((90, 40)) < 0.9, truth[:, None], rng.integers(0, 3, (90, 40)))
    L[0], L[45] = 3, 4
    U = EvidenceAccumulation(3, ensemble="precomputed", random_state=0).fit(L).memberships_
    seen = np.delete(np.arange(90), [0, 45])
    assert np.array_equal(np.unique(U.argmax(axis=1)[seen]), [0, 1, 2])
    assert matched_accuracy(truth[seen], U.argmax(axis=1)[seen]) > 0.95


def test_of_groups_that_no_partition_joins_the_largest_are_the_clusters():
    L = np.repeat([0, 1, 2], [40, 30, 10])[:, None] * np.ones(5, dtype=int)
    with pytest.warns(EvidenceWarning, match="the largest are the clusters"):
        U = EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(L).memberships_
    assert np.allclose(U[:40], U[0], atol=1e-4)
    assert np.allclose(U[0] @ U[40], 0.0, atol=0.02)
    assert U[70:].max() < 0.8


@pytest.mark.parametrize("consensus", ["single", "average", "complete"])
def test_fitted_objects_keep_their_label_in_a_linkage(consensus):
    """Without a look at the fit 51 of these 80 moved: an early merge is not taken back."""
    rng = np.random.default_rng(1)
    L = rng.integers(0, 4, (80, 8))
    L[rng.random(L.shape) < 0.1] = -1
    model = EvidenceAccumulation(5, ensemble="precomputed", consensus=consensus).fit(L)
    np.testing.assert_array_equal(model.predict(L), model.labels_)
    np.testing.assert_array_equal(model.predict(L[::-3]), model.labels_[::-3])
    np.testing.assert_array_equal(model.predict_proba(L[:9]), model.memberships_[:9])


@pytest.mark.parametrize("consensus", ["single", "average", "complete"])
def test_objects_that_nobody_saw_take_no_cluster_of_a_linkage(consensus):
    truth = np.repeat([0, 1, 2], 20)
    L = np.tile(truth[:, None], (1, 8))
    L[[5, 25, 45]] = -1
    with pytest.warns(EvidenceWarning, match="seen by no partition"):
        model = EvidenceAccumulation(
            "auto", ensemble="precomputed", consensus=consensus, random_state=0
        ).fit(L)
    seen = np.delete(np.arange(60), [5, 25, 45])
    assert model.n_clusters_ == 3
    assert adjusted_rand_index(truth[seen], model.labels_[seen]) == 1.0
    np.testing.assert_allclose(model.memberships_[[5, 25, 45]], 1 / 3)


def test_sets_of_objects_never_seen_together_are_named():
    rng = np.random.default_rng(0)
    L = np.full((60, 4), -1)
    L[:30, :2], L[30:, 2:] = rng.integers(0, 2, (30, 2)), rng.integers(0, 2, (30, 2))
    with pytest.warns(EvidenceWarning, match="2 sets that no partition saw together"):
        EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(L)


@pytest.mark.parametrize("consensus", ["cluster-kernel", "coassociation", "average"])
def test_sets_never_seen_together_are_undecided(consensus):
    truth = np.arange(50) % 2
    L = np.full((50, 6), -1)
    L[:30, :3], L[30:, 3:] = truth[:30, None], truth[30:, None]
    model = EvidenceAccumulation(2, ensemble="precomputed", consensus=consensus, random_state=0)
    with pytest.warns(EvidenceWarning, match="only the largest set is clustered"):
        model.fit(L)
    assert adjusted_rand_index(truth[:30], model.labels_[:30]) == 1.0
    assert model.memberships_[:30].max(axis=1).min() > 0.9
    np.testing.assert_allclose(model.memberships_[30:], 0.5)
    np.testing.assert_allclose(model.predict_proba(L)[30:], 0.5)
    joined = np.column_stack([L, truth])  # one partition that saw all
    assert adjusted_rand_index(truth, model.fit(joined).labels_) == 1.0


def test_features_and_distances_are_not_labels():
    with pytest.raises(ValueError, match="features"):
        EvidenceAccumulation(3, ensemble="precomputed").fit(X)
    with pytest.raises(ValueError, match="ensemble=KMeans"):
        EvidenceAccumulation(3, ensemble=KMeans(4, n_init=1)).fit(X)


def test_one_resample_is_refused():
    with pytest.raises(ValueError, match="n_resamples must be 0 or at least 2"):
        EvidenceAccumulation(3, n_resamples=1).fit(X)


def test_partitions_at_random_are_named():
    L = np.random.default_rng(0).integers(0, 4, (200, 30))
    with pytest.warns(EvidenceWarning, match="random partitions"):
        consensus("cluster-kernel").fit(L)


def test_groups_that_no_partition_joins_are_named():
    with pytest.warns(EvidenceWarning, match="do not say which 2 clusters"):
        consensus("cluster-kernel", k=2).fit(
            np.repeat(np.arange(10) % 4, 3)[:, None] * np.ones((1, 5), dtype=int)
        )


def test_score_is_the_brier_score_of_all_observations():
    L, _ = noisy_labelings(n=20, m=4, missing=0.2)
    model = consensus("coassociation").fit(L)
    U = model.predict_proba(L)
    p, losses = U @ U.T, []
    for column in L.T:
        for i in range(20):
            losses += [
                ((column[i] == column[j]) - p[i, j]) ** 2
                for j in range(20)
                if i != j and column[i] >= 0 and column[j] >= 0
            ]
    assert model.score(L) == pytest.approx(-np.mean(losses), rel=1e-9)


def test_explicit_matrices_are_refused_when_they_do_not_fit(monkeypatch):
    L, _ = noisy_labelings()
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1e5")
    with pytest.raises(MemoryBudgetError):
        consensus("coassociation-likelihood").fit(L)
    consensus("coassociation").fit(L)


def test_one_cluster_and_few_objects():
    assert (consensus("cluster-kernel", k=1).fit([[0, 0], [0, 1], [1, 1]]).memberships_ == 1).all()
    check_memberships(EvidenceAccumulation(2, random_state=0).fit(X[:4]).memberships_, 4, 2)


def test_a_fitted_model_survives_pickling():
    L, _ = noisy_labelings()
    model = consensus("cluster-kernel").fit(L)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(L), model.predict_proba(L)
    )


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters"),
        ({"n_clusters": "several"}, ValueError, "n_clusters"),
        ({"n_clusters": 500}, ValueError, "n_clusters=500"),
        ({"consensus": "median"}, ValueError, "cluster-kernel"),
        ({"consensus": 3}, TypeError, "estimator"),
        ({"n_resamples": -1}, ValueError, "n_resamples"),
        ({"ensemble": "some"}, (TypeError, ValueError), "ensemble"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        EvidenceAccumulation(**{"n_clusters": 3, **parameters}).fit(X)


def test_sparse_features_are_taken():
    sparse = sp.csr_array(np.where(np.abs(X) < 0.5, 0, X))
    dense = EvidenceAccumulation(3, ensemble=ClusteringEnsemble(20), random_state=0).fit(
        sparse.toarray()
    )
    model = EvidenceAccumulation(3, ensemble=ClusteringEnsemble(20), random_state=0).fit(sparse)
    assert adjusted_rand_index(dense.labels_, model.labels_) > 0.95
    check_memberships(model.predict_proba(sparse), 120, 3)


def test_a_cut_that_the_partitions_do_not_ask_for_is_said_to_be_one():
    simulated = make_gaussians(400, 3, separation=5, random_state=0)
    with pytest.warns(EvidenceWarning, match="of 4 clusters, the data separate only 3"):
        EvidenceAccumulation(4, random_state=0).fit(simulated.evidence)


@pytest.mark.parametrize("consensus", ["cluster-kernel", "coassociation", "average"])
@pytest.mark.parametrize("evidence", [[["a", "b"]], [[1, 2], [-1, -1]]], ids=["alone", "unseen"])
@pytest.mark.filterwarnings("ignore:1 of 2 objects were seen by no partition")
def test_one_object_is_one_cluster(consensus, evidence):
    model = EvidenceAccumulation("auto", ensemble="precomputed", consensus=consensus)
    model.fit(evidence)
    assert model.n_clusters_ == model.selection_.n_clusters == 1
    np.testing.assert_array_equal(model.memberships_, np.ones((len(evidence), 1)))
    assert model.candidates_.tolist() == [1]


@pytest.mark.parametrize("ensemble", [None, ClusteringEnsemble(5)], ids=["default", "labelings"])
def test_one_object_with_features_is_one_cluster(ensemble):
    model = EvidenceAccumulation("auto", ensemble=ensemble, random_state=0).fit([[1.0, 2.0]])
    assert model.n_clusters_ == 1
    np.testing.assert_array_equal(model.memberships_, [[1.0]])


def test_clusters_that_only_one_kind_of_evidence_sees_are_noise():
    """The neighbour graph finds communities in the dense corner of a skewed cloud."""
    X = np.random.default_rng([9000, 6, 3, 700, 11]).exponential(size=(700, 3))
    with pytest.warns(EvidenceWarning, match="no number of clusters stands out"):
        model = EvidenceAccumulation(random_state=0).fit(X)
    assert model.scores_.max() < soft.noise_score(700)  # the mean over the kinds
    assert model.n_clusters_ == 1


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "consensus",
    [
        *NAMES,
        PairwiseProbabilisticClustering(3),
        SpectralClustering(3),
        CompletelyPositiveFactorization(3),
    ],
    ids=str,
)
def test_whole_weights_are_copies_in_every_consensus(consensus, gaps, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 10)
    L = np.where(rng.random((30, 15)) < 0.85, y[:, None], rng.integers(0, 4, (30, 15)))
    L = np.where(rng.random(L.shape) < 0.15, -1, L) if gaps else L
    w = rng.integers(0, 4, size=30)

    def fitted(rows, weights=None):
        model = EvidenceAccumulation(
            3, ensemble="precomputed", consensus=consensus, random_state=0, tol=1e-7, n_init=1
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(L[rows], sample_weight=weights)

    weighted = fitted(slice(None), w)
    copied = fitted(np.repeat(np.arange(30), w))
    assert np.abs(np.repeat(weighted.memberships_, w, axis=0) - copied.memberships_).max() < 1e-10
    alone = fitted(w > 0, w[w > 0])
    assert np.abs(weighted.memberships_[w > 0] - alone.memberships_).max() < 1e-10
    # The same clusters where copies are not joined to one object before.
    monkeypatch.setattr(hard, "objects_of", lambda X, own, least: present_rows(len(X), own))
    apart = fitted(np.repeat(np.arange(30), w))
    assert adjusted_rand_index(np.repeat(weighted.labels_, w), apart.labels_) == 1.0
    if np.isfinite(weighted.objective_) and weighted.objective_ > 1e-3:
        assert apart.objective_ == pytest.approx(weighted.objective_, rel=1e-2)
