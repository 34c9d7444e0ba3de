"""The held-out comparison, on two splits: ours above both rivals where the class hides in little variance."""

from sfumato.experiments import discriminative


def test_the_table_has_every_method_and_ours_is_ahead(monkeypatch):
    monkeypatch.setattr(discriminative, "data_sets", lambda: {"vehicle": discriminative.vehicle(n=300)})
    table = discriminative.table(n_seeds=2).table
    assert [row[1] for row in table.rows] == list(discriminative.METHODS)
    ours, *rivals = (float(row[5].split("±")[0]) for row in table.rows)
    assert ours > max(rivals)


def test_the_vehicle_data_are_what_they_say():
    X, c = discriminative.vehicle()
    assert X.shape == (846, 18)
    assert set(c) == {0, 1, 2, 3}
    assert X[:, 5:].var() > 2 * X[:, :5].var()
