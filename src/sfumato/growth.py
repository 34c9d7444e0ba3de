"""Growth transforms: maximise a polynomial with nonnegative coefficients over rows on the simplex.

For  P(U)  with nonnegative coefficients and the rows of  U  on the simplex, the update

    u_ir  <-  u_ir  dP/du_ir  /  sum_s u_is dP/du_is

never lowers P (Baum and Eagon 1967, Bulletin of the AMS 73; Baum and Sell 1968, Pacific Journal of
Mathematics 27: P need not be homogeneous), and neither does a partial step, eta M(U) + (1 - eta) U
with the update M(U) and 0 < eta <= 1. A polynomial with negative coefficients is made nonnegative
by adding a constant times sum over the rows of (sum_r u_ir)^d, which is constant on the simplex:
``offset`` adds such a constant to the gradient.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .array.validation import check_number
from .engine import loop
from .memberships import check_memberships

__all__ = ["Growth", "growth_step", "maximize"]


class Growth(NamedTuple):
    """Result of a maximisation by growth transforms."""

    memberships: np.ndarray  # (n, k), rows on the simplex
    value: float  # of the polynomial, at the memberships
    history: np.ndarray  # value before each step
    n_iter: int
    converged: bool


def growth_step(U: np.ndarray, gradient: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
    """Memberships (n, k) after one growth transform; rows with zero gradient do not change.

    Parameters
    ----------
    U : array of shape (n, k)
        Rows on the simplex.
    gradient : array of shape (n, k)
        Derivatives of the polynomial at ``U``, all nonnegative.
    rate : float, default=1.0
        Step length eta in (0, 1] towards the transform; every length increases the polynomial.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.growth import growth_step
    >>> growth_step(np.array([[0.5, 0.5]]), np.array([[3.0, 1.0]]))
    array([[0.75, 0.25]])
    """
    U, gradient = (np.asarray(part, dtype=np.float64) for part in (U, gradient))
    if gradient.shape != U.shape:
        raise ValueError(f"gradient must have the shape {U.shape} of U, got {gradient.shape}")
    if not (np.isfinite(U).all() and (U >= 0).all()):
        raise ValueError("U must hold memberships, finite and nonnegative")
    if not np.isfinite(gradient).all() or (gradient < 0).any():
        raise ValueError(
            f"gradient must be finite and nonnegative, got {gradient.min():g} at the least: "
            "add an offset to make the coefficients nonnegative"
        )
    if not check_number(rate, "rate", low=0.0, high=1.0) > 0.0:
        raise ValueError("rate must lie in (0, 1], got 0: no step would be taken")
    largest = gradient.max(axis=1, keepdims=True)
    grown = U * (gradient / np.where(largest > 0, largest, 1.0))
    total = grown.sum(axis=1, keepdims=True)
    grown = np.where(total > 0, grown / np.where(total > 0, total, 1.0), U)
    return grown if rate == 1.0 else rate * grown + (1.0 - rate) * U


def maximize(
    polynomial: Callable[[np.ndarray], tuple[float, np.ndarray]],
    U: np.ndarray,
    *,
    offset: float = 0.0,
    rate: float = 1.0,
    max_iter: int = 1000,
    tol: float = 1e-9,
) -> Growth:
    """A local maximum of a polynomial over memberships, with its history, as a ``Growth``.

    Parameters
    ----------
    polynomial : function
        Takes memberships (n, k) and returns the value and the gradient (n, k) of a polynomial whose
        coefficients are nonnegative once ``offset`` is added.
    U : array of shape (n, k)
        Where to start. Zeros stay zero and equal rows may stay equal, so start from random rows.
    offset : float, default=0.0
        Added to every derivative. For polynomials with negative coefficients a larger offset is
        safer, but slower.
    rate : float, default=1.0
        Step length in (0, 1], as in ``growth_step``.
    max_iter, tol : int, float
        Largest number of steps, and the relative change of the value at which to stop.

    Examples
    --------
    Two pairs of objects that belong together:

    >>> import numpy as np
    >>> from sfumato.growth import maximize
    >>> W = np.kron(np.eye(2), np.ones((2, 2)))
    >>> U = np.random.default_rng(0).dirichlet([1, 1], size=4)
    >>> found = maximize(lambda U: (float((U * (W @ U)).sum()), 2 * W @ U), U)
    >>> bool(found.value > 7.99)
    True
    """
    check_number(offset, "offset", low=0.0)
    check_number(max_iter, "max_iter", low=1, integer=True)
    check_number(tol, "tol", low=0.0)
    start = np.array(check_memberships(U), dtype=np.float64)

    def step(U: np.ndarray) -> tuple[np.ndarray, float]:
        value, gradient = polynomial(U)
        return growth_step(U, np.asarray(gradient) + offset, rate=rate), float(value)

    run = loop.iterate(step, start, max_iter=max_iter, tol=tol)
    value = float(polynomial(run.state)[0])
    return Growth(run.state, value, run.history, run.n_iter, run.converged)
