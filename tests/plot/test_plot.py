"""Pictures show the numbers they were given, at any size, with any names."""

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

matplotlib.use("Agg")
from matplotlib.figure import Figure

from sfumato import FuzzyCMeans, GaussianMixture, plot
from sfumato.plot._objects import literal, ordering, thin
from sfumato.selection import choose_n_clusters

HOSTILE = [
    "$\\frac{$",
    "</script><script>alert(1)</script>",
    "[/]",
    "=cmd()",
    "a$b$c",
    "x" * 300,
    "line\nbreak",
    "\u202etxt.exe",
    "\\$",
]


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def soft(n, k, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.4), size=n)


def draw(ax):
    ax.figure.savefig("/dev/null", format="png", dpi=40)


def test_memberships_image_holds_the_numbers_in_cluster_order(ax):
    U = soft(30, 3)
    plot.memberships(U, ax=ax)
    image = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(image[..., 3], U[ordering(U)].T)
    assert np.all(np.diff(U[ordering(U)].argmax(axis=1)) >= 0)


def test_order_is_a_permutation_with_one_hill_per_cluster():
    U = soft(200, 4)
    order = ordering(U)
    assert sorted(order) == list(range(200))
    for cluster in range(4):
        own = U[order][U[order].argmax(axis=1) == cluster, cluster]
        turns = np.flatnonzero(np.diff(np.sign(np.diff(own))) > 0)
        assert len(turns) == 0


def test_many_objects_become_block_means(ax):
    U = soft(5000, 3)
    plot.profiles(U, ordered=False, ax=ax)
    curve = ax.lines[0].get_ydata()
    assert len(curve) == 1200
    assert abs(curve.mean() - U[:, 0].mean()) < 1e-3
    np.testing.assert_allclose(thin(U, 1000), U.reshape(1000, 5, 3).mean(axis=1))


def test_simplex_puts_certain_objects_at_the_corners(ax):
    plot.simplex(np.eye(3), ax=ax)
    np.testing.assert_allclose(
        ax.collections[0].get_offsets(), [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]]
    )
    with pytest.raises(ValueError, match="three clusters, got 4"):
        plot.simplex(soft(5, 4), ax=ax)


def test_scatter_blends_colours_and_fades_the_uncertain(ax):
    plot.scatter(np.zeros((3, 2)), [[1, 0], [0, 1], [0.5, 0.5]], ax=ax)
    colours = ax.collections[0].get_facecolors()
    np.testing.assert_allclose(colours[:2, :3], plot.palette(2), atol=1e-6)
    assert colours[2, 3] < colours[0, 3]
    with pytest.raises(ValueError, match="two coordinates for each of the 2 objects"):
        plot.scatter(np.zeros((2, 5)), [[1, 0], [0, 1]], ax=ax)


def test_uncertainty_counts_every_object_once(ax):
    U = np.vstack([soft(97, 3), np.eye(3), np.full((1, 3), 1 / 3)])
    plot.uncertainty(U, ax=ax)
    assert sum(bar.get_height() for bar in ax.patches) == len(U)


@pytest.mark.parametrize("n", [7, 60])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, aslinearoperator])
def test_block_means_equal_the_slow_means_for_any_kind_of_matrix(n, form):
    rng = np.random.default_rng(1)
    W = rng.random((n, n))
    W = W + W.T
    U = soft(n, 3)
    order = ordering(U)
    b = min(n, 20)
    group = np.arange(n) * b // n
    slow = [
        [W[np.ix_(order[group == i], order[group == j])].mean() for j in range(b)] for i in range(b)
    ]
    np.testing.assert_allclose(plot.block_means(form(W), U, blocks=20), slow)


def test_reconstruction_is_the_block_mean_of_the_product(ax):
    U = soft(50, 3)
    plot.reconstruction(U, 2.0, blocks=10, ax=ax)
    np.testing.assert_allclose(
        np.asarray(ax.images[0].get_array()), plot.block_means(2 * U @ U.T, U, blocks=10)
    )


def test_similarity_of_many_objects_never_becomes_dense(ax):
    n = 30_000
    plot.similarity(sp.eye_array(n, format="csr"), blocks=50, ax=ax)
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), np.eye(50) / (n / 50))


def test_contingency_writes_every_count(ax):
    plot.contingency([[48, 2], [3, 47]], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["48", "2", "3", "47"]


def test_curves_hold_what_they_were_given(ax):
    plot.calibration([0.1, np.nan, 0.9], [0.2, np.nan, 0.8], [4, 0, 6], ax=ax)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [[0.1, 0.2], [0.9, 0.8]])
    other = Figure().subplots()
    plot.selection([2, 3, 4], [0.1, 0.3, 0.2], spread=[0.1, 0.1, 0.1], chosen=3, ax=other)
    np.testing.assert_allclose(other.lines[0].get_ydata(), [0.1, 0.3, 0.2])
    np.testing.assert_allclose(other.lines[1].get_xdata(), [3, 3])
    other = Figure().subplots()
    plot.history([5.0, 2.0, 1.0], ax=other)
    np.testing.assert_allclose(other.lines[0].get_xydata(), [[1, 5], [2, 2], [3, 1]])
    other = Figure().subplots()
    plot.information([1.0, 0.0], [0.5, 0.0], ax=other)
    np.testing.assert_allclose(other.lines[0].get_xydata(), [[0, 0], [1, 0.5]])
    with pytest.raises(ValueError, match="two lists of one length"):
        plot.information([1.0], [0.5, 0.0], ax=other)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_literally(name, ax):
    U = soft(9, 3)
    plot.memberships(U, names=[name, "b", "c"], ax=ax)
    draw(ax)
    for function in (plot.simplex, plot.profiles, plot.uncertainty):
        draw(function(U, names=[name, "b", "c"], ax=Figure().subplots()))
    draw(plot.scatter(np.zeros((9, 2)), U, axis_names=[name, name], ax=Figure().subplots()))
    draw(
        plot.contingency(
            np.eye(2),
            row_names=[name, "b"],
            column_names=[name, "b"],
            row_title=name,
            ax=Figure().subplots(),
        )
    )
    draw(plot.history([1.0, 2.0], name=name, ax=Figure().subplots()))


def test_dollars_are_shown_not_parsed():
    text = Figure().text(0, 0, literal("$\\frac{$"))
    assert text._preprocess_math(text.get_text()) == ("$\\frac{$", False)


@pytest.mark.parametrize("k", [1, 2, 8, 9, 40])
def test_any_number_of_clusters(k):
    U = soft(50, k)
    assert len(np.unique(plot.palette(k).round(3), axis=0)) == k
    for function in (plot.memberships, plot.profiles, plot.uncertainty):
        draw(function(U, ax=Figure().subplots()))
    draw(plot.scatter(np.zeros((50, 2)), U, ax=Figure().subplots()))


@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**31))
def test_histogram_and_order_of_any_memberships(n, k, seed):
    U = soft(n, k, seed)
    axes = plot.uncertainty(U, ax=Figure().subplots())
    assert sum(bar.get_height() for bar in axes.patches) == n
    assert sorted(ordering(U)) == list(range(n))


def test_wrong_names_and_memberships_are_refused():
    with pytest.raises(ValueError, match="3 names of clusters"):
        plot.memberships(soft(5, 3), names=["a"], ax=Figure().subplots())
    with pytest.raises(ValueError, match="sum to 1"):
        plot.memberships([[0.5, 0.1]], ax=Figure().subplots())


def test_selection_takes_a_choice():
    from sfumato import GaussianMixture
    from sfumato.selection import choose_n_clusters

    X = np.concatenate([np.random.default_rng(0).normal(m, 0.3, size=(30, 2)) for m in (0, 5)])
    choice = choose_n_clusters(GaussianMixture(random_state=0), X, [1, 2, 3], criterion="bic")
    ax = plot.selection(choice)
    line = ax.lines[0]
    np.testing.assert_allclose(line.get_ydata(), [row.score for row in choice.table])
    assert (ax.get_ylabel(), ax.get_legend().texts[0].get_text()) == (
        "minus BIC (higher is better)",
        "chosen: 2",
    )
    with pytest.raises(ValueError, match="needs scores"):
        plot.selection([1, 2, 3])


def test_contingency_takes_labels_and_memberships():
    labels, U = ["a", "b", "a"], np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    ax = plot.contingency(labels, U)
    assert [text.get_text() for text in ax.texts] == ["1.4", "0.6", "0.2", "0.8"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    hard = plot.contingency(labels, [0, 1, 0])
    assert [text.get_text() for text in hard.texts] == ["2", "0", "0", "1"]
    with pytest.raises(ValueError, match="one label for each of 3 objects"):
        plot.contingency(["a"], U)
    with pytest.raises(ValueError, match=r"contingency\(labels, memberships\)"):
        plot.contingency(labels)


MACHADO = {  # simulations of full colour blindness, in linear light (Machado et al. 2009)
    "none": np.eye(3),
    "red": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "green": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "blue": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@pytest.mark.parametrize("sight", MACHADO)
def test_twelve_colours_can_be_told_apart(sight):
    colours = plot.palette(12)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(MACHADO[sight]), 0, 1)
    rgb_to_xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    scaled = seen @ np.transpose(rgb_to_xyz) / [0.9505, 1.0, 1.0888]
    f = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    lab = np.column_stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])]
    )
    gaps = np.linalg.norm(lab[:, None] - lab, axis=-1)
    assert gaps[~np.eye(12, dtype=bool)].min() > 17


def test_cluster_numbers_are_bars_of_probability():
    ax = plot.cluster_numbers({3: 0.9, 2: 0.1}, chosen=3, ax=Figure().subplots())
    assert [bar.get_height() for bar in ax.patches] == [0.1, 0.9]
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()


def test_weights_count_as_copies():
    U = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
    rows, labels = np.array([0, 0, 2, 2, 2]), np.array(["a", "b", "b"])
    heights = [
        [
            bar.get_height()
            for bar in plot.uncertainty(V, sample_weight=w, ax=Figure().subplots()).patches
        ]
        for V, w in ((U, [2, 0, 3]), (U[rows], None))
    ]
    assert heights[0] == heights[1]
    written = [
        {
            text.get_text()
            for text in plot.contingency(c, V, sample_weight=w, ax=Figure().subplots()).texts
        }
        for c, V, w in ((labels, U, [2, 0, 3]), (labels[rows], U[rows], None))
    ]
    assert written[0] == written[1]


def test_a_choice_and_a_model_are_drawn_as_they_are():
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([0, 9], 30)[:, None]
    model = GaussianMixture([1, 2], n_init=1, random_state=0).fit(X)
    choice = choose_n_clusters(model, X, [1, 2], random_state=0)
    bars = plot.cluster_numbers(choice).patches
    assert [bar.get_height() for bar in bars] == [choice.distribution[k] for k in (1, 2)]
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    assert plot.model_search(model).get_ylabel() == plot.model_search(model.search_).get_ylabel()


@pytest.mark.parametrize("wrong", [None, [], "a", 3])
def test_what_is_not_drawn_is_named(wrong):
    with pytest.raises(TypeError, match="search must be a fitted mixture"):
        plot.model_search(wrong)
    with pytest.raises(TypeError, match="distribution must be a mapping"):
        plot.cluster_numbers(wrong)
    if wrong != []:
        with pytest.raises(TypeError, match="objective must be a list of numbers"):
            plot.history(wrong)


def test_the_number_of_colours_is_checked():
    with pytest.raises(TypeError, match="n_clusters must be an integer, got 'a'"):
        plot.palette("a")


def test_branches_of_levels_are_as_wide_as_their_share_and_nest():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], [40, 20, 20], axis=0) + rng.normal(size=(80, 2))
    model = FuzzyCMeans(3, random_state=0).fit(X)
    ax = plot.levels(model, ax=Figure().subplots())
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(3, 3)
    np.testing.assert_allclose(widths, np.tile(model.memberships_.mean(axis=0), (3, 1)))
    left = np.array([bar.get_x() for bar in ax.patches]).reshape(3, 3)
    order = left[0].argsort()
    np.testing.assert_allclose(np.diff(left[0][order]), widths[0][order][:-1])  # one cluster
    assert (np.diff(left[2][order]) > widths[0][order][:-1]).all()  # three of them
    texts = [text.get_text() for text in ax.texts]
    assert texts[2].startswith("3  (")
    assert "\N{BLACK RIGHT-POINTING TRIANGLE}" in texts[2]
    draw(ax)


def test_levels_need_a_fitted_clusterer():
    with pytest.raises(TypeError, match="levels_, got ndarray"):
        plot.levels(np.eye(3))
