"""The held-out comparison, on two splits.

Ours above both rivals where the class hides in little variance.
"""

import numpy as np

from sfumato.papers import Shelf, discriminative
from sfumato.papers.shelf import Loaded


def test_the_table_has_every_method_and_ours_is_ahead(monkeypatch):
    monkeypatch.setattr(
        discriminative,
        "data_sets",
        lambda shelf: {"vehicle": discriminative.simulated_vehicle(n=300)},
    )
    table = discriminative.table(Shelf(), n_seeds=2).table
    assert [row[1] for row in table.rows] == ["discriminative", "k-means", "mixture per class"]
    ours, *rivals = (float(row[5].split("±")[0]) for row in table.rows)
    assert ours > max(rivals)


def test_the_vehicle_data_are_what_they_say():
    X, c = discriminative.simulated_vehicle()
    assert X.shape == (846, 18)
    assert set(c) == {0, 1, 2, 3}
    assert X[:, 5:].var() > 2 * X[:, :5].var()


def test_vehicles_are_simulated_only_where_there_are_none(monkeypatch):
    assert list(discriminative.data_sets(Shelf()))[-1] == "vehicle (simulated)"
    monkeypatch.setattr(Shelf, "find", lambda shelf, name: Loaded(np.ones((2, 18)), np.arange(2)))
    assert list(discriminative.data_sets(Shelf()))[-1] == "vehicle"
