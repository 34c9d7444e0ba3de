import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.decomposition import PCA

from sfumato.array.arrays import native
from sfumato.engine.structure import discriminating_coordinates, leading_coordinates, valleys


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def slow_depth(Y, labels, m):
    """The formula of the module, one object and one edge at a time."""
    n, q = Y.shape
    gaps = np.linalg.norm(Y[:, None] - Y[None], axis=2)
    radius = np.sort(gaps, axis=1)[:, m]
    borders = ({}, {})  # of every object of either side, the distances half-way along its edges
    for i in range(n):
        for j in np.argsort(gaps[i])[1 : m + 1]:
            if labels[i] != labels[j]:
                middle = np.sort(np.linalg.norm(Y - (Y[i] + Y[j]) / 2, axis=1))[m - 1]
                for end in (i, j):
                    borders[labels[end]].setdefault(end, []).append(middle)
    fewer = min(borders, key=len)
    inside = max(np.median(radius[labels == c]) for c in (0, 1))
    border = np.median([np.median(own) for own in fewer.values()])
    return np.sqrt(m) * q * (np.log(border) - np.log(inside))


def test_depth_equals_the_slow_loop(rng):
    Y = rng.normal(size=(100, 2))
    labels = (Y[:, 0] > 0).astype(int)
    found = valleys(Y, labels)
    np.testing.assert_array_equal(found.pairs, [[0, 1]])
    assert found.z[0] == pytest.approx(slow_depth(Y, labels, 8))


def test_a_gap_is_deep_and_a_cut_is_not(rng):
    cloud = rng.random((300, 2))
    cut = (cloud[:, 0] > 0.5).astype(int)
    apart = rng.normal(size=(300, 2)) + 3 * cut[:, None]
    assert valleys(cloud, cut).z[0] < 1.5 < 2 < valleys(apart, cut).z[0]
    far = valleys(rng.normal(size=(300, 2)) + 50 * cut[:, None], cut)
    assert len(far.z) == len(far.pairs) == 0


def test_strays_are_no_border_and_small_clusters_have_few_neighbours(rng):
    far = np.array([[9.0, 0.0]])
    Y = np.concatenate([rng.normal(size=(150, 2)), rng.normal(size=(60, 2)) + far])
    labels = np.repeat([0, 1], [150, 60])
    labels[[0, 1, 2]] = 1  # three objects of the first group
    assert len(valleys(Y, labels).z) == 0
    labels[:20] = 1
    assert valleys(Y, labels).z[0] < 0
    small = np.concatenate([rng.normal(size=(270, 2)), rng.normal(size=(30, 2)) + 0.8 * far])
    assert valleys(small, np.repeat([0, 1], [270, 30])).z.min(initial=9) > 1


def test_a_cut_through_a_thread_is_a_border(rng):
    thread = np.sort(rng.random(400))[:, None]
    found = valleys(thread, np.repeat([0, 1], 200))
    assert len(found.z) == 1
    assert found.z[0] < 1.5


def test_pieces_of_a_cluster_are_counted(rng):
    group = np.repeat([0, 1, 2], 60)
    Y = rng.normal(size=(180, 2)) + 30 * np.eye(3)[group][:, :2]
    np.testing.assert_array_equal(valleys(Y, (group == 2).astype(int)).pieces, [2, 1])
    np.testing.assert_array_equal(valleys(Y, group).pieces, [1, 1, 1])


def test_coordinates_do_not_depend_on_a_linear_map(rng):
    X = rng.normal(size=(80, 3))
    labels = (X[:, 0] > 0).astype(int)
    X = X - X.mean(axis=0)
    one = discriminating_coordinates(X, labels)
    other = discriminating_coordinates(X @ rng.normal(size=(3, 3)), labels)
    gaps = [np.linalg.norm(Y[:, None] - Y[None], axis=2) for Y in (one, other)]
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=0.05)
    assert discriminating_coordinates(rng.normal(size=(80, 9)), labels).shape == (80, 2)


@pytest.mark.parametrize("shape", [(60, 20), (30, 80)])
def test_leading_coordinates_are_principal(rng, shape):
    X = rng.normal(size=shape)
    found = leading_coordinates(X)
    expected = PCA(10, svd_solver="full", whiten=True).fit_transform(X)
    expected /= expected.std(axis=0)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    constant = np.column_stack([np.ones(50), np.arange(50.0)])
    assert leading_coordinates(constant).shape == (50, 1)


@pytest.mark.parametrize("n, q, k", [(60, 1, 2), (150, 2, 3), (500, 4, 5), (333, 3, 4)])
def test_the_graph_of_neighbours_equals_that_of_the_tree(rng, n, q, k):
    """Distances, parts and borders, with copies of objects too."""
    labels = rng.integers(k, size=n)
    Y = rng.normal(size=(n, q)) + 3.0 * rng.normal(size=(k, q))[labels]
    Y[5:9], labels[5:9] = Y[4], labels[4]
    labels[:3] = (labels[:3] + 1) % k  # some strays
    tree = cKDTree(Y)
    distances, found = native("neighbours").neighbours(tree.data, tree.indices, 7)
    np.testing.assert_allclose(distances, tree.query(Y, 8)[0][:, 1:], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(Y[:, None] - Y[found], axis=2), distances, atol=1e-12)
    assert (found != np.arange(n)[:, None]).all()
    parts, edges = native("neighbours").connected_pieces(found, labels)
    i, j = np.repeat(np.arange(n), 7), found.ravel()
    same = labels[i] == labels[j]
    np.testing.assert_array_equal(edges, [i[~same], j[~same]])
    graph = sp.csr_array((np.ones(same.sum()), (i[same], j[same])), shape=(n, n))
    expected = connected_components(graph, directed=False)[1]
    np.testing.assert_array_equal(parts[:, None] == parts, expected[:, None] == expected)


def test_the_search_for_neighbours_takes_what_is_there(rng):
    search = native("neighbours").neighbours
    with pytest.raises(ValueError, match="m must lie"):
        search(rng.normal(size=(4, 2)), np.arange(4), 4)
    distances, _ = search(np.zeros((40, 2)), np.arange(40), 5)
    assert (distances == 0).all()
    broken = rng.normal(size=(40, 2))
    broken[3] = np.nan
    search(broken, np.arange(40), 39)
