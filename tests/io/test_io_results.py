"""What is written is whole, comes back as it went, and is never mistaken for something to run."""

import json
import os
from contextlib import contextmanager

import numpy as np
import pytest

from sfumato import FuzzyCMeans, SpectralClustering
from sfumato.engine.loop import checkpoints
from sfumato.io import InputError, Result, read_result, write_result
from sfumato.io.output import Output
from sfumato.io.results import Checkpoint, check_target, load, save, untrusted

HOSTILE = [
    "</script><script>alert(1)</script>",
    "[/]",
    "=cmd()",
    "+1",
    "@x",
    "-a",
    "'=b",
    "$\\frac{$",
    "../../x",
    "n" * 300,
    "🙂",
    "\u202etxt",
    "a\nb",
    'q"q',
    "",
]


@contextmanager
def new_folder(target, force=True):
    with Output(target, check_target, force=force) as output, output.folder() as folder:
        yield folder


def result():
    U = np.random.default_rng(0).dirichlet(np.ones(3), size=len(HOSTILE))
    return Result(U, HOSTILE, {"schema": 1, "model": "x"}, {"history": [1.0]})


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_memberships_and_ids_come_back_exactly(tmp_path, table):
    if table == "parquet":
        pytest.importorskip("pyarrow")
    with new_folder(tmp_path / "r") as folder:
        write_result(folder, result(), table=table)
    back = read_result(tmp_path / "r")
    np.testing.assert_array_equal(back.memberships, result().memberships)
    assert list(back.ids) == HOSTILE
    assert back.summary == result().summary


def test_formulas_are_written_with_an_apostrophe(tmp_path):
    with new_folder(tmp_path / "r") as folder:
        write_result(folder, result())
    text = (tmp_path / "r" / "memberships.csv").read_text(encoding="utf-8")
    for name in ("'=cmd()", "'@x", "'-a"):
        assert f"\n{name}," in text
    assert "\n+1," in text


def test_a_folder_is_whole_or_not_there(tmp_path):
    def fail(folder):
        (folder / "half").write_text("x")
        raise RuntimeError

    with pytest.raises(RuntimeError), new_folder(tmp_path / "r") as folder:
        fail(folder)
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "r") as folder:
        (folder / "summary.json").write_text("old")
    with pytest.raises(RuntimeError), new_folder(tmp_path / "r") as folder:
        fail(folder)
    assert (tmp_path / "r" / "summary.json").read_text() == "old"
    with new_folder(tmp_path / "r") as folder:
        (folder / "summary.json").write_text("new")
    assert (tmp_path / "r" / "summary.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_force_never_deletes_what_is_not_a_result(tmp_path):
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x")
    for force in (False, True):
        with pytest.raises(InputError, match="is not a result folder"):
            check_target(precious, force)
    with pytest.raises(InputError, match="there is no folder"):
        check_target(tmp_path / "no" / "such", False)
    (tmp_path / "r").mkdir()
    with pytest.raises(InputError, match="add --force"):
        check_target(tmp_path / "r", False)
    check_target(tmp_path / "r", True)


def test_damaged_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no summary.json"):
        read_result(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        read_result(tmp_path)
    (tmp_path / "summary.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(InputError, match="schema 99"):
        read_result(tmp_path)


class Evil:
    def __reduce__(self):
        return os.system, ("touch owned",)


class Stranger:
    def __init__(self):
        self.x = 1


def test_models_from_outside_are_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skops = pytest.importorskip("skops.io")
    skops.dump({"model": Stranger()}, tmp_path / "evil.skops")
    assert untrusted(tmp_path / "evil.skops")
    with pytest.raises(InputError, match="Stranger.*not loaded"):
        load(tmp_path / "evil.skops")
    import pickle

    (tmp_path / "p.skops").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="is not a saved model"):
        load(tmp_path / "p.skops")
    assert not (tmp_path / "owned").exists()


def test_models_come_back(tmp_path):
    pytest.importorskip("skops")
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = FuzzyCMeans(3, random_state=0).fit(X)
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(
        load(tmp_path / "m.skops").predict_proba(X), model.predict_proba(X)
    )


@pytest.mark.parametrize("settings", [{"n_init": 3, "metric": "mahalanobis"}, {"n_init": 30}])
def test_a_checkpoint_on_disk_gives_the_same_memberships(tmp_path, settings):
    pytest.importorskip("skops")
    X = np.random.default_rng(0).normal(size=(300, 3))
    make = lambda: FuzzyCMeans(4, random_state=0, **settings)  # noqa: E731
    whole = make().fit(X)

    class Stopped(Checkpoint):
        left = 25

        def keep(self, *arguments):
            super().keep(*arguments)
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    first = Stopped(tmp_path / "c", "task", every=0)
    with pytest.raises(KeyboardInterrupt), checkpoints(first):
        make().fit(X)
    second = Checkpoint(tmp_path / "c", "task", every=1e9)
    second.resume()
    assert second.resumed == 25
    with checkpoints(second):
        resumed = make().fit(X)
    np.testing.assert_array_equal(resumed.memberships_, whole.memberships_)
    np.testing.assert_array_equal(resumed.history_, whole.history_)
    with pytest.raises(InputError, match="kept for other data"):
        Checkpoint(tmp_path / "c", "another task").resume()
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_rows_that_were_lost_are_counted(tmp_path):
    whole = result()._replace(summary={"schema": 1, "n_objects": len(HOSTILE)})
    with new_folder(tmp_path / "r") as folder:
        write_result(folder, whole)
    assert len(read_result(tmp_path / "r").ids) == len(HOSTILE)
    table = tmp_path / "r" / "memberships.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:2] + lines[3:]))
    with pytest.raises(InputError, match="has 14 objects, where summary.json says 15"):
        read_result(tmp_path / "r")


def test_changed_bytes_of_a_model_are_named(tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    save({"numbers": np.arange(1000.0)}, path)
    content = bytearray(path.read_bytes())
    place = content.index(np.arange(500.0, 510.0).tobytes())
    content[place] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="is damaged .checksums.: fit afresh"):
        load(path)


def test_a_saved_model_has_its_levels(tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2)) + 9 * np.eye(2)[np.arange(120) % 2]
    model = SpectralClustering(random_state=0).fit(X)
    levels = model.levels_
    save(model, tmp_path / "model.skops")
    loaded = load(tmp_path / "model.skops")
    assert untrusted(tmp_path / "model.skops") == []
    assert loaded.levels_ == levels
    for level in levels:
        k = level.n_clusters
        np.testing.assert_array_equal(loaded.at(k), model.at(k))
        np.testing.assert_array_equal(
            loaded.predict_proba(X[:5], n_clusters=k), model.predict_proba(X[:5], n_clusters=k)
        )
