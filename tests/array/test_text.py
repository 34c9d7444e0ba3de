"""Names from outside are shown on one line and written without formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.array.text import from_cell, plain, to_cell


@pytest.mark.parametrize(
    "name, shown",
    [
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("日本 🙂", "日本 🙂"),
        (7, "7"),
    ],
)
def test_plain_spells_out_what_moves_the_cursor(name, shown):
    assert plain(name) == shown


@given(st.text(max_size=300), st.integers(5, 80))
def test_plain_fits_and_has_no_control_characters(name, width):
    shown = plain(name, width)
    assert len(shown) <= width
    assert shown.isprintable() or not any(ord(c) < 32 or c in "\u2028\u2029\u202e" for c in shown)


def test_long_names_keep_both_ends():
    assert plain("a" * 300 + "z", 9) == "aaaa…aaaz"


@given(st.text(max_size=20))
def test_cells_come_back_as_they_went(name):
    assert from_cell(to_cell(name)) == name


@pytest.mark.parametrize("name", ["=cmd()", "+1+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "-2+3"])
def test_formulas_are_disarmed(name):
    assert to_cell(name) == "'" + name


@pytest.mark.parametrize("name", ["-5", "+3.5e-7", "-.5", "1,5", "abc", "", "a=b"])
def test_numbers_and_plain_text_stay(name):
    assert to_cell(name) == name
