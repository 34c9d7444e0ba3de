"""The consensus experiment: its data, its cells, its table."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from sfumato.metrics import adjusted_rand_index
from sfumato.papers import Shelf, consensus


def test_data_come_with_the_library_or_from_a_folder(tmp_path):
    (tmp_path / "yeast-cell-cycle.csv").write_text("gene,phase,c1,c2\nA,1,0.5,-1\nB,2,1,2\n")
    found = consensus.evidence(Shelf(tmp_path))
    assert list(found) == [
        "iris",
        "wine",
        "breast cancer (diagnostic)",
        "digits",
        "image-complex (simulated)",
        "yeast cell cycle",
    ]
    np.testing.assert_array_equal(found["yeast cell cycle"].X, [[0.5, -1], [1, 2]])
    assert len(consensus.evidence(Shelf())) == 5


def test_the_table_has_a_row_for_every_data_set_and_ensemble(monkeypatch):
    monkeypatch.setattr(consensus, "evidence", lambda shelf: consensus_of_iris(shelf))
    table = consensus.table(Shelf(), n_seeds=1, n_members=8, ensembles=("AL", "KM")).table
    assert [row[:2] for row in table.rows] == [("iris", "AL"), ("iris", "KM"), ("mean", "")]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert any("of the cells" in note for note in table.notes)
    assert sum("left out" in note for note in table.notes) == 3


def consensus_of_iris(shelf, load=consensus.evidence):
    return {"iris": load(shelf)["iris"]}


@pytest.mark.slow
def test_the_probabilistic_consensus_has_the_highest_mean(monkeypatch):
    both = {name: consensus.evidence(Shelf())[name] for name in ("iris", "wine")}
    monkeypatch.setattr(consensus, "evidence", lambda shelf: both)
    table = consensus.table(Shelf(), n_seeds=1, n_members=30).table
    means = [float(value) for value in table.rows[-1][2:]]
    assert max(means[:2]) > max(means[2:])


def test_the_image_has_groups_that_lie_apart_and_that_centers_do_not_find():
    X, labels = consensus.simulated_image()
    assert np.bincount(labels).tolist() == [120, 60, 90, 90, 100, 60, 80, 40]
    D = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(D, np.inf)
    assert (labels[D.argmin(axis=1)] == labels).mean() > 0.99
    found = KMeans(8, n_init=10, random_state=0).fit_predict(X)
    assert adjusted_rand_index(labels, found) < 0.8
