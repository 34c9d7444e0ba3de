"""The papers' experiments: they run, name their inputs, and put published beside measured."""

import numpy as np
import pytest

from sfumato import papers
from sfumato.papers import similarity, spectral
from sfumato.papers.shelf import ResultTable, mean_and_deviation
from sfumato.similarity.learn import spectral_cost


def test_tables_as_markdown_and_csv():
    table = ResultTable("A title", ("a", "b|c"), [("1", "x"), ("2", "y,z")], ("a note",))
    assert (
        table.markdown()
        == "## A title\n\n| a | b\\|c |\n| --- | --- |\n| 1 | x |\n| 2 | y,z |\n\n- a note\n"
    )
    assert table.csv() == 'a,b|c\n1,x\n2,"y,z"\n'


def test_mean_and_deviation_as_the_sources_print_it():
    assert mean_and_deviation([0.5, 0.7]) == ".600±.100"
    assert mean_and_deviation([1.0, 1.0]) == "1.000±.000"
    assert mean_and_deviation([-0.4, -0.6]) == "-.500±.100"
    assert mean_and_deviation([10.0, 10.2]) == "10.100±.100"


def test_the_s_block_rule_on_the_row_stochastic_matrix():
    item = next(similarity.evidence(papers.Shelf()))
    assert item.W.shape == (100, 100)
    labels = similarity.published_rule(similarity.row_stochastic(item.W, 5), 5, 0)
    assert labels.shape == (100,)


def test_partition_cost_against_the_matrices(rng):
    W = rng.random((15, 15)) + np.kron(np.eye(3), 2 * np.ones((5, 5)))
    W = W + W.T
    labels = np.repeat(np.arange(3), 5)
    degree = W.sum(axis=1)
    E = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)))[1][:, -3:]
    D = np.eye(3)[labels] * np.sqrt(degree)[:, None]
    D /= np.linalg.norm(D, axis=0)
    assert spectral_cost(W, labels)[0] == pytest.approx(np.square(E @ E.T - D @ D.T).sum() / 2)


@pytest.mark.parametrize("name", ["similarity-figures", "mixture-steps"])
def test_figures_are_drawn(name):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    outcome = papers.run(name, n_seeds=2)
    assert outcome.figures
    for file, figure in outcome.figures.items():
        assert file.endswith(".png")
        figure.canvas.draw()
        matplotlib.pyplot.close(figure)


@pytest.mark.slow
def test_the_similarity_table_names_its_inputs():
    table = papers.run("similarity-table", n_seeds=1).table
    assert {row[0] for row in table.rows} == {"S-Block", "Iris", "Digits", "Scop"}
    assert all(row[3] and row[5] for row in table.rows)


def test_unknown_experiments_are_named():
    with pytest.raises(ValueError, match="similarity-table"):
        papers.run("nothing")


def test_files_of_ones_own_become_rows(tmp_path, rng):
    W = rng.random((12, 12)) * 0.1 + np.kron(np.eye(3), np.ones((4, 4)))
    labels = np.repeat(["a", "b", "c"], 4)
    np.savetxt(tmp_path / "scop-similarity.csv", W, delimiter=",")
    np.savetxt(tmp_path / "scop-labels.csv", labels, fmt="%s")
    np.savetxt(tmp_path / "mine-features.csv", rng.normal(size=(12, 2)), delimiter=",")
    np.savetxt(tmp_path / "mine-labels.csv", labels, fmt="%s")
    np.savetxt(tmp_path / "alone-features.csv", np.ones((3, 2)), delimiter=",")
    found = {item.name: item for item in similarity.evidence(papers.Shelf(tmp_path))}
    assert {"Scop", "mine"} <= set(found)
    assert "alone" not in found
    np.testing.assert_allclose(found["Scop"].W, (W + W.T) / 2)
    assert found["mine"].W.shape == (12, 12)


def test_files_of_ones_own_that_do_not_fit_are_named(tmp_path):
    np.savetxt(tmp_path / "odd-similarity.csv", np.ones((3, 2)), delimiter=",")
    np.savetxt(tmp_path / "odd-labels.csv", [0, 1, 1], fmt="%d")
    with pytest.raises(ValueError, match="odd-similarity.csv has shape"):
        list(papers.Shelf(tmp_path).own())


def test_cluster_kernels_need_fewer_labels_than_the_plain_kernel():
    y = np.repeat([0, 1], 60)
    moons = np.random.default_rng(0).normal(scale=0.1, size=(120, 2)) + 3 * y[:, None]
    kernels = dict(spectral._kernels(moons, 2))
    accuracy = {
        name: np.mean([spectral._machine_accuracy(K, y, 5, seed) for seed in range(3)])
        for name, K in kernels.items()
    }
    assert set(accuracy) == {"plain", "linear", "step", "linear-step", "polynomial", "poly-step"}
    assert accuracy["step"] > 0.95


def test_learnt_scales_ignore_irrelevant_features():
    from sklearn.datasets import make_moons

    equal, learnt = spectral._one(make_moons, 4, 0)
    assert learnt > equal
    assert learnt > 0.9
