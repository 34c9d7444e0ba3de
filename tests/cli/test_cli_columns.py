"""From a messy table to a result: what is scaled, set aside and encoded, and said."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from sfumato.io.results import load


@pytest.fixture
def wine(tmp_path):
    data = load_wine()
    with (tmp_path / "wine.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["bottle_id", *data.feature_names])
        writer.writerows([500 + 2 * i, *row] for i, row in enumerate(data.data))
    return data.target


def clusters(text):
    return [row[1] for row in csv.reader(text.splitlines())][1:]


def summary():
    with open("r/summary.json") as file:
        return json.load(file)


def scaling():
    return load(Path("r/model.skops"))._scaling


def test_units_do_not_decide(run, wine):
    code, _, err = run("fit", "wine.csv", "-m", "fcm", "-k", 3, "-o", "r")
    assert code == 0, err
    assert "columns are standardised, because their spreads differ" in err
    with open("r/memberships.csv") as file:
        fitted = file.read()
    assert adjusted_rand_score(wine, clusters(fitted)) > 0.85
    held = summary()["input"]
    assert (scaling()["kind"], held["id_column"]) == ("standard", "bottle_id")
    assert any("standardised" in note for note in held["notes"])
    code, out, err = run("predict", "r", "wine.csv")
    assert (code, clusters(out)) == (0, clusters(fitted))
    assert out.splitlines()[1].startswith("500,")


def test_the_scale_can_be_said(run, wine):
    assert run("fit", "wine.csv", "-m", "fcm", "-k", 3, "-o", "r", "--scale", "none")[0] == 0
    with open("r/memberships.csv") as file:
        assert adjusted_rand_score(wine, clusters(file.read())) < 0.5
    assert scaling()["kind"] == "none"
    robust = run("fit", "wine.csv", "-m", "fcm", "-k", 3, "-o", "q", "--scale", "robust")
    assert (robust[0], "scaled (robust)" in robust[2]) == (0, True)
    code, _, err = run("fit", "wine.csv", "--scale", "magic")
    assert (code, "--scale must be one of auto, standard, robust, none" in err) == (2, True)


def test_a_mixture_needs_no_scaling(run, wine):
    code, _, err = run(
        "fit", "wine.csv", "-m", "gmm", "-k", 3, "-o", "r", "--columns", "hue,proline"
    )
    assert (code, "standardised" in err) == (0, False)
    assert summary()["model"] == "gaussian-mixture"
    assert summary()["input"]["columns"] == ["hue", "proline"]


def test_arrays_and_components_keep_their_scale(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [100, 10, 1]
    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "pc.csv", X, delimiter=",", header="PC1,PC2,PC3", comments="")
    for file in ("x.npy", "pc.csv"):
        code, _, err = run("fit", file, "-m", "fcm", "-k", 2, "-o", "r", "--force")
        assert (code, "-fold and are left as they are" in err) == (0, True)
        assert scaling()["kind"] == "none"


def test_categories_count_as_one_number_and_new_ones_are_said(run, tmp_path):
    rng = np.random.default_rng(1)
    kind = np.arange(60) % 3
    lines = [f"{'abc'[k]},{x:.3f}" for k, x in zip(kind, rng.normal(size=60), strict=True)]
    (tmp_path / "t.csv").write_text("kind,x\n" + "\n".join(lines))
    code, _, err = run("fit", "t.csv", "-m", "fcm", "-k", 3, "-o", "r")
    assert code == 0, err
    assert "categories: 'kind' (3 categories)" in err
    scale = scaling()["scale"]
    assert len(set(scale[:3])) == 1
    assert scale[0] == pytest.approx(np.sqrt(2 / 3))
    (tmp_path / "new.csv").write_text("kind,x\na,0.1\nz,0.1\n,0.1\n")
    code, out, err = run("predict", "r", "new.csv")
    assert (code, "column 'kind': never seen before: z" in err) == (0, True)
    rows = [row.split(",")[3:] for row in out.splitlines()[1:]]
    assert rows[1] == rows[2] != rows[0]


def test_inspect_and_fit_say_the_same(run, tmp_path):
    rows = [f"{i},{'ab'[i % 2]},{i % 7}.5 %,2020-01-{i + 1:02d}" for i in range(20)]
    (tmp_path / "t.csv").write_text("user_id,kind,rate,day\n" + "\n".join(rows))
    facts = json.loads(run("inspect", "t.csv", "--json")[1])
    code, _, err = run("fit", "t.csv", "-m", "fcm", "-k", 2)
    assert code == 0, err
    assert facts["ids"] == "user_id"
    assert f"set aside: {facts['set aside']}" in err
    assert "'day'" in facts["set aside"]
    assert "'rate' (read without %)" in facts["numbers"]


def test_inspect_counts_the_columns_of_the_file(run, tmp_path):
    regions = ["North", "South", "East", ""]
    rows = [f"{100 + i},{i % 7}.5,{regions[i % 4]},{'' if i == 3 else i % 5}" for i in range(40)]
    (tmp_path / "t.csv").write_text("id,x,region,y\n" + "\n".join(rows))
    facts = json.loads(run("inspect", "t.csv", "--json")[1])
    assert facts["columns"] == 4
    assert facts["column names"] == "'id', 'x', 'region', 'y'"
    assert facts["missing cells"] == 10 + 1
    np.save(tmp_path / "t.npy", [[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    facts = json.loads(run("inspect", "t.npy", "--json")[1])
    assert (facts["columns"], facts["missing cells"]) == (2, 1)


def test_what_is_done_to_a_missing_category_is_said(run, tmp_path):
    rows = [f"{i % 7}.5,{['a', 'b', ''][i % 3]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("x,kind\n" + "\n".join(rows))
    sampler = ("-m", "dirichlet-process", "--set", "inference=gibbs", "--set", "n_draws=4")
    code, _, err = run("fit", "t.csv", *sampler, "-o", "r")
    assert code == 0, err
    assert "(a category with the shares of its levels)" in err
    assert "gaussian-mixture and mixed-mixture use them as they are" in err
    assert scaling()["fill"][1:] == pytest.approx([14 / 27, 13 / 27])


def test_predict_names_what_a_new_table_lacks_and_how_to_mend_it(run, tmp_path):
    rows = "\n".join(f"{i % 7}.5,{i % 5}.25,{i % 3}.75" for i in range(40))
    (tmp_path / "t.csv").write_text("x,y,z\n" + rows)
    assert run("fit", "t.csv", "-m", "fcm", "-k", 2, "-o", "r")[0] == 0
    (tmp_path / "few.csv").write_text("z,other\n1,2\n3,4\n")
    code, _, err = run("predict", "r", "few.csv")
    assert (code, "the model's columns 'x', 'y' are not in the table: it has 'z'" in err) == (
        2,
        True,
    )
    (tmp_path / "bad.csv").write_text("x,y,z\n1,2,3\nbad,2,3\n1,3,5\n")
    code, _, err = run("predict", "r", "bad.csv")
    assert (code, "--drop" in err, "leave the cells empty" in err) == (2, False, True)
    (tmp_path / "empty.csv").write_text("x,y,z\n1,2,3\n,2,3\n1,3,5\n")
    assert run("predict", "r", "empty.csv")[0] == 0


def flowers(path, *, species=True, header="sepal_length,sepal_width,petal_length,petal_width"):
    data = load_iris()
    rows = [
        ",".join([*map(str, row), *([data.target_names[kind]] if species else [])])
        for row, kind in zip(data.data, data.target, strict=True)
    ]
    path.write_text("\n".join([header + ",species" * species, *rows]))
    return data


@pytest.mark.parametrize("model", [("-m", "mixed-mixture"), ("-m", "fcm")])
def test_new_objects_without_a_category_have_it_missing(run, tmp_path, model):
    flowers(tmp_path / "flowers.csv")
    code, _, err = run("fit", "flowers.csv", *model, "-k", 3, "-o", "r")
    assert code == 0, err
    assert "numbers: 'sepal_length', 'sepal_width', 'petal_length', 'petal_width'" in err
    assert "categories: 'species' (3 categories)" in err
    assert "--class-column species only compares the clusters with it" in err
    data = flowers(tmp_path / "new.csv", species=False)
    code, without, err = run("predict", "r", "new.csv")
    assert code == 0, err
    assert "warning: column 'species': not in this table, taken as missing" in err
    assert "--drop" in err
    rows = (tmp_path / "new.csv").read_text().splitlines()
    lines = [f"{rows[0]},species", *(f"{row}," for row in rows[1:])]
    (tmp_path / "empty.csv").write_text("\n".join(lines))
    assert without == run("predict", "r", "empty.csv")[1]
    assert adjusted_rand_score(data.target, clusters(without)) > 0.6


def test_known_classes_kept_aside_are_not_asked_of_new_objects(run, tmp_path):
    flowers(tmp_path / "flowers.csv")
    words = ("fit", "flowers.csv", "-m", "gmm", "-k", 3, "--class-column", "species", "-o", "r")
    code, out, err = run(*words)
    assert (code, "adjusted Rand index" in out, "--drop species" in err) == (0, True, False)
    flowers(tmp_path / "new.csv", species=False)
    code, out, err = run("predict", "r", "new.csv")
    assert (code, "warning" in err, len(clusters(out))) == (0, False, 150)


def test_an_absent_column_of_numbers_is_missing_too(run, tmp_path):
    flowers(tmp_path / "flowers.csv", species=False)
    assert run("fit", "flowers.csv", "-m", "gmm", "-k", 3, "-o", "r")[0] == 0
    flowers(tmp_path / "new.csv", species=False, header="sepal_length,x,petal_length,petal_width")
    code, out, err = run("predict", "r", "new.csv")
    assert (code, "column 'sepal_width': not in this table" in err) == (0, True)
    flowers(tmp_path / "new.csv", species=False, header="sepal_length,x,y,petal_width")
    code, _, err = run("predict", "r", "new.csv")
    assert (code, "fit again without them (--columns, --drop)" in err) == (2, True)


def test_objects_without_a_class_are_left_out_of_the_comparison(run, tmp_path):
    known = np.arange(60) // 20
    rng = np.random.default_rng(0)
    rows = [
        f"{10 * k + x:.3f},{'' if i % 3 else 'xyz'[k]}"
        for i, (k, x) in enumerate(zip(known, rng.normal(size=60), strict=True))
    ]
    (tmp_path / "t.csv").write_text("length,kind\n" + "\n".join(rows))
    code, _, err = run("fit", "t.csv", "-m", "gmm", "-k", 3, "--class-column", "kind", "-o", "r")
    assert code == 0, err
    assert "40 objects have no class and are left out of the comparison" in err
    assert summary()["metrics"]["adjusted Rand index"] == pytest.approx(1.0)
    with open("r/pictures.json") as file:
        assert json.load(file)["class_names"] == ["no class", "x", "y", "z"]


def test_a_consensus_says_what_it_combines(run, tmp_path):
    rows = [f"{i // 15},{'ab'[i // 30]},{-1 if i % 6 == 0 else i // 30}" for i in range(60)]
    (tmp_path / "labels.csv").write_text("ward,expert,dbscan\n" + "\n".join(rows))
    code, _, err = run("consensus", "labels.csv", "-k", 2, "-o", "r")
    assert code == 0, err
    said = "labelings: 'ward' (4 labels), 'expert' (2 labels), 'dbscan' (2 labels, 10 objects"
    assert said in err
    assert any(note.startswith("labelings: 'ward'") for note in summary()["input"]["notes"])


def test_inspect_shows_long_values_whole(run, tmp_path):
    rows = [f"2020-01-{i % 28 + 1:02d},{i},text {i},{i % 7}.5" for i in range(20)]
    (tmp_path / "t.csv").write_text("day,user_id,remark,x\n" + "\n".join(rows))
    code, out, _ = run("inspect", "t.csv")
    facts = json.loads(run("inspect", "t.csv", "--json")[1])
    assert (code, len(facts["set aside"]) > 90) == (0, True)
    assert "…" not in out


def test_models_are_listed(run):
    code, out, _ = run("models")
    assert code == 0
    assert "gaussian-mixture (gmm)" in out
    assert "consensus" in out
    assert json.loads(run("models", "--json")[1])["fuzzy-c-means"]["estimator"] == "FuzzyCMeans"


def test_a_table_with_categories_goes_to_the_model_that_takes_them(run, tmp_path):
    rng = np.random.default_rng(2)
    group = np.arange(120) % 2
    kind = np.where(rng.random(120) < 0.9, group, 1 - group)
    income = np.exp(rng.normal(8 + 5 * group, 0.9))
    member = np.where(rng.random(120) < 0.8, group, 1 - group)
    rows = zip(kind, income, member, strict=True)
    lines = [f"{'ab'[k]},{value:.0f},{'yes' if m else 'no'}" for k, value, m in rows]
    (tmp_path / "t.csv").write_text("kind,income,member\n" + "\n".join(lines))
    code, out, err = run("fit", "t.csv", "-o", "r")
    assert code == 0, err
    assert (summary()["model"], summary()["n_clusters"]) == ("mixed-mixture", 2)
    assert "'log-normal'" in summary()["parameters"]["columns"]
    with open("r/memberships.csv") as file:
        fitted = file.read()
    assert adjusted_rand_score(group, clusters(fitted)) > 0.9
    code, out, err = run("predict", "r", "t.csv")
    assert (code, clusters(out)) == (0, clusters(fitted))


def test_an_ensemble_counts_its_members(run, wine, monkeypatch):
    from sfumato.cli.main import Terminal

    heard = []

    def lines(self, what):
        return lambda share, text="": heard.append((share, text))

    monkeypatch.setattr(Terminal, "_lines", lines)
    assert run("fit", "wine.csv", "-k", 3, "-o", "r")[0] == 0
    counted = [(share, text) for share, text in heard if text.startswith("member ")]
    assert len(counted) > 3
    assert counted[0][1].startswith("member 1 of ")
    assert max(share for share, _ in counted) == 1.0
    assert not [text for _, text in heard if "nan" in text]


def test_answers_of_yes_and_no_go_to_the_model_that_takes_them(run, tmp_path):
    rng = np.random.default_rng(0)
    yes = rng.random((120, 8)) < np.where(np.arange(120) % 2, 0.9, 0.1)[:, None]
    for words in (("no", "yes"), ("1", "2")):
        rows = [",".join(words[int(answer)] for answer in row) for row in yes]
        head = ",".join(f"q{j}" for j in range(8))
        (tmp_path / "t.csv").write_text("\n".join([head, *rows]))
        code, _, err = run("fit", "t.csv", "-o", "r", "--force")
        assert code == 0, err
        assert (summary()["model"], summary()["n_clusters"]) == ("mixed-mixture", 2)


def test_two_numbers_among_many_measurements_are_codes(run, tmp_path):
    rng = np.random.default_rng(0)
    group = np.arange(90) % 2
    X = np.column_stack([rng.integers(1, 3, 90), rng.normal(size=(90, 8)) + 4.0 * group[:, None]])
    head = "sex," + ",".join(f"m{j}" for j in range(8))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header=head, comments="")
    code, _, err = run("fit", "t.csv", "-o", "r")
    assert code == 0, err
    assert "left out, as codes among measurements: 'sex'" in err
    with open("r/memberships.csv") as file:
        assert adjusted_rand_score(group, clusters(file.read())) == 1.0


def test_a_category_among_many_measurements_does_not_make_the_clusters(run, tmp_path):
    rng = np.random.default_rng(0)
    group = np.arange(90) % 2
    X = rng.normal(size=(90, 8)) + 4.0 * group[:, None]
    head = "patient,ward," + ",".join(f"m{j}" for j in range(8))
    lines = [
        f"{1000 + i},{'ABC'[rng.integers(3)]}," + ",".join(f"{x:.3f}" for x in row)
        for i, row in enumerate(X)
    ]
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]))
    code, _, err = run("fit", "t.csv", "-o", "r")
    assert code == 0, err
    assert "left out, as codes among measurements: 'ward'" in err
    assert (summary()["model"], summary()["n_clusters"]) == ("consensus", 2)
    assert "ward" not in summary()["input"]["columns"]
    assert any("'ward'" in note for note in summary()["input"]["notes"])
    with open("r/memberships.csv") as file:
        assert adjusted_rand_score(group, clusters(file.read())) == 1.0
    code, _, err = run("fit", "t.csv", "-o", "g", "--model", "gmm")  # as for other models of shape
    assert "left out, as codes among measurements: 'ward'" in err
    with open("g/memberships.csv") as file:
        assert adjusted_rand_score(group, clusters(file.read())) == 1.0
    # Whoever names the columns is given them.
    names = ",".join(["ward", *(f"m{j}" for j in range(8))])
    assert run("fit", "t.csv", "-o", "q", "--columns", names, "-k", 2)[0] == 0
    with open("q/summary.json") as file:
        assert "ward=A" in json.load(file)["input"]["columns"]
