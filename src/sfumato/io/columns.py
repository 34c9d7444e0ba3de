"""Types of columns: numbers, yes/no, categories, dates, and columns that are not clustered; and how
people write them in tables.

Readers return ``Raw`` columns; ``as_table`` decides the type of each, and puts those that are used
into one matrix.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from ..array.text import from_cell, plain
from .reading import InputError, Roles, Table


class Tuning(NamedTuple):
    """Thresholds that decide the type of a column."""

    # With more values, a text column would be mostly zeros when one-hot encoded.
    categories: int = 20
    # Share of distinct values above which a column names objects; some rows may be repeated.
    names: float = 0.9
    # Number of rows from which consecutive whole numbers count as a row counter.
    counter: int = 10


TUNING = Tuning()
_ID_TITLE = re.compile(
    r"(?i:(.*[\s_.-])?(id|ids|uuid|guid|key|index|idx|rownum|row|nr|no|record|number|nummer"
    r"|case|customer|participant|patient|respondent|subject))"
    r"|.*[a-z](Id|ID|Key|Nr|No|Number)|[A-Z]{1,2}ID|(?i:unnamed: 0)"
)

MISSING = frozenset(
    {
        "",
        "na",
        "n/a",
        "n.a.",
        "n. a.",
        "n.d.",
        "n. d.",
        "k.a.",
        "k. a.",
        "nan",
        "null",
        "none",
        "?",
        ".",
        "-",
        "--",
    }
    | {"#n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!"}  # as spreadsheets write them
)
NO_WORD = MISSING - {"none"}  # in a column of words, "none" is an answer

_CURRENCY = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CAD|AUD"
_BODY = re.compile(
    rf"(?P<minus>[-+−]|\()?\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+−])?"
    rf"(?P<digits>\d[\d.,'’\u00a0\u202f ]*|[.,]\d+)(?P<power>[eE][+-]?\d+)?"
    rf"\s*(?P<after>%|‰|{_CURRENCY}|(?<=\s)[A-Za-zµ°²³/]{{1,8}})?\s*\)?"
)
_SPACES = re.compile(r"(?<=\d)['’\u00a0\u202f ](?=\d{3}(?!\d))")
_THOUSANDS = {mark: re.compile(rf"\d{{1,3}}(\{mark}\d{{3}})+") for mark in ".,"}
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*")

# Formats are tried in this order; the first that fits all cells of a column is used.
_DATES = (
    "%Y-%m-%d|%Y/%m/%d|%d.%m.%Y|%d/%m/%Y|%m/%d/%Y|%d-%m-%Y|%d.%m.%y|%d/%m/%y|%m/%d/%y|"
    "%d %b %Y|%d %B %Y|%b %d, %Y|%B %d, %Y"
)
_TRUE = {"true", "yes", "y", "t", "ja", "oui", "si", "sí", "on"}
_FALSE = {"false", "no", "n", "f", "nein", "non", "off"}


def with_point(cell: str, decimal: str) -> str:
    """The cell with a decimal point; in a column of decimal commas "2.541" means thousands."""
    if decimal == ".":
        return cell
    return cell.replace(".", "") if _GROUPED.fullmatch(cell) else cell.replace(",", ".")


def surely_pointed(cell: str) -> bool:
    """Whether the point of a number cannot separate thousands."""
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


def written_number(cell: str, decimal: str = ".") -> tuple[float, str] | None:
    """The number in a cell such as "13.2 %", "$1,234.50", "1 234" or "(7)", and the percent sign,
    currency or unit next to it; None for other text.

    Examples
    --------
    >>> from sfumato.io.columns import written_number
    >>> written_number("$1,234.50"), written_number("13,2 %", ","), written_number("3 rooms, 2")
    ((1234.5, '$'), (13.2, '%'), None)
    """
    found = _BODY.fullmatch(cell.strip())
    if found is None or (cell.strip().endswith(")") != (found["minus"] == "(")):
        return None
    digits = _digits_of(found["digits"].strip(), decimal)
    if digits is None:
        return None
    value = float(digits + (found["power"] or ""))
    negative = (found["minus"] or "") in ("-", "−", "(") or (found["inner"] or "") in ("-", "−")
    return -value if negative else value, found["after"] or found["before"] or ""


def _digits_of(digits: str, decimal: str) -> str | None:
    """Digits with a decimal point and without thousands separators."""
    digits = _SPACES.sub("", digits)
    if re.search(r"[^\d.,]", digits):
        return None
    if "." in digits and "," in digits:  # the last one is the decimal sign
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
    texts, epoch = [word.strip().removesuffix("Z") for word in words], datetime(1970, 1, 1)
    for clock in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S"):
        for form in _DATES.split("|"):
            with suppress(ValueError):
                dates = [datetime.strptime(word, form + clock) for word in texts]
                return [(date - epoch).total_seconds() / 86400 for date in dates]
    return None


def truth_words(words: list[str]) -> list[float] | None:
    """1 for words that mean yes and 0 for no; None if there are other words."""
    low = [word.strip().lower() for word in words]
    if not low or not set(low) <= _TRUE | _FALSE:
        return None
    return [float(word in _TRUE) for word in low]


def without(cells: Sequence[str], missing: Sequence[str]) -> Sequence[str]:
    """Cells of which those that mean a missing value, as words or numbers, are empty."""
    if not missing:
        return cells
    values = numbers_among(missing)
    return ["" if cell.strip() in missing or number(cell) in values else cell for cell in cells]


def numbers_among(words: Sequence[str]) -> list[float]:
    """The words that are numbers."""
    return [value for word in words if (value := number(word)) is not None]


class Raw(NamedTuple):
    """A column as read: numbers, or words with a code for each row (-1 for missing)."""

    name: str
    numbers: np.ndarray | None
    words: list[str] = []
    codes: np.ndarray | None = None
    kind: str = ""  # type declared by the file: "yes/no", "date", or ""
    signs: tuple[str, ...] = ()  # percent, currency and unit signs found next to numbers
    # in a column of numbers: the first cell that is not a number, its line, and how many there are
    wrong: tuple[str, int, int] | None = None


class Column(NamedTuple):
    """A column's type, whether it is used, and a note that says how or why not."""

    name: str
    kind: str  # number, yes/no, category, date, identifier, text, constant or empty
    used: bool
    note: str
    numbers: np.ndarray | None = None
    codes: np.ndarray | None = None  # codes of categories; -1 for missing
    categories: list[str] = []

    @property
    def missing(self) -> int:
        """Number of missing values."""
        if self.codes is not None:
            return int((self.codes < 0).sum())
        return int(np.isnan(np.asarray(self.numbers)).sum())

    @property
    def coded(self) -> bool:
        """Whether the values are categories, yes and no, or only two numbers, as codes are."""
        if self.kind != "number" or self.numbers is None:
            return True
        values = self.numbers[~np.isnan(self.numbers)]
        ends = (values == values.min(initial=np.inf)) | (values == values.max(initial=-np.inf))
        return len(values) >= TUNING.counter and bool(ends.all())


class Cells:
    """Collects one column of a text file; without ``words``, every cell must be a number."""

    def __init__(self, name: str, decimal: str, *, words: bool = True) -> None:
        self.name, self.decimal, self.words = name, decimal, words
        self.blocks: list[np.ndarray] = []  # arrays of floats, or of codes of words
        self.coder: dict[str, int] = {}
        self.signs: set[str] = set()
        self.wrong: list[tuple[str, int]] = []
        self.others: list[dict[int, str]] = []  # by block: cells that are not numbers

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add the cells of a block, which were read from these lines."""
        self.others.append({})
        with suppress(ValueError):
            points = (with_point(cell, ",") for cell in cells) if self.decimal == "," else cells
            values = np.fromiter(map(float, points), np.float64, len(cells))
            if np.isfinite(values).all():
                self.blocks.append(values)
                return
        found = [self._value(cell) for cell in cells]
        others = [place for place, value in enumerate(found) if value is None]
        present = len(cells) - sum(value is not None and np.isnan(value) for value in found)
        if self.words and 2 * len(others) > present:
            self.blocks.append(self._coded(cells, NO_WORD))
            return
        self.others[-1] = {place: cells[place] for place in others}
        if others and not self.wrong:
            self.wrong = [(cells[others[0]], lines[others[0]])]
        self.blocks.append(np.array([np.nan if v is None else v for v in found], dtype=np.float64))

    def _coded(self, cells: Sequence[str], absent: frozenset[str]) -> np.ndarray:
        """Codes 0, 1, ... of words in order of appearance; -1 for missing ones."""
        codes = [
            -1
            if (word := cell.strip()).lower() in absent
            else self.coder.setdefault(word, len(self.coder))
            for cell in cells
        ]
        return np.array(codes, dtype=np.int32)

    def _value(self, cell: str) -> float | None:
        value = number(cell, self.decimal)
        if value is not None:
            return None if np.isinf(value) else value
        value, sign = written_number(cell, self.decimal) or (None, "")
        self.signs.add(sign)
        return value

    def finish(self) -> Raw:
        """The whole column: words if any block is mostly words, otherwise numbers."""
        if all(block.dtype.kind == "f" for block in self.blocks):
            signs = tuple(sorted(self.signs - {""}))
            count = sum(map(len, self.others))
            wrong = (*self.wrong[0], count) if count else None
            return Raw(self.name, np.concatenate(self.blocks), signs=signs, wrong=wrong)
        codes = [
            block if block.dtype.kind == "i" else self._recoded(block, others)
            for block, others in zip(self.blocks, self.others, strict=True)
        ]
        return Raw(self.name, None, list(self.coder), np.concatenate(codes))

    def _recoded(self, values: np.ndarray, others: dict[int, str]) -> np.ndarray:
        """Codes of numbers in a column that later turned out to hold words."""
        words = ["" if np.isnan(value) else f"{value:.15g}" for value in values]
        for place, cell in others.items():
            words[place] = cell.strip()
        return self._coded(words, frozenset({""}))


class Labels(Cells):
    """Collects one column of labels of any form."""

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add the cells of a block."""
        self.others.append({})
        self.blocks.append(self._coded(cells, MISSING | {"-1", "-1.0"}))


def no_number(raw: Raw) -> str:
    """Message about the first cell of a column of numbers that is not a number."""
    cell, line, count = raw.wrong or ("", 0, 0)
    more = f" (and {count - 1:,} more cells)" if count > 1 else ""
    where = f"line {line}, column '{plain(raw.name, 40)}'"
    return f"{where}: '{plain(cell, 40)}' is not a finite number{more}"


def _judged(raw: Raw, named: bool) -> Column:
    if raw.numbers is not None:
        return _judged_numbers(raw, named)
    words, codes = raw.words, np.asarray(raw.codes)
    present = int((codes >= 0).sum())
    if not present:
        return Column(raw.name, "empty", False, "no cell has a value")
    for kind, meaning in (("yes/no", truth_words), ("date", as_day)):
        if (found := meaning(words)) is not None:
            values = np.where(codes >= 0, np.array(found)[np.maximum(codes, 0)], np.nan)
            return _judged_numbers(Raw(raw.name, values, kind=kind), named)
    return _judged_words(raw, codes, present, named)


def _judged_words(raw: Raw, codes: np.ndarray, present: int, named: bool) -> Column:
    words = raw.words
    if len(words) == 1:
        return Column(raw.name, "constant", False, f"always '{plain(words[0], 30)}'")
    order = sorted(range(len(words)), key=words.__getitem__)
    places = np.empty(len(words) + 1, dtype=np.int32)
    places[order], places[-1] = np.arange(len(words)), -1
    held = Column(raw.name, "category", True, "", None, places[codes], sorted(words))
    if len(words) >= TUNING.names * present and present > 2:
        note = f"text that is different in {'' if len(words) == present else 'almost '}every row"
        return held._replace(kind="identifier", used=False, note=note)
    if not named and (len(words) > TUNING.categories or 2 * len(words) > max(present, 4)):
        note = f"text with {len(words):,} different values, too many for categories"
        return held._replace(kind="text", used=False, note=note)
    return held._replace(note=f"{len(words)} categories")


def _judged_numbers(raw: Raw, named: bool) -> Column:
    values = np.asarray(raw.numbers)
    present = values[~np.isnan(values)]
    kind = raw.kind or "number"
    if not len(present):
        return Column(raw.name, "empty", False, "no cell has a value")
    if len(values) > 2 and present.min() == present.max():
        return Column(raw.name, "constant", False, "always the same value", values)
    if kind == "date":
        note = "read as days" if named else "dates; name it in --columns to use it, as days"
        return Column(raw.name, "date", named, note, values)
    if kind == "number" and not named and (why := _identifier(raw.name, values, present)):
        return Column(raw.name, "identifier", False, why, values)
    note = f"read without {', '.join(raw.signs)}" if raw.signs else ""
    return Column(raw.name, kind, True, note, values)


def _identifier(name: str, values: np.ndarray, present: np.ndarray) -> str:
    """Why a column of numbers looks like an identifier; "" if it does not."""
    if len(present) < 3 or not np.array_equal(present, np.round(present)):
        return ""
    values_seen = len(np.unique(present))
    distinct = values_seen == len(values)
    most = values_seen >= TUNING.names * len(values)
    # A few values that repeat in many rows are groups (such as wards), whatever their column name.
    several = "id" in name.lower() and values_seen > TUNING.categories
    if _ID_TITLE.fullmatch(name.strip()) and (most or several):
        return "called like an identifier"
    if len(values) >= TUNING.counter and distinct and np.ptp(values) == len(values) - 1:
        return "counts the rows"
    return ""


def _as_known(raw: Raw, how: Mapping[str, Any]) -> Column:
    """A column of new objects, read in the same way as for the fitted objects."""
    name, kind, categories = raw.name, how["kind"], list(how["categories"])
    if kind == "category":
        known = {word: code for code, word in enumerate(categories)}
        words, codes = raw.words, np.asarray(raw.codes)
        if raw.numbers is not None:
            values, codes = np.unique(raw.numbers, return_inverse=True)
            words = [f"{value:.15g}" for value in values]
        places = np.array([known.get(word, -1) for word in words] + [-1], dtype=np.int32)
        wrong = [word for word in words if word not in known and word != "nan"]
        note = f"never seen before: {', '.join(plain(word, 20) for word in wrong[:5])}"
        return Column(name, kind, True, note if wrong else "", None, places[codes], categories)
    if raw.numbers is None:
        found = _judged(raw, True)
        if found.kind not in (kind, "constant", "empty") or found.numbers is None:
            cell = next((word for word in raw.words if number(word) is None), "")
            note = f"'{plain(cell, 30)}' is not a {'date' if kind == 'date' else kind}"
            return Column(name, "text", False, note)
        return found._replace(kind=kind, used=True, note="")
    return Column(name, kind, True, "", raw.numbers)


def reading(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """How the columns were read, saved with a result to read new objects the same way."""
    kept = ("name", "kind", "used", "note")
    words = (column.categories if column.used else [] for column in columns)
    each = ({part: getattr(column, part) for part in kept} for column in columns)
    return [one | {"categories": some} for one, some in zip(each, words, strict=True)]


def encoded_names(columns: Sequence[Column]) -> list[list[str]]:
    """Names of the encoded columns, one list for each used column."""
    used = (column for column in columns if column.used)
    return [[f"{each.name}={word}" for word in each.categories] or [each.name] for each in used]


def encode(columns: Sequence[Column], *, one_hot: bool = True) -> np.ndarray:
    """The used columns as a matrix, NaN if missing; categories one-hot or as codes."""
    blocks = []
    for column in columns:
        if not column.used:
            continue
        if column.kind == "category":
            codes = np.asarray(column.codes)
            levels = np.arange(len(column.categories))
            block = (codes[:, None] == levels) if one_hot else codes[:, None]
            blocks.append(np.where(codes[:, None] < 0, np.nan, block.astype(np.float64)))
        else:
            blocks.append(np.asarray(column.numbers, dtype=np.float64)[:, None])
    return np.hstack(blocks)


def as_table(
    titles: Sequence[str],
    places: tuple[dict[str, int], list[int]],
    raws: Mapping[int, Raw],
    names: Mapping[str, list[str]],
    roles: Roles,
    source: str,
) -> Table:
    """The table of all columns that can be clustered.

    ``places`` are the positions of special columns by role and those of the others, ``raws`` the
    columns as read, ``names`` the ids and classes by role.
    """
    special, evidence = places
    taken = [raws[place] for place in evidence]
    ids, id_column = names.get("id"), titles[special["id"]] if "id" in special else None
    columns, fields, labels = [raw.name for raw in taken], None, None
    if roles.mixed:
        fields = _columns(taken, roles)
        _refuse(taken, fields, roles, source)
        values, columns = encode(fields), [name for g in encoded_names(fields) for name in g]
        found = _id_column(fields) if ids is None and roles.reading is None else None
        if found is not None:
            ids, id_column = _names(found), found.name
    elif roles.labels:
        labels = [raw.words for raw in taken]
        values = np.column_stack([np.asarray(raw.codes) for raw in taken])
    else:
        values = np.column_stack([_numbers(raw, source) for raw in taken])
    weights = _numbers(raws[special["weight"]], source) if "weight" in special else None
    classes = names.get("classes")
    parts = values, columns, ids, id_column, weights, classes, source
    return Table(*parts, label_names=labels, fields=fields)


def _numbers(raw: Raw, source: str) -> np.ndarray:
    """The numbers of a column that must be numeric."""
    if raw.wrong or raw.numbers is None or raw.kind == "date":
        holds = f"column '{plain(raw.name, 40)}' holds {raw.kind or 'text'}, not numbers"
        raise InputError(
            f"{source}, {no_number(raw) if raw.wrong else holds}: make it numbers, or leave the "
            "column out with --drop, --id-column or --class-column"
        )
    return raw.numbers


def _columns(raws: Sequence[Raw], roles: Roles) -> list[Column]:
    """Type of every column; those of a fitted model that the table lacks are all missing."""
    if roles.reading is None:
        return [_judged(raw, roles.keep is not None) for raw in raws]
    there = {raw.name: raw for raw in raws}
    if len(there) < len(raws):  # if names repeat, the order of the columns decides
        return [_as_known(raw, how) for raw, how in zip(raws, roles.reading, strict=True)]
    rows = len(next(held for held in (raws[0].numbers, raws[0].codes) if held is not None))
    known = ((there.get(how["name"]), how) for how in roles.reading)
    return [_as_known(raw, how) if raw else _absent(how, rows) for raw, how in known]


def _absent(how: Mapping[str, Any], rows: int) -> Column:
    note = (
        "not in this table, taken as missing; for clusters that do without, fit again with --drop, "
        "or with --class-column for known classes"
    )
    column = Column(how["name"], how["kind"], True, note, categories=list(how["categories"]))
    if how["kind"] == "category":
        return column._replace(codes=np.full(rows, -1, dtype=np.int32))
    return column._replace(numbers=np.full(rows, np.nan))


def _refuse(raws: Sequence[Raw], columns: Sequence[Column], roles: Roles, source: str) -> None:
    """Raise one error for all columns that cannot be used."""
    said = [no_number(raw) for raw in raws if raw.wrong]
    if roles.reading is not None or roles.keep is not None:
        said += [f"column '{plain(c.name, 40)}': {c.note}" for c in columns if not c.used]
    if said:
        fix = (
            "make them numbers, name words that mean a missing value in --missing, or leave the "
            "column out with --drop, --id-column or --class-column"
            if roles.reading is None
            else "write them as in the table of the fit, or leave the cells empty, as missing"
        )
        more = f"; and {len(said) - 6} more columns" if len(said) > 6 else ""
        raise InputError(f"{source}, {'; '.join(said[:6])}{more}: {fix}")
    if not any(column.used for column in columns):
        why = "; ".join(f"'{plain(column.name, 30)}': {column.note}" for column in columns[:6])
        raise InputError(f"{source}: no column is left to cluster ({why})")


def _id_column(columns: Sequence[Column]) -> Column | None:
    """The column of object names: the first identifier that differs in almost every row."""
    for column in columns:
        names = _names(column) if column.kind == "identifier" else []
        if names and len(set(names)) >= TUNING.names * len(names):
            return column
    return None


def _names(column: Column) -> list[str]:
    if column.codes is not None:
        words = [from_cell(word) for word in column.categories]
        return ["" if code < 0 else words[code] for code in column.codes]
    values = np.asarray(column.numbers)
    return ["" if np.isnan(value) else f"{value:.15g}" for value in values]
