"""Estimators on dask arrays: processes give the answer of one, also when one of them is lost."""

import os
import re
import signal
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tolerances import stopped

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


import sfumato
from sfumato import (
    DirectionalMixture,
    DiscriminativeClustering,
    EvidenceAccumulation,
    FactorMixture,
    FuzzyCMeans,
    GaussianMixture,
    InformationMaximization,
    MixedMixture,
    MixtureEnsemble,
    PairwiseProbabilisticClustering,
    StudentMixture,
)
from sfumato.dask import Similarity
from sfumato.data.features import STREAMING
from sfumato.models import MODELS
from sfumato.selection import choose_n_clusters

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(center, 1, (200, 3)) for center in (0, 5, 10)])
    rng.shuffle(X)
    return X, rng.random(len(X)) + 0.1, (X[:, 0] > 5).astype(int)


def block_similarity(n=120, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    W = 0.6 * (labels[:, None] == labels) + 0.2 * rng.random((n, n))
    return (W + W.T) / 2


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


@pytest.mark.parametrize(
    "kind",
    [
        *("fuzzy", "mixture", "student", "factor", "mixed", "directional", "discriminative"),
        "information",
    ],
)
def test_statistics_models_fit_a_dask_array_like_an_array(client, data, kind):
    X, weights, classes = data
    model = {
        "fuzzy": FuzzyCMeans(3, n_init=1, max_iter=20, tol=1e-3, random_state=0),
        "mixture": GaussianMixture(
            3, covariance_type="diag", n_init=1, max_iter=20, tol=1e-4, random_state=0
        ),
        "student": StudentMixture(3, n_init=1, max_iter=15, tol=1e-4, random_state=0),
        "factor": FactorMixture(3, n_factors=1, n_init=1, max_iter=15, tol=1e-3, random_state=0),
        "directional": DirectionalMixture(3, n_init=1, max_iter=15, tol=1e-4, random_state=0),
        "mixed": MixedMixture(3, n_init=1, max_iter=15, tol=1e-4, random_state=0),
        "discriminative": DiscriminativeClustering(2, n_init=1, max_iter=5, random_state=0),
        "information": InformationMaximization(3, n_init=1, max_iter=5, random_state=0),
    }[kind]
    y = classes if kind == "discriminative" else None
    there = model.fit(da.from_array(X, chunks=(170, 3)), y, sample_weight=weights)
    memberships, objective, new = (
        np.asarray(there.memberships_),
        there.objective_,
        np.asarray(there.predict_proba(X[:7])),
    )
    assert isinstance(there.memberships_, da.Array)
    np.testing.assert_array_equal(np.asarray(there.labels_), memberships.argmax(axis=1))
    here = model.fit(X, y, sample_weight=weights)
    assert objective == pytest.approx(here.objective_, rel=1e-8)
    np.testing.assert_allclose(memberships, here.memberships_, atol=1e-6)
    np.testing.assert_allclose(new, memberships[:7], atol=1e-12)


@pytest.mark.parametrize("n", [900, 3000])
def test_the_fuzzifier_of_many_features_is_that_of_an_array(client, n):
    X = sfumato.datasets.make_gaussians(n, 3, n_features=8, separation=6, random_state=0).evidence
    model = FuzzyCMeans(3, n_init=1, max_iter=20, tol=1e-3, random_state=0)
    there = model.fit(da.from_array(X, chunks=(400, 8))).fuzzifier_
    assert 8 / 6 < there < 1.7
    # Of more than 2000 objects a sample is looked at, on workers by place, here by content.
    assert there == pytest.approx(model.fit(X).fuzzifier_, rel=1e-9 if n <= 2000 else 0.02)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_constant_feature_on_the_workers_is_left_out_as_it_is_here(client, data, place):
    X = np.insert(data[0], place, 7.0, axis=1)
    model = GaussianMixture(3, covariance_type="diag", n_init=1, random_state=0)
    there = model.fit(da.from_array(X, chunks=(170, 4)))
    memberships, means = np.asarray(there.memberships_), there.means_
    here = model.fit(X)
    np.testing.assert_allclose(memberships, here.memberships_, atol=1e-6)
    np.testing.assert_allclose(means, here.means_, atol=1e-6)


def test_new_objects_on_the_cluster_get_the_memberships_of_new_objects_here(client, data):
    X, _, _ = data
    model = FuzzyCMeans(3, n_init=1, max_iter=10, tol=1e-3, random_state=0).fit(X)
    spread = model.predict_proba(da.from_array(X, chunks=(250, 3)))
    np.testing.assert_array_equal(np.asarray(spread), model.predict_proba(X))


def test_products_and_sweeps_with_a_spread_similarity_are_those_with_the_matrix(client):
    from sfumato.models.pairwise import kernel as pairwise
    from sfumato.models.pairwise import kernel as panels
    from sfumato.numerics import simplex

    W = block_similarity()
    spread = Similarity(da.from_array(W, chunks=(50, 120)))
    V = np.random.default_rng(1).random((120, 4))
    np.testing.assert_allclose(spread @ V, W @ V, rtol=1e-12)
    assert spread.norm == pytest.approx(np.square(W).sum(), rel=1e-12)
    np.testing.assert_array_equal(spread.diagonal, W.diagonal())
    U = simplex.draw(np.random.default_rng(2), (120, 1, 3))
    problem = pairwise.Problem(spread, True, None)
    state, f = panels.panel_step(problem, pairwise.start(problem, U))
    residual = W - state.scale[0] * state.U[:, 0] @ state.U[:, 0].T
    np.fill_diagonal(residual, 0)
    assert f[0] == pytest.approx(np.square(residual).sum(), rel=1e-10)


@pytest.mark.parametrize("lose_a_worker", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_similarity_split_over_processes_gives_the_answer_of_one_process(client, lose_a_worker):
    """One process goes row by row, several by panels of rows: both stop where a step gains one part
    in 1e10, which leaves the root of that in the chances to belong together. Memberships that no
    object has in full may turn without changing these, so it is these that are compared.
    """
    W = block_similarity()
    for solver, settings in (
        ("baum-eagon", {"max_iter": 30, "tol": 0.0}),
        ("coordinate", {"max_iter": 300, "tol": 1e-10}),
    ):
        model = PairwiseProbabilisticClustering(
            3, similarity="precomputed", solver=solver, n_init=1, random_state=0, **settings
        )
        lost = []
        timer = threading.Timer(0.3, lambda lost=lost: lost.append(kill_one(client)))
        if lose_a_worker:
            timer.start()
        spread = model.fit(da.from_array(W, chunks=(45, 120)))
        together, objective = spread.memberships_ @ spread.memberships_.T, spread.objective_
        assert bool(lost) == lose_a_worker
        timer.cancel()
        alone = model.fit(W)
        assert objective == pytest.approx(alone.objective_, rel=1e-8)
        one = alone.memberships_ @ alone.memberships_.T
        np.testing.assert_allclose(together, one, atol=1e-4)


def test_a_lost_worker_changes_nothing_in_sums_of_statistics(client, data):
    X, weights, _ = data
    model = FuzzyCMeans(3, n_init=1, max_iter=40, tol=0.0, random_state=0)
    quiet = np.asarray(
        model.fit(da.from_array(X, chunks=(170, 3)), sample_weight=weights).memberships_
    )
    timer = threading.Timer(0.3, kill_one, (client,))
    timer.start()
    shaken = np.asarray(
        model.fit(da.from_array(X, chunks=(170, 3)), sample_weight=weights).memberships_
    )
    timer.join()
    np.testing.assert_allclose(shaken, quiet, atol=1e-12)


STREAMS = {
    ("FuzzyCMeans", "features"),
    ("GaussianMixture", "features"),
    ("StudentMixture", "features"),
    ("FactorMixture", "features"),
    ("MixedMixture", "features"),
    ("DirectionalMixture", "features"),
    ("DiscriminativeClustering", "features"),
    ("InformationMaximization", "features"),
    ("EvidenceAccumulation", "features"),
    ("MixtureEnsemble", "features"),
    ("PairwiseProbabilisticClustering", "similarity"),
}
KINDS = [(model.name, kind) for model in MODELS for kind in model.evidence]


@pytest.mark.parametrize("name, kind", [each for each in KINDS if each not in STREAMS])
def test_models_that_need_all_objects_in_one_place_refuse_a_dask_array_at_once(name, kind):
    """Without a cluster: nothing is computed before the answer."""
    given = {"similarity": "similarity", "labelings": "ensemble"}.get(kind)
    model = getattr(sfumato, name)(**({given: "precomputed"} if given else {}))
    if "n_clusters" in model.get_params():
        model.set_params(n_clusters=2)
    X = da.ones((30, 30), chunks=(10, 30))
    with pytest.raises(TypeError, match=f"{name} .*not read dask arrays.* that streams"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(np.ones((3, 30))) if hasattr(model, "transform") else model.predict(X)


def test_the_message_names_the_models_that_stream():
    named = {model.name for model in MODELS if re.search(rf"\b{model.name}\b", STREAMING)}
    assert named == {name for name, _ in STREAMS}


def test_a_number_of_clusters_is_not_chosen_on_a_cluster_of_machines():
    X = da.ones((30, 2), chunks=(10, 2))
    with pytest.raises(TypeError, match="FuzzyCMeans with n_clusters='auto'.*choose on a sample"):
        FuzzyCMeans("auto").fit(X)
    with pytest.raises(TypeError, match="dask array, of which no resamples"):
        choose_n_clusters(FuzzyCMeans(2), X)


def test_a_consensus_of_features_on_the_workers_is_that_of_features_here(client, data):
    X, _, _ = data
    model = EvidenceAccumulation("auto", random_state=0)
    there = np.asarray(model.fit(da.from_array(X, chunks=(170, 3))).memberships_)
    np.testing.assert_allclose(there, model.fit(X).memberships_, atol=1e-6)


def test_mixtures_of_features_on_the_workers_are_those_of_features_here(client, data):
    X, _, _ = data
    ensemble = MixtureEnsemble(3, random_state=0)
    there = ensemble.fit(da.from_array(X, chunks=(170, 3))).transform(X)
    np.testing.assert_allclose(there, ensemble.fit(X).transform(X), atol=1e-8)


def test_empty_blocks_and_blocks_of_unknown_size_are_read(client, data):
    X, _, _ = data
    model = FuzzyCMeans(3, n_init=1, max_iter=20, tol=1e-3, random_state=0)
    here = model.fit(X).memberships_
    blocks = [da.from_array(X[a:b], chunks=(b - a or 1, 3)) for a, b in ((0, 9), (9, 9), (9, 600))]
    unknown = da.from_array(X, chunks=(170, 3))
    for spread in (da.concatenate(blocks), unknown[unknown[:, 0] > -1e9]):
        np.testing.assert_allclose(np.asarray(model.fit(spread).memberships_), here, atol=1e-6)


def test_blocks_of_unknown_size_of_a_similarity_are_read(client):
    W = block_similarity(40)
    spread = da.from_array(W, chunks=(15, 40))
    unknown = spread[spread[:, 0] > -1.0]
    np.testing.assert_array_equal(Similarity(unknown) @ np.eye(40), W)


BAD = [
    (da.zeros((0, 3)), ValueError, "empty"),
    (da.ones((9, 3), dtype=complex), ValueError, "complex"),
    (da.from_array(np.full((9, 3), "a")), TypeError, "must hold numbers"),
    (da.from_array(np.full((9, 3), None), chunks=3), TypeError, "must hold numbers"),
    (da.ones((2, 3, 4)), ValueError, "two-dimensional"),
    (da.ones(7), ValueError, "two-dimensional"),
]


@pytest.mark.parametrize("array, error, message", BAD)
def test_what_is_no_table_of_numbers_is_refused_by_name(array, error, message):
    with pytest.raises(error, match=f"X .*{message}"):
        FuzzyCMeans(2).fit(array)
    with pytest.raises(error, match=f"W .*{message}"):
        PairwiseProbabilisticClustering(2, similarity="precomputed").fit(array)


def test_a_dask_data_frame_is_told_how_to_become_an_array():
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = frames.from_pandas(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), npartitions=1)
    with pytest.raises(TypeError, match="to_dask_array"):
        FuzzyCMeans(2).fit(frame)


@pytest.mark.parametrize("scale", [1e-310, 1e300])
def test_extreme_units_on_the_workers_are_refused_by_name(client, data, scale):
    W = da.from_array(block_similarity(30) * scale, chunks=(10, 30))
    with pytest.raises(ValueError, match="change units"):
        PairwiseProbabilisticClustering(3, similarity="precomputed").fit(W)
    if scale > 1:
        with pytest.raises(ValueError, match="squares overflow"):
            FuzzyCMeans(3).fit(da.from_array(data[0] * scale, chunks=(300, 3)))


@pytest.mark.parametrize("scale", [1e-130, 1e130])
def test_units_whose_squares_are_numbers_are_taken_by_the_workers(client, scale):
    W = block_similarity(30) * scale
    spread = Similarity(da.from_array(W, chunks=(10, 30)))
    np.testing.assert_allclose(spread @ np.eye(30), W, rtol=1e-12)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("asymmetric", "not symmetric"),
        ("negative", "negative similarities"),
        ("missing", "NaN or infinity"),
    ],
)
def test_a_bad_spread_similarity_is_refused(client, spoil, message):
    W = block_similarity()
    W[3, 5] = {"asymmetric": 0.9, "negative": -1.0, "missing": np.nan}[spoil]
    with pytest.raises(ValueError, match=message):
        PairwiseProbabilisticClustering(3, similarity="precomputed").fit(
            da.from_array(W, chunks=(60, 120))
        )


def test_bad_features_are_refused(client, data):
    X, _, _ = data
    bad = X.copy()
    bad[10, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        FuzzyCMeans(3).fit(da.from_array(bad, chunks=(300, 3)))
    model = FuzzyCMeans(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="2 features, but FuzzyCMeans was fitted with 3"):
        model.predict_proba(da.from_array(X[:, :2], chunks=(300, 2)))


def test_without_a_cluster_the_message_says_how_to_start_one(data, monkeypatch):
    monkeypatch.setattr(
        "sfumato.dask._features.default_client",
        lambda: (_ for _ in ()).throw(ValueError("no clients")),
    )
    with pytest.raises(ValueError, match="needs a cluster"):
        FuzzyCMeans(3).fit(da.from_array(data[0], chunks=(300, 3)))


@pytest.mark.slow
def test_twenty_thousand_objects_on_four_processes():
    """Rows of the similarity are made on the workers, one of which is killed.

    Then one process fits all of it.
    """
    n = 20_000
    labels = np.random.default_rng(0).integers(4, size=n)

    def rows(start, stop):
        noise = np.abs(np.sin(np.arange(start, stop)[:, None] * 1.7 + np.arange(n) * 1.7) * 0.2)
        return 0.6 * (labels[start:stop, None] == labels) + noise

    import dask

    bounds = [*range(0, n, n // 4), n]
    blocks = [
        da.from_delayed(dask.delayed(rows)(a, b), (b - a, n), np.float64)
        for a, b in pairwise(bounds)
    ]
    model = PairwiseProbabilisticClustering(4, similarity="precomputed", n_init=1, random_state=0)
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        lost = []
        timer = threading.Timer(20.0, lambda: lost.append(kill_one(client)))
        timer.start()
        memberships = model.fit(da.concatenate(blocks)).memberships_
        assert lost
    alone = model.fit(np.concatenate([rows(a, b) for a, b in pairwise(bounds)]))
    np.testing.assert_allclose(memberships, alone.memberships_, atol=stopped(model))


def test_what_a_task_is_sent_has_no_data_in_it(client, data, monkeypatch):
    """Not even of an array of the client, whose graph holds all of it."""
    from sfumato.dask import _features

    sent, packed = [], _features._packed
    monkeypatch.setattr(_features, "_packed", lambda f: sent.append(packed(f)) or sent[-1])
    model = FuzzyCMeans(3, n_init=1, max_iter=5, random_state=0)
    model.fit(da.from_array(data[0], chunks=(170, 3)))
    assert max(map(len, sent)) < 5000 < data[0].nbytes


def test_rows_of_files_are_kept_where_the_workers_have_room(client, data, tmp_path, monkeypatch):
    """Mapped files are looked at once; without room every pass looks at them again."""
    from sfumato.dask import _features, shards

    X, _, _ = data
    for i, part in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"part-{i}.npy", part)
    features = _features.Features(shards(tmp_path))
    rows = _features.SpreadRows(features, view=lambda block: 2.0 * block)
    kept = rows.kept()
    assert kept.is_kept
    monkeypatch.setattr(_features, "_memory", lambda: X.nbytes)
    assert not rows.kept().is_kept
    for each in (rows, kept):
        np.testing.assert_allclose(
            each.sum(lambda block: (block.sum(axis=0),))[0], 2 * X.sum(axis=0)
        )
        np.testing.assert_allclose(each.map(lambda block: block + 1).compute(), 2 * X + 1)
    np.testing.assert_array_equal(features[[7, 0, len(X) - 1]], X[[7, 0, -1]])


def test_a_task_takes_the_blocks_of_one_worker(client, data, monkeypatch):
    """All blocks are in one group each, of its worker; large ones are alone."""
    from sfumato.dask import _features

    X, _, _ = data
    features = _features.Features(da.from_array(X, chunks=(len(X) // 8, X.shape[1])))
    groups, workers = features.groups, client.who_has(features.blocks)
    homes = [[workers[features.blocks[b].key] for b in group] for group in groups]
    assert sorted(np.concatenate(groups)) == list(range(len(features.blocks)))
    assert all(len({min(home) for home in each}) == 1 for each in homes)
    assert len(features.groups) < len(features.blocks)
    monkeypatch.setattr(_features.Features, "most", 1)
    features._groups = None
    assert len(features.groups) == len(features.blocks)


def _faults_of_temporaries():
    """Pages that the system clears for arrays that a task makes and frees."""
    import resource

    from sfumato.dask._features import keep_temporaries

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            np.zeros(2**18, dtype=np.int8).fill(1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    keep_temporaries()
    faults()
    return faults()


@pytest.mark.skipif("linux" not in sys.platform, reason="the settings of glibc")
def test_a_task_uses_its_temporary_arrays_again(client):
    for faults in client.run(_faults_of_temporaries).values():
        assert faults < 200  # 64 pages for each of 50 arrays where memory is given back


def test_the_check_of_features_finds_their_extremes_and_holes(client, data):
    from sfumato.dask import check_features

    X = data[0].copy()
    X[::50, 1] = np.nan
    features = check_features(GaussianMixture(2), da.from_array(X, chunks=(170, 3)), True, True)
    assert features.has_missing
    np.testing.assert_array_equal(features.extremes, [np.nanmin(X, axis=0), np.nanmax(X, axis=0)])
