"""Files that grew, were cut, were tampered with, or are wider than anybody thought.

a named error or the right answer.
"""

import contextlib
import gzip
import io
import json
import os
import threading
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import FuzzyCMeans
from sfumato.io import InputError, Roles, read, reading, tables
from sfumato.io.results import (
    load,
    read_memberships,
    read_summary,
    save,
    untrusted,
    write_memberships,
)

ODD = [
    "x\r=cmd|' /C calc'!A0",
    "\r",
    "a\r\nb",
    "\x85",
    "p\u2028q",
    "\x0b\x0c",
    " lead",
    "\x1c",
    '"\r"',
    "plain",
]


def test_line_breaks_of_every_kind_stay_inside_their_cell(tmp_path):
    U = np.random.default_rng(0).dirichlet(np.ones(2), size=len(ODD))
    with (tmp_path / "m.csv").open("w", encoding="utf-8", newline="") as file:
        write_memberships(file, U, ODD)
    back, ids = read_memberships(tmp_path / "m.csv")
    assert ids == ODD
    np.testing.assert_array_equal(back, U)


@settings(max_examples=80)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6),
        min_size=2,
        max_size=8,
    )
)
def test_ids_come_back_whatever_they_are(tmp_path_factory, ids):
    path = tmp_path_factory.mktemp("ids") / "m.csv"
    U = np.full((len(ids), 2), 0.5)
    with path.open("w", encoding="utf-8", newline="") as file:
        write_memberships(file, U, ids)
    assert read_memberships(path)[1] == ids


def test_no_row_begins_with_a_formula():
    file = io.StringIO(newline="")
    write_memberships(file, np.full((2, 2), 0.5), ["x\r=cmd|...", "y\n=cmd"])
    import csv

    cells = [row[0] for row in csv.reader(io.StringIO(file.getvalue(), newline=""))]
    assert cells == ["id", "x\r=cmd|...", "y\n=cmd"]


@pytest.mark.parametrize("title", ["gene_{:06d}", '"two\nlines {}"'])
def test_wide_tables_are_read_to_the_end_of_their_header(tmp_path, title):
    """20 000 named columns: the header alone is longer than the sample that is looked at first."""
    p = 20_000
    X = np.random.default_rng(0).integers(100, size=(12, p))
    rows = "".join(f"s{i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(X.tolist()))
    (tmp_path / "wide.csv").write_text(
        "sample," + ",".join(title.format(j) for j in range(p)) + "\n" + rows
    )
    assert (tmp_path / "wide.csv").stat().st_size > tables._SAMPLE
    table = read(tmp_path / "wide.csv")
    np.testing.assert_array_equal(table.values, X)
    assert (len(table.columns), table.ids[-1]) == (p, "s11")
    kept = read(tmp_path / "wide.csv", Roles(keep=tuple(table.columns[::-1])))
    np.testing.assert_array_equal(kept.values, X[:, ::-1])


def test_a_first_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST", 2**19)
    (tmp_path / "x.csv").write_text("1," * 2**20)
    with pytest.raises(InputError, match="the first line has more than"):
        read(tmp_path / "x.csv")


def test_wide_rows_are_taken_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 1)
    X = np.arange(700).reshape(70, 10)
    (tmp_path / "x.csv").write_text("\n".join(",".join(map(str, row)) for row in X.tolist()))
    heard = []
    table = read(
        tmp_path / "x.csv", Roles(header=False), report=lambda share, said: heard.append(said)
    )
    np.testing.assert_array_equal(table.values, X)
    assert len(heard) > 10


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    by_kind = reading._by_kind

    def grow(*arguments):
        with path.open("a") as file:
            file.write("5,6\n")
        return by_kind(*arguments)

    monkeypatch.setattr(reading, "_by_kind", grow)
    with pytest.raises(InputError, match="changed while it was read"):
        read(path)
    monkeypatch.undo()
    assert len(read(path).values) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n3,4\n", gzip.compress(b"a,b\n1,2\n3,4\n")], ids=["plain", "packed"]
)
def test_a_pipe_is_read_like_a_file(tmp_path, content):
    """What a shell gives for <(cat x.csv)."""
    os.mkfifo(tmp_path / "63")
    writer = threading.Thread(target=(tmp_path / "63").write_bytes, args=(content,))
    writer.start()
    table = read(tmp_path / "63")
    writer.join()
    assert (table.values.tolist(), table.columns) == ([[1, 2], [3, 4]], ["a", "b"])
    assert "63" in table.source


def test_devices_are_refused():
    with pytest.raises(InputError, match="is a device"):
        read("/dev/zero")


def test_a_packed_file_says_how_far_it_is_and_how_much_fits(tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))
    heard = []
    read(tmp_path / "x.csv.gz", report=lambda share, said: heard.append((share, said)))
    assert heard[-1][1].startswith("100,000 rows; memory holds at most")
    assert 0 < heard[0][0] <= heard[-1][0] <= 1


WHOLE = {
    "schema": 1,
    "model": "m",
    "n_objects": 3,
    "metrics": {"a": 0.5},
    "input": {"name": "x", "columns": ["a"], "labels": None},
}
DAMAGE = {
    "number": {**WHOLE, "n_objects": "three"},
    "truth": {**WHOLE, "n_objects": True},
    "metrics": {**WHOLE, "metrics": {"a": "b"}},
    "list": {**WHOLE, "input": []},
    "columns": {**WHOLE, "input": {"columns": [1]}},
    "labels": {**WHOLE, "input": {"labels": [["a", 2]]}},
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_summary_with_another_type_is_refused(tmp_path, case):
    (tmp_path / "summary.json").write_text(json.dumps(DAMAGE[case]))
    with pytest.raises(InputError, match="summary.json is damaged"):
        read_summary(tmp_path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "\x00", "null", '{"schema": 1', '{"a": ' * 5000], ids=range(5)
)
def test_a_summary_that_is_no_object_is_refused(tmp_path, content):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(InputError, match="is damaged"):
        read_summary(tmp_path)


def test_what_is_missing_in_a_summary_is_named(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(WHOLE))
    summary = read_summary(tmp_path)
    assert summary == WHOLE
    for ask in (lambda: summary["versions"], lambda: summary["input"]["sha256"]):
        with pytest.raises(InputError, match="has no '(versions|sha256)'"):
            ask()


def repacked(path, change):
    """The archive with what ``change(name, content)`` makes of each member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def deep(content):
    return b'{"__class__": "dict", "a": ' * 3000 + b"1" + b"}" * 3000


TAMPERED = {
    "no schema": lambda name, content: b"" if name == "schema.json" else content,
    "deep schema": lambda name, content: deep(content) if name == "schema.json" else content,
    "list": lambda name, content: b"[]" if name == "schema.json" else content,
    "no loader": lambda name, content: (
        content.replace(b'"__loader__"', b'"__cracker__"') if name == "schema.json" else content
    ),
    "strange loader": lambda name, content: (
        content.replace(b"NdArrayNode", b"NoSuchNode") if name == "schema.json" else content
    ),
    "cut arrays": lambda name, content: content if name == "schema.json" else content[:40],
    "empty arrays": lambda name, content: content if name == "schema.json" else b"",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.skops"
    save(FuzzyCMeans(2, random_state=0).fit(np.random.default_rng(0).normal(size=(20, 2))), path)
    return path


@pytest.mark.parametrize("case", TAMPERED)
def test_a_tampered_model_is_refused_in_a_sentence(tmp_path, saved, case):
    path = tmp_path / "model.skops"
    path.write_bytes(saved.read_bytes())
    repacked(path, TAMPERED[case])
    with pytest.raises(InputError, match="is not a saved model|cannot be loaded"):
        load(path)


def test_a_model_cut_anywhere_is_refused(tmp_path, saved):
    whole = saved.read_bytes()
    for end in np.linspace(0, len(whole) - 1, 25).astype(int).tolist():
        (tmp_path / "cut.skops").write_bytes(whole[:end])
        with pytest.raises(InputError):
            load(tmp_path / "cut.skops")


def test_a_model_that_unpacks_to_more_than_memory_is_refused_unread(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 10_000_000)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1e6")
    with pytest.raises(MemoryError, match="bomb.skops"):
        untrusted(tmp_path / "bomb.skops")


@settings(max_examples=60)
@given(st.data())
def test_flipped_bytes_of_a_model_never_bring_a_foreign_error(saved, tmp_path_factory, data):
    content = bytearray(saved.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("flipped") / "model.skops"
    path.write_bytes(content)
    with contextlib.suppress(InputError, MemoryError):
        load(path)


def sources():
    """A small file of every kind that is read."""
    rng = np.random.default_rng(0)
    X, U, names = (
        rng.normal(size=(12, 3)),
        rng.dirichlet(np.ones(2), 12),
        [f"i{i}" for i in range(12)],
    )
    table = "id,a,b\n" + "".join(f'"o,{i}",{x},{y}\n' for i, (x, y, _) in enumerate(X))
    files = {"x.csv": table.encode(), "x.csv.gz": gzip.compress(table.encode())}
    for name, write in {
        "x.npy": lambda file: np.save(file, X),
        "x.npz": lambda file: np.savez_compressed(file, X=X, ids=np.array(names)),
        "s.npz": lambda file: sp.save_npz(file, sp.csr_matrix(np.where(X > 0, X, 0))),
    }.items():
        file = io.BytesIO()
        write(file)
        files[name] = file.getvalue()
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    columns = {"id": names, "cluster": [0] * 12, "certainty": U[:, 0], "a": U[:, 0], "b": U[:, 1]}
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return {**files, "m.parquet": file.getvalue()}


SOURCES = sources()


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=25)
@given(data=st.data())
def test_no_change_of_bytes_brings_a_foreign_error(tmp_path_factory, name, data):
    """Flipped, cut, doubled or thrown in: a table, or a sentence about the file."""
    content = bytearray(SOURCES[name])
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, max(len(content) - 1, 0)))
        content[place : place + data.draw(st.sampled_from([0, 1, 4, 60]))] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"\r", b'"', b"\xff" * 4, b"1e999"]))
        )
    path = tmp_path_factory.mktemp("changed") / name
    path.write_bytes(content)
    for use in (read, lambda path: read(path, Roles(labels=True)), read_memberships):
        # Bytes that begin as a file of AnnData does ask for that package.
        with contextlib.suppress(InputError, MemoryError, ImportError):
            use(path)


def test_faults_of_the_unpacker_are_faults_of_the_file(tmp_path):
    """zlib has an error of its own, which is no OSError."""
    whole = gzip.compress(("a,b\n" + "1,2\n3,4\n" * 4000).encode())
    refused = 0
    for place in range(10, len(whole) - 8):
        (tmp_path / "x.csv.gz").write_bytes(
            whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        )
        try:
            read(tmp_path / "x.csv.gz")
        except InputError:
            refused += 1
    assert refused > 20
