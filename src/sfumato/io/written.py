"""Numbers, dates and yes/no as people write them in tables."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "k.a.", "nan", "null", "none", "?", ".", "-", "--"}
    | {"#n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!"}  # as spreadsheets write them
)
NO_WORD = MISSING - {"none"}  # among words "none" is an answer

_CURRENCY = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CAD|AUD"
_BODY = re.compile(
    rf"(?P<minus>[-+−]|\()?\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+−])?"
    rf"(?P<digits>\d[\d.,'’\u00a0\u202f ]*|[.,]\d+)(?P<power>[eE][+-]?\d+)?"
    rf"\s*(?P<after>%|‰|{_CURRENCY}|(?<=\s)[A-Za-zµ°²³/]{{1,8}})?\s*\)?"
)
_SPACES = re.compile(r"(?<=\d)['’\u00a0\u202f ](?=\d{3}(?!\d))")
_THOUSANDS = {mark: re.compile(rf"\d{{1,3}}(\{mark}\d{{3}})+") for mark in ".,"}

_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*")

# Formats are tried in this order; a column takes the first that reads all its cells.
_DATES = (
    "%Y-%m-%d|%Y/%m/%d|%d.%m.%Y|%d/%m/%Y|%m/%d/%Y|%d-%m-%Y|%d.%m.%y|%d/%m/%y|%m/%d/%y|"
    "%d %b %Y|%d %B %Y|%b %d, %Y|%B %d, %Y"
)
_TRUE = {"true", "yes", "y", "t", "ja", "oui", "si", "sí", "on"}
_FALSE = {"false", "no", "n", "f", "nein", "non", "off"}


class Written(NamedTuple):
    """A number, and the sign that stood beside it: a percent sign, a currency or a unit."""

    value: float
    sign: str


def with_point(cell: str, decimal: str) -> str:
    """The cell with a point before the decimals; among decimal commas "2.541" are thousands."""
    if decimal == ".":
        return cell
    return cell.replace(".", "") if _GROUPED.fullmatch(cell) else cell.replace(",", ".")


def surely_pointed(cell: str) -> bool:
    """Whether the point of a number cannot stand between its thousands."""
    value = None if _GROUPED.fullmatch(cell) or "." not in cell else number(cell)
    return value is not None and value == value  # "n.a." is missing


def number(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, NaN for a missing one, ``None`` for text."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return float(with_point(cell, decimal))
    except ValueError:
        return None


def written_number(cell: str, decimal: str = ".") -> Written | None:
    """The number in a cell such as "13.2 %", "$1,234.50", "1 234" or "(7)"; None for other text.

    Examples
    --------
    >>> from sfumato.io.written import written_number
    >>> written_number("$1,234.50"), written_number("13,2 %", ","), written_number("3 rooms, 2")
    (Written(value=1234.5, sign='$'), Written(value=13.2, sign='%'), None)
    """
    found = _BODY.fullmatch(cell.strip())
    if found is None or (cell.strip().endswith(")") != (found["minus"] == "(")):
        return None
    digits = _bare_digits(found["digits"].strip(), decimal)
    if digits is None:
        return None
    value = float(digits + (found["power"] or ""))
    negative = (found["minus"] or "") in ("-", "−", "(") or (found["inner"] or "") in ("-", "−")
    return Written(-value if negative else value, found["after"] or found["before"] or "")


def _bare_digits(digits: str, decimal: str) -> str | None:
    """Digits with a point for the decimals and nothing between thousands."""
    digits = _SPACES.sub("", digits)
    if re.search(r"[^\d.,]", digits):
        return None
    if "." in digits and "," in digits:  # the later of the two stands before the decimals
        decimal = max(".,", key=digits.rindex)
    group = "," if decimal == "." else "."
    whole, point, part = digits.partition(decimal)
    if group in part or decimal in part:
        return None
    if group in whole and not _THOUSANDS[group].fullmatch(whole):
        return None
    return whole.replace(group, "") + ("." + part if point else "")


def as_day(words: list[str]) -> list[float] | None:
    """Days since 1 January 1970 of dates that are all written the same way; None for other text."""
    bare, epoch = [word.strip().removesuffix("Z") for word in words], datetime(1970, 1, 1)
    for clock in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S"):
        for form in _DATES.split("|"):
            with suppress(ValueError):
                dates = [datetime.strptime(word, form + clock) for word in bare]
                return [(date - epoch).total_seconds() / 86400 for date in dates]
    return None


def truth_words(words: list[str]) -> list[float] | None:
    """1 for words that say yes and 0 for no, where there are no others."""
    low = [word.strip().lower() for word in words]
    if not low or not set(low) <= _TRUE | _FALSE:
        return None
    return [float(word in _TRUE) for word in low]
