"""Every reader gives the numbers that were written, or one clear line about what is wrong, without
asking for memory first.
"""

import csv
import gzip
import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import mmwrite

from sfumato import MemoryBudgetError
from sfumato.io import InputError, Roles, read
from sfumato.io.tables import sniff


@pytest.fixture
def write(tmp_path):
    def written(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


X = np.array([[1.5, -2.0, 3e5], [0.25, 4.0, -1e-3]])


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n1.5,-2,3e5\n0.25,4,-1e-3\n",
        "a;b;c\n1,5;-2;300000\n0,25;4;-0,001\n",
        "a\tb\tc\r\n1.5\t-2\t3e5\r\n0.25\t4\t-1e-3\r\n",
        "a|b|c\n1.5|-2|3e5\n0.25|4|-1e-3",
        "a b c\n1.5 -2  3e5\n0.25 4 -1e-3\n",
        '"a", "b", "c"\n"1.5", "-2", "3e5"\n\n"0.25", "4", "-1e-3"\n\n',
        "\ufeffa,b,c\n1.5,-2,3e5\n0.25,4,-1e-3\n",
    ],
)
def test_text_tables_in_many_hands(write, text):
    table = read(write(text))
    np.testing.assert_array_equal(table.values, X)
    assert table.columns == ["a", "b", "c"]
    assert table.ids is None


def test_no_header_is_found_and_can_be_said(write):
    path = write("1.5,-2,3e5\n0.25,4,-1e-3\n")
    np.testing.assert_array_equal(read(path).values, X)
    assert read(path, Roles(header=True)).values.shape == (1, 3)
    assert read(write("a,b\n1,2\n"), Roles(header=True)).columns == ["a", "b"]


def test_tables_written_by_pandas_and_by_r(write):
    pandas = read(write(",0,1\n0,1.5,2\n1,2.5,3\n"))
    assert (pandas.ids, pandas.columns) == (["0", "1"], ["0", "1"])
    r = read(write('"len" "wid"\n"ada" 1.5 2\n"bea" 2.5 3\n'))
    assert (r.ids, r.columns) == (["ada", "bea"], ["len", "wid"])
    np.testing.assert_array_equal(pandas.values, r.values)


def test_a_first_column_called_id_is_never_a_feature(write):
    assert read(write("ID,x,y\n7,1,2\n9,3,4\n")).ids == ["7", "9"]
    assert read(write("id,p,q\n7,1,2\n9,3,4\n"), Roles(labels=True)).ids == ["7", "9"]
    assert read(write("name,p,q\nada,a,b\nbea,c,d\n"), Roles(labels=True)).ids == ["ada", "bea"]
    assert read(write("x,id\n7,1\n9,3\n")).ids is None
    assert read(write("id,x,y\n7,1,2\n9,3,4\n"), Roles(drop=("id",))).ids is None


def test_roles(write):
    path = write("name,w,x,kind,y\nada,2,1.5,red,7\nbea,1,2.5,blue,8\n")
    table = read(path, Roles(weight="w", classes="kind"))
    assert (table.ids, table.columns, table.classes) == (
        ["ada", "bea"],
        ["x", "y"],
        ["red", "blue"],
    )
    np.testing.assert_array_equal(table.weights, [2, 1])
    assert read(path, Roles(drop=("w", "kind"), id="name")).columns == ["x", "y"]
    assert read(path, Roles(keep=("y", "x"))).values.tolist() == [[7, 1.5], [8, 2.5]]
    with pytest.raises(InputError, match="--id-column 'nam' is not in the table: it has 'name'"):
        read(path, Roles(id="nam"))


def test_missing_cells_become_nan(write):
    values = read(write("a,b\n1,NA\n,2\nnan,?\n")).values
    np.testing.assert_array_equal(values, [[1, np.nan], [np.nan, 2], [np.nan, np.nan]])


def test_labelings_are_coded_with_gaps(write):
    table = read(write("p,q\nred,1\nblue,2\nred,-1\n,2\n"), Roles(labels=True))
    np.testing.assert_array_equal(table.values, [[0, 0], [1, 1], [0, -1], [-1, 1]])
    assert table.label_names == [["red", "blue"], ["1", "2"]]


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n'])
def test_a_first_line_may_name_the_delimiter(write, first):
    table = read(write(first + "a;b\n1,5;2\n3;4\n"))
    assert table.columns == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[1.5, 2], [3, 4]])
    with pytest.raises(InputError, match="line 4, column 'b'"):
        read(write(first + "a;b\n1;2\n3;x\n"))
    with pytest.raises(InputError, match="is empty"):
        read(write(first))


def test_gzip_and_other_encodings(write):
    text = "naïve,b\n1,2\n3,4\n"
    assert read(write(gzip.compress(text.encode()))).columns == ["naïve", "b"]
    for marked_or_not in ("utf-16", "utf-16-le", "utf-16-be"):
        assert read(write(text.encode(marked_or_not))).columns == ["naïve", "b"]
    assert read(write(text.encode("cp1252")), Roles(encoding="cp1252")).columns == ["naïve", "b"]
    with pytest.raises(InputError, match="is not utf-8 text.*--encoding cp1252"):
        read(write(text.encode("cp1252")))
    with pytest.raises(InputError, match="unknown encoding"):
        read(write(text), Roles(encoding="klingon"))


@pytest.mark.parametrize(
    "text, said",
    [
        ("a,b\n1,2\n3\n5,6\n", "line 3: 1 cells where the header has 2"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: 3 cells where the header has 2"),
        ('a,b\n"x\ny",2\n3,z\n', "line 4, column 'b': 'z' is not a finite number"),
        ("a,b\n1,inf\n", "line 2, column 'b': 'inf' is not a finite number"),
        ("a,b\n1,2\n3,twelve\n", "line 3, column 'b': 'twelve'"),
        ("a,b\n", "has a header but no rows"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ('a,b\n1,"2\n', "line 2"),
        ("a,b\n1,\x002\n", "is not text"),
    ],
)
def test_errors_name_the_line_and_the_column(write, text, said):
    with pytest.raises(InputError, match=said):
        read(write(text), Roles(id="a") if "x\ny" in text else Roles())


def test_an_error_far_down_names_its_line(write):
    lines = ["a,b", *(f"{i},1" for i in range(45_000))]
    lines[30_001] = "1,bad"
    with pytest.raises(InputError, match="line 30002, column 'b'"):
        read(write("\n".join(lines)))


def test_many_rows_keep_their_order(write):
    n = 50_001
    table = read(write("id,x\n" + "".join(f"o{i},{i}\n" for i in range(n))))
    assert table.ids == [f"o{i}" for i in range(n)]
    np.testing.assert_array_equal(table.values[:, 0], np.arange(n))


def test_progress_is_told(write):
    heard = []
    read(write("a,b\n" + "1,2\n" * 200_000), report=lambda share, text: heard.append(share))
    assert heard == sorted(heard)
    assert 0 < heard[0] < heard[-1] <= 1


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda s: s.strip() == s
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(names, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=8),
    st.sampled_from([",", ";", "\t"]),
)
def test_what_a_csv_writer_writes_comes_back(tmp_path_factory, rows, delimiter):
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows([["label", "x", "y"], *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(buffer.getvalue().encode())
    table = read(path, Roles(id="label"))
    np.testing.assert_array_equal(table.values, np.array([row[1:] for row in rows]))
    from sfumato.array.text import from_cell

    assert table.ids == [from_cell(row[0]) for row in rows]


def test_decimal_commas_are_found_column_by_column():
    assert sniff("a;b\n1,5;2.5\n", "t").decimals == [",", "."]
    assert sniff("a;b\n1.5;2\n", "t").decimals == [".", "."]
    assert sniff("a,b\n1,5\n2,6\n", "t").decimals == [".", "."]
    assert sniff('a,b\n1.5,"308,30 €"\n2.5,"2.541,50 €"\n', "t").decimals == [".", ","]
    assert sniff('a,b\n1.5,"1,234"\n2.5,"2,541"\n', "t").decimals == [".", "."]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
def test_npy_is_mapped(tmp_path, dtype):
    values = np.arange(12, dtype=dtype).reshape(4, 3)
    np.save(tmp_path / "x.npy", values)
    table = read(tmp_path / "x.npy")
    assert isinstance(table.values, np.memmap)
    np.testing.assert_array_equal(table.values, values)


def test_npz_one_array_known_names_and_ids(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, other=np.ones(3), ids=np.array(["ada", "bea"]))
    table = read(tmp_path / "x.npz")
    np.testing.assert_array_equal(table.values, X)
    assert table.ids == ["ada", "bea"]
    np.savez(tmp_path / "y.npz", p=X, q=X)
    with pytest.raises(InputError, match="several arrays \\('p', 'q'\\)"):
        read(tmp_path / "y.npz")


def test_sparse_files(tmp_path):
    matrix = sp.random_array(
        (30, 20), density=0.1, random_state=np.random.default_rng(0), format="csc"
    )
    sp.save_npz(tmp_path / "s.npz", matrix)
    mmwrite(tmp_path / "s.mtx", sp.coo_matrix(matrix))
    (tmp_path / "s.mtx.gz").write_bytes(gzip.compress((tmp_path / "s.mtx").read_bytes()))
    for name in ("s.npz", "s.mtx", "s.mtx.gz"):
        table = read(tmp_path / name)
        assert sp.issparse(table.values)
        np.testing.assert_allclose(table.values.toarray(), matrix.toarray(), rtol=1e-12)
    mmwrite(tmp_path / "d.mtx", X)
    np.testing.assert_allclose(read(tmp_path / "d.mtx").values, X)
    symmetric = np.array([[1.0, 2, 0], [2, 1, 3], [0, 3, 1]])
    mmwrite(tmp_path / "w.mtx", sp.coo_matrix(symmetric), symmetry="symmetric")
    np.testing.assert_array_equal(read(tmp_path / "w.mtx").values.toarray(), symmetric)


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"name": ["ada", "bea"], "x": [1.5, None], "y": [2, 3], "w": [1, 2]}),
        tmp_path / "t.parquet",
    )
    table = read(tmp_path / "t.parquet", Roles(weight="w"))
    assert (table.ids, table.columns, table.id_column) == (["ada", "bea"], ["x", "y"], "name")
    np.testing.assert_array_equal(table.values, [[1.5, 2], [np.nan, 3]])
    with pytest.raises(InputError, match="column 'name' holds text"):
        read(tmp_path / "t.parquet", Roles(id="x"))
    pq.write_table(pa.table({"p": ["a", "b", None], "q": [1, -1, 2]}), tmp_path / "l.parquet")
    np.testing.assert_array_equal(
        read(tmp_path / "l.parquet", Roles(labels=True)).values, [[0, 0], [1, -1], [-1, 1]]
    )


def test_anndata(tmp_path):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    pd = pytest.importorskip("pandas")
    obs = pd.DataFrame({"kind": ["a", "b"]}, index=["cell1", "cell2"])
    anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=["g1", "g2", "g3"])).write_h5ad(
        tmp_path / "x.h5ad"
    )
    table = read(tmp_path / "x.h5ad", Roles(classes="kind", keep=("g3", "g1")))
    assert (table.ids, table.columns, table.classes) == (
        ["cell1", "cell2"],
        ["g3", "g1"],
        ["a", "b"],
    )
    np.testing.assert_allclose(table.values, X[:, [2, 0]])


def npy_header(shape, descr="<f8", version=1):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * ((64 - (len(text) + 11) % 64) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text


def npz(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content)
    return buffer.getvalue()


def truncated_parquet():
    return b"PAR1" + os.urandom(200)


HOSTILE = {
    "huge.npz": (npz(npy_header((10**7, 10**7))), "declares 10,000,000 x 10,000,000"),
    "huge.npy": (npy_header((10**7, 10**7)), "declares 10,000,000 x 10,000,000"),
    "negative.npy": (npy_header((-5, 3)), "declares -5 x 3"),
    "short.npy": (npy_header((10, 3)) + b"\0" * 100, "declares 10 x 3"),
    "header.npy": (b"\x93NUMPY\x01\x00\xff\xff{'descr'", "not a whole npy file"),
    "code.npy": (npy_header("__import__('os').system('touch owned')"), "not a whole npy file"),
    "objects.npy": (npy_header((2,), "|O") + pickle.dumps([1, 2]), "pickle"),
    "objects.npz": (npz(npy_header((2,), "|O") + pickle.dumps([1, 2])), "pickle"),
    "data.pkl": (pickle.dumps({"x": 1}), "is a Python pickle"),
    "cut.npz": (npz(npy_header((2, 2)) + b"\0" * 32)[:-30], "not a whole npz file"),
    "empty.npz": (b"PK\x05\x06" + b"\0" * 18, "not text|not a whole"),
    "cut.parquet": (truncated_parquet(), "is not a whole parquet file"),
    "ragged.csv": (b"a,b\n1,2\n3\n", "line 3: 1 cells where the header has 2"),
    "wide.mtx": (
        b"%%MatrixMarket matrix coordinate real general\n1000000000 1000000000 1\n1 1 1.0\n",
        "almost every object would be empty",
    ),
    "deep.mtx": (
        b"%%MatrixMarket matrix coordinate real general\n1000 1000 999999999\n1 1 1.0\n",
        "declares 999,999,999 entries",
    ),
    "dense.mtx": (
        b"%%MatrixMarket matrix array real general\n1000000000 1000000000\n1.0\n",
        "declares 1,000,000,000,000,000,000 entries",
    ),
    "sizes.mtx": (
        b"%%MatrixMarket matrix coordinate real general\nmany\n",
        "not a whole matrix-market file",
    ),
    "header.mtx": (
        b"%%MatrixMarket matrix coordinate real general\n% nothing\n",
        "not a whole matrix-market file",
    ),
    "index.mtx": (
        b"%%MatrixMarket matrix coordinate real general\n2 2 1\n5 1 1.0\n",
        "an entry lies outside",
    ),
    "text.gz": (gzip.compress(b"a,b\n1,2\n")[:-6], "not a whole gzip file: Compressed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(tmp_path, name, monkeypatch):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    content, said = HOSTILE[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_memory_is_asked_for_before_it_is_taken(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", np.zeros((1000, 100)))
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "10000")
    for name in ("x.npz", "x.csv"):
        with pytest.raises(MemoryBudgetError, match="does not fit in memory"):
            read(tmp_path / name)


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(InputError, match="no file called"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)


@settings(max_examples=80)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "x"
    path.write_bytes(content)
    for labels in (False, True):
        try:
            table = read(path, Roles(labels=labels))
        except (InputError, ImportError, MemoryBudgetError):
            continue
        assert table.values.ndim == 2


@settings(max_examples=80)
@given(st.text(st.sampled_from('1a,;"\n\r\t .-|'), max_size=80))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    test_any_bytes_are_read_or_refused.hypothesis.inner_test(tmp_path_factory, text.encode())


@pytest.mark.parametrize("delimiter", [";;", "\\t", '"', "\n"])
def test_a_delimiter_is_one_character(write, delimiter):
    with pytest.raises(InputError, match="--delimiter must be one character"):
        read(write("a,b\n1,2\n3,4\n"), Roles(delimiter=delimiter))


def test_text_under_the_name_of_another_kind(write):
    with pytest.raises(InputError, match=r"no rows\. It is called \.npy, but holds text"):
        read(write("hello there\n", "text.npy"))
    np.testing.assert_array_equal(read(write("1,2\n3,4\n", "text.npy")).values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("content", ['{"a": [1, 2, 3]}', " [1, 2]"])
def test_json_is_named(write, content):
    with pytest.raises(InputError, match="is JSON, which is not read here: save it as CSV"):
        read(write(content, "data.json"))
