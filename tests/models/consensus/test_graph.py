"""Communities of the neighbour graph as evidence."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.bench_graph import memberships, simulated_cells
from sklearn.datasets import load_digits

from sfumato.datasets import make_gaussians
from sfumato.io.results import load, save
from sfumato.metrics import adjusted_rand_index
from sfumato.models.consensus import evidence as graph
from sfumato.models.consensus.evidence import fit_graph
from sfumato.models.consensus.soft import Settings, factorize, fit_reader

GROUPS = make_gaussians(300, 4, n_features=60, separation=8.0, random_state=0)
X, Y = GROUPS.evidence, GROUPS.labels


def fitted(X, seed=0, weights=None):
    return fit_graph(X, np.random.default_rng(seed), weights)


def read(kind, X, k, mass=None):
    factor = factorize(kind, kind(X), k, mass=mass)
    reader = fit_reader(factor(X), Settings(4, 500, 1e-6, 0), None, mass)
    return lambda rows: reader(factor(rows))


def test_strengths_are_those_of_a_bisection(rng):
    distance = np.sort(rng.gamma(2.0, size=(50, 12)), axis=1)
    distance[0] = 1.0
    distance[1, :8] = 0.5
    distance[2] = 0.0
    p = graph._strengths(distance)
    for row, found in zip(distance[3:], p[3:], strict=True):
        low, high = 1e-6, 1e6
        for _ in range(200):
            middle = np.sqrt(low * high)
            total = np.exp(-(row - row[0]) / middle).sum()
            low, high = (middle, high) if total < np.log2(12) else (low, middle)
        np.testing.assert_allclose(found, np.exp(-(row - row[0]) / low), atol=1e-6)
    np.testing.assert_array_equal(p[[0, 2]], 1.0)
    np.testing.assert_array_equal(p[1, :8], 1.0)
    assert p[1, 8:].max() < 1e-9


def test_weights_of_edges_are_a_fuzzy_union():
    distance, index = graph._neighbours(X.astype(np.float32), 10)
    W = graph._graph(distance, index).toarray()
    P = np.zeros_like(W)
    np.put_along_axis(P, index, graph._strengths(distance), axis=1)
    np.testing.assert_allclose(W, P + P.T - P * P.T, atol=1e-12)
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_array_equal(np.diag(W), 0.0)


def test_axes_are_the_principal_ones_in_the_given_scale(rng):
    X = rng.normal(size=(200, 70)) * np.geomspace(100.0, 0.1, 70) + 5.0
    shift, P = graph._principal_axes(X, None)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    np.testing.assert_allclose(shift, X.mean(axis=0))
    expected = np.abs(vectors[:, :-51:-1]) / np.sqrt(values[-1])
    np.testing.assert_allclose(np.abs(P)[:, :20], expected[:, :20], atol=1e-6)


@pytest.mark.parametrize("n_formed", [1000, 10])
def test_sparse_and_dense_rows_have_the_same_columns(rng, monkeypatch, n_formed):
    monkeypatch.setattr(graph, "GRAPH", graph.GRAPH._replace(n_formed=n_formed))
    dense = np.where(rng.random(X.shape) < 0.5, 0.0, X)
    both = [fitted(rows)(rows) for rows in (dense, sp.csr_array(dense))]
    assert both[0].shape[0] == both[1].shape[0] == 300
    found = [read(fitted(rows), rows, 4)(rows) for rows in (dense, sp.csr_array(dense))]
    assert adjusted_rand_index(*(U.argmax(axis=1) for U in found)) > 0.95


def test_columns_are_hard_partitions_of_fitted_objects():
    kind = fitted(X)
    H = kind(X)
    assert H.shape == (300, kind.offsets[-1])
    assert len(kind.offsets) - 1 == graph.GRAPH.n_members
    np.testing.assert_array_equal(H.data, 1.0)
    np.testing.assert_array_equal(H.sum(axis=1), len(kind.offsets) - 1)
    for low, high in zip(kind.offsets[:-1], kind.offsets[1:], strict=True):
        np.testing.assert_array_equal(H[:, low:high].sum(axis=1), 1.0)


def test_groups_are_found_and_new_objects_join_them():
    kind = fitted(X[::2])
    model = read(kind, X[::2], 4)
    assert adjusted_rand_index(model(X[::2]).argmax(axis=1), Y[::2]) > 0.95
    assert adjusted_rand_index(model(X[1::2]).argmax(axis=1), Y[1::2]) > 0.95


def test_columns_of_new_objects_are_shares_that_change_continuously():
    kind = fitted(X)
    along = np.linspace(0.0, 1.0, 2001)[:, None]
    path = (1.0 - along) * X[0] + along * X[np.flatnonzero(Y[0] != Y)[0]]
    H = kind(path).toarray()
    np.testing.assert_allclose(H.sum(axis=1), len(kind.offsets) - 1)
    assert np.abs(np.diff(H, axis=0)).max() < 0.05
    np.testing.assert_array_equal(H[[0]], kind(X[:1]).toarray())


def test_the_order_and_the_type_of_rows_do_not_matter(rng):
    order = rng.permutation(300)
    H = fitted(X)(X).toarray()
    np.testing.assert_array_equal(fitted(X[order])(X).toarray(), H)
    single = X.astype(np.float32)
    found = read(fitted(single), single, 4)(single).argmax(axis=1)
    assert adjusted_rand_index(found, Y) > 0.95


def test_weights_are_copies(rng):
    v = rng.integers(0, 4, size=300)
    copies = np.repeat(X, v, axis=0)
    one, many = fitted(X, weights=v.astype(float)), fitted(copies)
    np.testing.assert_array_equal(one(X).toarray(), many(X).toarray())
    assert len(one.known) == np.count_nonzero(v)


def test_units_of_the_whole_table_do_not_matter():
    H = fitted(X)(X).toarray()
    np.testing.assert_array_equal(fitted(X * 2.0**40)(X * 2.0**40).toarray(), H)


def test_missing_values_and_too_few_objects_give_none():
    holes = X.copy()
    holes[3, 5] = np.nan
    assert fitted(holes) is None
    assert fitted(X[:2]) is None
    assert fitted(np.repeat(X[:2], 50, axis=0)) is None


@pytest.mark.parametrize("n", [3, 5, 12, 27])
def test_few_objects(n):
    kind = fitted(X[:n])
    np.testing.assert_allclose(kind(X).sum(axis=1), len(kind.offsets) - 1)


def test_constant_columns_and_few_features(rng):
    wide = np.hstack([X[:, :2], np.ones((300, 5))])
    assert fitted(wide)(wide).shape[0] == 300


def test_many_objects_without_faiss_are_a_sample(monkeypatch):
    monkeypatch.setattr(graph, "GRAPH", graph.GRAPH._replace(exact=100))
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    kind = fitted(X)
    assert len(kind.known) == 100
    assert adjusted_rand_index(read(kind, X, 4)(X).argmax(axis=1), Y) > 0.95


def test_many_objects_with_faiss_are_all_in_the_graph(monkeypatch):
    pytest.importorskip("faiss")
    distance, index = graph._neighbours(X.astype(np.float32), 10)
    monkeypatch.setattr(graph, "GRAPH", graph.GRAPH._replace(exact=100))
    near, found = graph._neighbours(X.astype(np.float32), 10)
    assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(index, found, strict=True)]) > 9
    assert (found != np.arange(300)[:, None]).all()
    kind = fitted(X)
    assert len(kind.known) == 100
    assert adjusted_rand_index(read(kind, X, 4)(X).argmax(axis=1), Y) > 0.95


def test_pickles_and_model_files(tmp_path):
    kind = fitted(X)
    H = kind(X[:20] + 0.1).toarray()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kind))(X[:20] + 0.1).toarray(), H)
    pytest.importorskip("skops")
    save(kind, tmp_path / "kind")
    np.testing.assert_array_equal(load(tmp_path / "kind")(X[:20] + 0.1).toarray(), H)


def test_digits():
    pixels, own = load_digits(return_X_y=True)
    kind = fitted(pixels)
    found = read(kind, pixels, 10)(pixels).argmax(axis=1)
    assert adjusted_rand_index(found, own) > 0.8


def test_simulated_cells_of_an_unknown_number_of_groups():
    scores, own = simulated_cells(1200, 1.4, seed=0)
    kind = fitted(scores)
    found = memberships(kind, scores)
    assert found.shape[1] in (7, 8)  # the smallest group has 24 of 1200 cells
    assert adjusted_rand_index(found.argmax(axis=1), own) > 0.95
    given = memberships(kind, scores, 8)
    assert adjusted_rand_index(given.argmax(axis=1), own) > 0.95
