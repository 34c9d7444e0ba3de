"""The consensus experiment: its data, its cells, its table."""

import numpy as np
import pytest

from sfumato.experiments import consensus


def write(folder):
    (folder / "house-votes-84.csv").write_text('"Class","V1","V2"\n"democrat","y","n"\n"republican","n","y"\n"democrat",?,"y"\n')
    (folder / "yeast-cell-cycle.csv").write_text("gene,phase,c1,c2\nA,1,0.5,-1\nB,2,1,2\n")


def test_data_come_with_the_library_or_from_a_folder(tmp_path):
    write(tmp_path)
    found = {item.name: item for item in consensus.evidence(tmp_path)}
    assert list(found) == ["iris", "wine", "breast cancer (diagnostic)", "digits", "house votes", "yeast cell cycle"]
    np.testing.assert_array_equal(found["house votes"].X, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(found["yeast cell cycle"].X, [[0.5, -1], [1, 2]])
    assert len(consensus.evidence()) == 4


def test_the_table_has_a_row_for_every_data_set_and_ensemble(monkeypatch):
    monkeypatch.setattr(consensus, "N_PARTITIONS", 8)
    monkeypatch.setattr(consensus, "ENSEMBLES", ("AL", "KM"))
    monkeypatch.setattr(consensus, "evidence", lambda data: consensus_of_iris())
    table = consensus.table(n_seeds=1).table
    assert [row[:2] for row in table.rows] == [("iris", "AL"), ("iris", "KM"), ("mean", "")]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert any("of the cells" in note for note in table.notes)


def consensus_of_iris(load=consensus.evidence):
    return load()[:1]


@pytest.mark.slow
def test_the_probabilistic_consensus_has_the_highest_mean(monkeypatch):
    monkeypatch.setattr(consensus, "N_PARTITIONS", 30)
    monkeypatch.setattr(consensus, "evidence", lambda data, load=consensus.evidence: load()[:2])
    means = [float(value) for value in consensus.table(n_seeds=1).table.rows[-1][2:]]
    assert max(means[:2]) > max(means[2:])
