"""Tables and figures of the sources, run again, with published next to measured values.

Each experiment is a function ``(shelf, *, n_seeds=10) -> Outcome``, where the shelf finds data
sets; ``EXPERIMENTS`` gives them names for the command line.
"""

from importlib import import_module
from pathlib import Path

from .shelf import Outcome, ResultTable, Shelf

__all__ = ["EXPERIMENTS", "Outcome", "ResultTable", "Shelf", "run"]

EXPERIMENTS = {
    "similarity-table": "similarity:table",
    "similarity-figures": "similarity:figures",
    "consensus-table": "consensus:table",
    "discriminative-table": "discriminative:table",
    "rounding-table": "spectral:rounding_table",
    "mixture-steps": "mixture_steps:figures",
    "cluster-kernel-table": "spectral:cluster_kernel_table",
    "learning-table": "spectral:learning_table",
}


def run(name: str, data: str | Path | Shelf | None = None, *, n_seeds: int = 10) -> Outcome:
    """The outcome of one experiment: a table, pictures, or both.

    Parameters
    ----------
    name : str
        One of ``EXPERIMENTS``.
    data : path or Shelf, optional
        Folder with the data sets that scikit-learn does not include, or ``Shelf(folder,
        online=True)`` to ask OpenML for those not in the folder. Data sets that are not found are
        left out, and the notes of the table say so.
    n_seeds : int, default=10
        Runs to average over.

    Examples
    --------
    >>> from sfumato import papers
    >>> outcome = papers.run("rounding-table", n_seeds=1)
    >>> outcome.table.columns
    ('data', 'rounding', 'matched accuracy', 'J of the partition')
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"name must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    module, function = EXPERIMENTS[name].split(":")
    shelf = data if isinstance(data, Shelf) else Shelf(data)
    return getattr(import_module(f".{module}", __name__), function)(shelf, n_seeds=n_seeds)
