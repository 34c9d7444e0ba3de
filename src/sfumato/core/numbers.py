"""How many clusters: the gap in the spectrum of a similarity, less what clusters do not reproduce.

With lambda the eigenvalues of the normalised similarity in descending order, Z_k its k leading
eigenvectors with rows of length one, and U_k memberships in k clusters,

    gap_k    = (lambda_k - lambda_{k+1}) / (1 - lambda_{k+1})
    misfit_k = |Z_k Z_k' - U_k U_k'|^2 / |Z_k Z_k'|^2
    score_k  = gap_k max(0, 1 - 10 misfit_k)

The gap is 1 where k blocks share nothing, and 0 where no number is special. The misfit is 0 where
the rows of Z_k gather at k orthogonal directions, as those of k blocks do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .types import ArrayLike

__all__ = ["eigengap", "misfit", "misfit_of_sums", "penalized_eigengap"]

# A misfit of a tenth takes away all of a gap: clusters leave .000 to .03 of the kernel, continua
# and noise .03 to .2 (45 small data sets of many shapes; noise in 2 to 20 dimensions).
MISFIT_PENALTY = 10.0


def misfit(factor: ArrayLike, memberships: ArrayLike) -> float:
    """Share of the cluster kernel that memberships do not reproduce, |ZZ' - UU'|^2 / |ZZ'|^2.

    Parameters
    ----------
    factor : array of shape (n, k)
        Leading eigenvectors of the normalised similarity, every row scaled to length one.
    memberships : array of shape (n, k')

    Returns
    -------
    misfit : float
        About 0 to .03 where there are k clusters, .04 and more where there are not.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.selection.criteria import misfit
    >>> misfit(np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 0, 1]])
    0.0
    """
    Z, U = (np.asarray(values, dtype=np.float64) for values in (factor, memberships))
    return misfit_of_sums(Z.T @ Z, Z.T @ U, U.T @ U)


def misfit_of_sums(factor: ArrayLike, cross: Any, memberships: ArrayLike) -> float:
    """The misfit from the k x k sums Z'Z, Z'U and U'U, which add up over blocks of objects."""
    square, both, own = (
        float(np.square(np.asarray(sums, dtype=np.float64)).sum())
        for sums in (factor, cross, memberships)
    )
    return max(0.0, (square - 2 * both + own) / max(square, np.finfo(float).tiny))


def eigengap(eigenvalues: ArrayLike) -> np.ndarray:
    """Relative eigengaps for k = 1, ..., m - 1 of m eigenvalues in descending order.

    (lambda_k - lambda_{k+1}) / (1 - lambda_{k+1}): 1 where k blocks share nothing, 0 where no gap
    follows. The first entry, for one cluster, is NaN: it says nothing.

    Examples
    --------
    >>> from sfumato.selection.criteria import eigengap
    >>> eigengap([1.0, 0.9, 0.2, 0.1]).round(3)
    array([  nan, 0.875, 0.111])
    """
    values = np.minimum(np.asarray(eigenvalues, dtype=np.float64), 1.0)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"eigenvalues must be an array of at least two numbers, got shape {values.shape}"
        )
    gaps = (values[:-1] - values[1:]) / np.maximum(1.0 - values[1:], 1e-9)
    gaps[0] = np.nan
    return gaps


def penalized_eigengap(eigengap: Any, misfit: Any) -> Any:
    """Eigengap less what the misfit takes from it, ``eigengap * max(0, 1 - 10 misfit)``."""
    return eigengap * np.maximum(0.0, 1.0 - MISFIT_PENALTY * np.asarray(misfit, dtype=np.float64))
