"""The command line ``sfumato``: soft clustering for people with a file and no Python."""

from .main import main

__all__ = ["main"]
