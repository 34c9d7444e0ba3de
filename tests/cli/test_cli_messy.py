"""Five messy tables go from file to report with no option given, as well as a careful user
would.
"""

import csv
import json

import numpy as np
import pytest
from messy import TABLES
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from sfumato.cli import main


def careful(table):
    """Best agreement of k-means and a mixture of scikit-learn on standardised clean numbers."""
    k, X = len(np.unique(table.groups)), StandardScaler().fit_transform(table.clean)
    found = [
        KMeans(k, n_init=10, random_state=0).fit_predict(X),
        GaussianMixture(k, n_init=5, random_state=0, reg_covar=1e-3).fit_predict(X),
    ]
    return max(adjusted_rand_score(table.groups, labels) for labels in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_from_file_to_report(name, tmp_path, monkeypatch, capsys, drawn):
    monkeypatch.chdir(tmp_path)
    table = TABLES[name]()
    (tmp_path / "t.csv").write_text(table.text, encoding="utf-8")
    assert main(["fit", "t.csv"]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    summary = json.loads((tmp_path / "sfumato-result" / "summary.json").read_text())
    fields = {how["name"]: how["used"] for how in summary["input"]["fields"]}
    assert {column for column, used in fields.items() if not used} == table.aside
    with open("sfumato-result/memberships.csv") as file:
        labels = [int(row[1]) for row in list(csv.reader(file))[1:]]
    reached = adjusted_rand_score(table.groups, labels)
    print(
        name, summary["model"], summary["n_clusters"], round(reached, 3), round(careful(table), 3)
    )
    assert reached >= careful(table) - 1e-9
    page = (tmp_path / "sfumato-result" / "report.html").read_text(encoding="utf-8")
    assert "What the clusters are" in page
    assert summary["clusters"][0]["sentence"] in out
    for note in summary["input"]["notes"]:
        assert f"sfumato: {note}" in err
