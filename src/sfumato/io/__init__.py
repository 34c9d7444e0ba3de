"""Reading and writing of files: tables, arrays, result folders, models and checkpoints.

The type of a file is recognised by its first bytes. Sizes are checked before anything is allocated,
pickles are never read, and files are written completely or not at all.
"""

from .reading import InputError, Roles, Table, read
from .results import Result, read_result, write_result

__all__ = ["InputError", "Result", "Roles", "Table", "read", "read_result", "write_result"]
