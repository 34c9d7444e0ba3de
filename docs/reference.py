"""The lists of the API page, read from the library itself, so that no name can be forgotten."""

import importlib
import re

import sfumato

ALL = re.compile(r"^\{all (sfumato[\w.]*): (.*)\}$", re.MULTILINE)
LIST = """
{title}
{line}

.. currentmodule:: {module}

.. autosummary::
   :toctree: generated
   :nosignatures:

   {names}
"""


def names(module: str) -> list[str]:
    """Public classes and functions of a module, in the order of its ``__all__``."""
    found = dir(sfumato) if module == "sfumato" else importlib.import_module(module).__all__
    place = importlib.import_module(module)
    chosen = [name for name in found if callable(getattr(place, name))]
    if module != "sfumato":
        return sorted(chosen)
    order = list(sfumato._homes())  # models in the order of their table
    return sorted(chosen, key=order.index)


def listed(module: str, title: str) -> str:
    """A heading and the list of names of a module."""
    line, every = "-" * len(title), "\n   ".join(names(module))
    return LIST.format(title=title, line=line, module=module, names=every)


def expand(page: str) -> str:
    """The page with every line ``{all MODULE: TITLE}`` replaced by the names of that module."""
    return ALL.sub(lambda hit: listed(hit[1], hit[2]), page)
