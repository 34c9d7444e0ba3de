"""Names from files and users, made safe to show and to write."""

import re
import unicodedata

_DIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_TRIGGERS = ("=", "+", "-", "@", "\t", "\r")


def plain(name: object, width: int = 60) -> str:
    """``name`` on one line of at most ``width`` characters, with control characters escaped."""
    text = "".join(_spelled(character) for character in str(name)[: 4 * width])
    if len(str(name)) > 4 * width or len(text) > width:
        tail = "".join(_spelled(character) for character in str(name)[-width:])
        half = (width - 1) // 2
        text = f"{text[: width - 1 - half]}…{tail[len(tail) - half :]}"
    return text


def _spelled(character: str) -> str:
    if character in _DIRECTIONAL or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode("ascii")
    return character


def to_cell(name: str) -> str:
    """``name`` as a table cell; an apostrophe keeps spreadsheets from reading it as a formula."""
    if (name.startswith(_TRIGGERS) and not _NUMBER.fullmatch(name)) or (
        name.startswith("'") and name.lstrip("'").startswith(_TRIGGERS)
    ):
        return "'" + name
    return name


def from_cell(cell: str) -> str:
    """The name that was passed to ``to_cell``."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_TRIGGERS) else cell
