"""Columns as people write them: each is read for what it is, and nothing is guessed in silence."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.io import InputError, Roles, read
from sfumato.io.columns import as_day, truth_words, written_number

MIXED = Roles(mixed=True)


@pytest.fixture
def table(tmp_path):
    def write(text, roles=MIXED):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read(path, roles)

    return write


@pytest.mark.parametrize(
    "cell, decimal, value",
    [
        ("13.2 %", ".", 13.2),
        ("13,2%", ",", 13.2),
        ("1,234.5", ".", 1234.5),
        ("1.234,5", ".", 1234.5),
        ("1.234.567", ",", 1234567),
        ("1,234,567", ".", 1234567),
        ("1 234", ".", 1234),
        ("1'234.50", ".", 1234.5),
        ("$1,200", ".", 1200),
        ("-€ 12.50", ".", -12.5),
        ("€-3", ".", -3),
        ("1200 EUR", ".", 1200),
        ("(1,200)", ".", -1200),
        ("− 7 %", ".", -7),
        ("12 kg", ".", 12),
        ("1.5e3 %", ".", 1500),
    ],
)
def test_numbers_as_they_are_written(cell, decimal, value):
    assert written_number(cell, decimal)[0] == value


@pytest.mark.parametrize(
    "cell", ["1,23,4", "12,34", "1.2.3", "abc", "3A", "12-34", "1 23", "(5", "5)", "$", "%", "1..2"]
)
def test_what_is_no_number(cell):
    assert written_number(cell) is None


@given(st.floats(-1e12, 1e12).map(lambda value: round(value, 2)))
def test_thousands_come_back(value):
    assert written_number(f"{value:,.2f}")[0] == value
    assert written_number(f"{value:,.2f} %")[0] == value
    continental = f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
    assert written_number(continental, ",")[0] == value


def test_dates_and_truth():
    assert as_day(["2020-01-02", "1970-01-01"]) == [18263, 0]
    assert as_day(["31.12.2020", "01.02.2021"])[1] == as_day(["2021-02-01"])[0]
    assert as_day(["2020-01-01 12:00"])[0] % 1 == 0.5
    assert as_day(["2020-13-45"]) is None
    assert truth_words(["Yes", "no"]) == [1.0, 0.0]
    assert truth_words(["yes", "maybe"]) is None


def test_each_column_is_read_for_what_it_is(table):
    rows = [
        f"{700 + 3 * i},o{i},{'abc'[i % 3]},{'yes' if i % 2 else 'no'},{i / 3:.1f} %,"
        f'"${1000 + i * 7:,}",2020-01-{i + 1:02d},7,,free text number {i % 11} of many'
        for i in range(24)
    ]
    found = table(
        "customer_id,name,kind,member,rate,income,joined,same,gone,remark\n" + "\n".join(rows)
    )
    kinds = {column.name: (column.kind, column.used) for column in found.fields}
    assert kinds == {
        "customer_id": ("identifier", False),
        "name": ("identifier", False),
        "kind": ("category", True),
        "member": ("yes/no", True),
        "rate": ("number", True),
        "income": ("number", True),
        "joined": ("date", False),
        "same": ("constant", False),
        "gone": ("empty", False),
        "remark": ("category", True),
    }
    assert found.columns[:6] == ["kind=a", "kind=b", "kind=c", "member", "rate", "income"]
    assert found.values[4, :6].tolist() == [0, 1, 0, 0, 1.3, 1028]
    assert found.ids[:2] == ["700", "703"]


def test_a_first_column_of_three_repeated_values_is_no_id(table):
    rows = "\n".join(f"{'abc'[i % 3]},{i * 0.7}" for i in range(12))
    found = table("kind,x\n" + rows)
    assert found.ids is None
    assert found.columns == ["kind=a", "kind=b", "kind=c", "x"]


@pytest.mark.parametrize("name", ["grid", "valid", "paid", "width", "casino", "albino"])
def test_measurements_are_no_identifiers(table, name):
    found = table(f"{name},x\n" + "\n".join(f"{i * i},{i % 5}" for i in range(12)))
    assert found.columns == [name, "x"]


@pytest.mark.parametrize("name", ["id", "customer_id", "Kunden-Nr", "patientId", "row", "RECORD"])
def test_identifiers_by_name(table, name):
    found = table(f"x,{name}\n" + "\n".join(f"{i % 5}.5,{i * i}" for i in range(12)))
    assert found.columns == ["x"]


def test_a_row_counter_is_set_aside_and_names_the_objects(table):
    found = table("x,n\n" + "\n".join(f"{i % 5}.5,{i + 40}" for i in range(12)))
    assert (found.columns, found.ids[0]) == (["x"], "40")


def test_all_problems_in_one_error(table):
    text = "a,b,c\n1,2,x\n3,oops,y\n4,5,x\nbad,6,y\n7,inf,x\n8,9,y\n"
    with pytest.raises(InputError) as error:
        table(text)
    said = str(error.value)
    assert "line 5, column 'a': 'bad' is not a finite number" in said
    assert "line 3, column 'b': 'oops' is not a finite number (and 1 more cells)" in said
    assert "--drop" in said


def test_columns_are_named_and_dropped_in_lists(table):
    text = "id,a,b,c,when\n" + "\n".join(
        f"{i},{i % 3},{i % 4},{i % 5},{2000 + i}-01-01" for i in range(9)
    )
    assert table(text, Roles(mixed=True, drop=("a,c",))).columns == ["b"]
    found = table(text, Roles(mixed=True, keep=("c, b,when",)))
    assert found.columns == ["c", "b", "when"]
    assert found.values[1, 2] - found.values[0, 2] == 366
    with pytest.raises(InputError, match="--columns 'z' is not in the table"):
        table(text, Roles(mixed=True, keep=("z",)))


def test_missing_words_in_numbers_and_in_categories(table):
    text = "x,kind\n" + "\n".join(["1,a", "n/a,none", "#DIV/0!,a", "-,none", "2.5,?", "3,a"])
    found = table(text)
    assert np.isnan(found.values[:, 0]).tolist() == [False, True, True, True, False, False]
    assert found.columns == ["x", "kind=a", "kind=none"]
    assert np.isnan(found.values[4, 1:]).all()


def test_words_far_down_a_column_of_numbers(table, monkeypatch):
    from sfumato.io import tables as module

    monkeypatch.setattr(module, "_BLOCK", 4)
    found = table("x,y\n" + "\n".join(f"{i},{i % 2}" for i in range(4)) + "\n" + "a,1\nb,0\n" * 4)
    assert [column.kind for column in found.fields] == ["category", "number"]
    assert found.values.shape == (12, 7)


def test_parquet_columns_of_any_kind(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import datetime

    import pyarrow.parquet as pq

    n = 12
    columns = {
        "price": [f"€{i},500.00" for i in range(n)],
        "kind": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
        "open": [i % 3 == 0 for i in range(n)],
        "when": [datetime.date(2020, 1, 1 + i) for i in range(n)],
        "x": [None, *np.linspace(0, 1, n - 1)],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet", MIXED)
    kinds = [column.kind for column in found.fields]
    assert kinds == ["number", "category", "yes/no", "date", "number"]
    assert found.columns == ["price", "kind=a", "kind=b", "open", "x"]
    assert found.values[3, :4].tolist() == [3500, 0, 1, 1]
    assert np.isnan(found.values[0, 4])


@pytest.mark.parametrize("text", ["x;price\n{}", "x,price\n{}"], ids=["semicolons", "commas"])
def test_prices_with_decimal_commas_are_numbers(table, text):
    mark = text[1]
    cells = ["308,30 €", "2.541,50 €", "17,00 €", "4,25 €"]
    lines = [f'{i}.5{mark}"{cell}"' for i, cell in enumerate(cells)]
    found = table(text.format("\n".join(lines)))
    np.testing.assert_allclose(found.values, [[0.5, 308.3], [1.5, 2541.5], [2.5, 17], [3.5, 4.25]])


def test_commas_in_prices_do_not_separate_cells(table):
    found = table("price;x\n308,30 €;1.23\n2.541,50 €;1.22\n652,80 €;0.57\n")
    assert found.columns == ["price", "x"]
    assert found.values[:, 0].tolist() == [308.3, 2541.5, 652.8]


def test_points_between_thousands_are_known_by_commas_elsewhere(table):
    found = table("x;y;z\n45,5;2.429;1\n46,0;2.385.421;2\n44,25;543;3\nk.A.;n.a.;4\n")
    rows = [[45.5, 2429, 1], [46, 2385421, 2], [44.25, 543, 3], [np.nan, np.nan, 4]]
    np.testing.assert_array_equal(found.values, rows)
    found = table("x;y;z\n45,5;2.429;1.5\n46,0;2.385;2.5\n44,25;1.543;3.5\n")
    assert found.values[:, 1].tolist() == [2.429, 2.385, 1.543]  # points elsewhere: decimals


def test_a_title_above_the_table_is_passed_over(table):
    found = table("Sales of 2020\n\nshop,x,y\na,1,2\nb,3,5\nc,4,4\n")
    assert (found.columns, found.ids) == (["x", "y"], ["a", "b", "c"])


def test_repeated_rows_keep_their_names(table):
    lines = [f"object {i},{i}.5,{i % 7}.25" for i in range(30)]
    found = table("\n".join(["name,x,y", *lines, lines[3]]))
    assert found.ids[3] == found.ids[30] == "object 3"
    assert found.columns == ["x", "y"]


def test_a_column_of_three_values_is_no_identifier(table):
    rows = [f"{i % 3},{i * i}.5,{i}" for i in range(30)]
    found = table("\n".join(["ward_id,x,record", *rows]))
    assert "ward_id" in found.columns
    assert found.id_column == "record"


def test_numbers_that_name_persons_are_identifiers_even_if_rows_repeat(table):
    rows = [f"{7 * i + 300},{i % 5 + 0.5 * i}" for i in (*range(30), 4, 9)]
    for title in ("PID", "respondent", "patient"):
        found = table("\n".join([f"{title},x", *rows]))
        assert (found.id_column, found.columns, found.ids[-1]) == (title, ["x"], "363")
    assert table("\n".join(["visits,x", *rows])).columns == ["visits", "x"]


def _workbook(path):
    book = pytest.importorskip("openpyxl").Workbook()
    pytest.importorskip("fastexcel")
    book.active.title = "Read me"
    book.active.append(["Figures of the clinic"])
    sheet = book.create_sheet("Data")
    sheet.append(["Patients, 2020"])
    sheet.append([])
    sheet.append(["id", "price", "kind", "when", "x"])
    for i in range(12):
        day = datetime.date(2020, 1, 1 + i)
        sheet.append([100 + i, f"{i}.000,50 €", "abc"[i % 3], day, i / 11 if i else None])
    book.save(path)


def test_excel_columns_of_any_kind_on_any_sheet(tmp_path):
    _workbook(tmp_path / "t.xlsx")
    found = read(tmp_path / "t.xlsx", MIXED)
    assert (found.kind, found.source, found.ids[0]) == ("excel", "t.xlsx, sheet 'Data'", "100")
    assert found.columns == ["price", "kind=a", "kind=b", "kind=c", "x"]
    assert found.values[3, :4].tolist() == [3000.5, 1, 0, 0]
    assert np.isnan(found.values[0, 4])
    assert found.notes == ("sheet: 'Data' is read, as the largest; --sheet takes 'Read me'",)
    assert [c.kind for c in found.fields if c.name == "when"] == ["date"]
    for sheet in ("Data", "2"):
        again = read(tmp_path / "t.xlsx", MIXED._replace(sheet=sheet))
        np.testing.assert_array_equal(again.values, found.values)
    with pytest.raises(InputError, match="has no sheet 'Dta': it has 'Read me', 'Data'"):
        read(tmp_path / "t.xlsx", MIXED._replace(sheet="Dta"))
    (tmp_path / "broken.xlsx").write_bytes((tmp_path / "t.xlsx").read_bytes()[:-200])
    with pytest.raises(InputError):
        read(tmp_path / "broken.xlsx", MIXED)
