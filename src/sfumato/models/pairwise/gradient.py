"""The pairwise model for operators: projected gradients with exact step lengths.

Along U + s D the objective is a ratio of polynomials in s,

    f(s) = |W|^2 - t(s)^2 / q(s)      t quadratic, q quartic
            (scale fixed: |W|^2 - 2 a t(s) + a^2 q(s))

so that the best s in (0, 1] comes from the roots of one small polynomial, and a step costs one
product W D (Birgin, Martinez and Raydan 2000 for the spectral step length).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import polynomial as poly

from ...numerics import simplex
from . import kernel
from .kernel import Problem, fitted_scale, objective, weighted


class GradientState(NamedTuple):
    """Memberships (n, r, k), scale (r,), W U, step lengths (r,), and the age of W U in steps."""

    U: np.ndarray
    scale: np.ndarray
    product: np.ndarray
    length: np.ndarray
    age: int = 0


def start(problem: Problem, U: np.ndarray) -> GradientState:
    """The initial state for memberships (n, r, k)."""
    state = kernel.start(problem, U)
    descent = descents(problem, U, state.product, state.scale)
    length = 1.0 / np.maximum(np.abs(descent).max(axis=(0, 2)), np.finfo(float).tiny)
    return GradientState(U, state.scale, state.product, length)


def descents(problem: Problem, U: np.ndarray, product: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Descent directions R = W U - a U S, without diagonal terms if the problem excludes them."""
    R = -kernel.slopes(problem, kernel.State(U, scale, None, product))
    if problem.held is not None:
        R[problem.held] = 0.0
    return R


def gradient_step(problem: Problem, state: GradientState) -> tuple[GradientState, np.ndarray]:
    """State after one projected step for every run, and objectives."""
    U, scale, P, length, age = state
    R = descents(problem, U, P, scale)
    D = simplex.project(U + length.astype(U.dtype)[None, :, None] * R) - U
    Q = (problem.W @ weighted(problem, D)).reshape(D.shape)
    steps, values, scales = np.empty((3, U.shape[1]))
    for run in range(len(steps)):
        of_run = (A[:, run].astype(np.float64, copy=False) for A in (U, D, P, Q))
        t, q = polynomials(problem, *of_run)
        steps[run] = s = _best_step(problem.scale, t, q)
        t_s, q_s = np.atleast_1d(poly.polyval(s, t)), np.atleast_1d(poly.polyval(s, q))
        scales[run] = fitted_scale(problem, t_s, q_s)[0]
        values[run] = objective(t_s, q_s, problem.square, scales[run])[0]
    along = steps.astype(U.dtype)[None, :, None]
    U_new, age = U + along * D, age + 1
    if age >= 25:  # the recursion accumulates errors
        U_new = simplex.normalize(np.maximum(U_new, 0.0))
        P_new, age = (problem.W @ weighted(problem, U_new)).reshape(U.shape), 0
    else:
        P_new = P + along * Q
    bend = R - descents(problem, U_new, P_new, scales)
    moved = np.einsum("nrk,nrk->r", D, D) * steps
    turn = np.einsum("nrk,nrk->r", D, bend)
    with np.errstate(over="ignore"):  # an infinite step length means no bound
        bounded = np.clip(moved / np.where(turn > 0, turn, 1.0), 1e-3 * length, 1e3 * length)
        length = np.where(turn > 0, bounded, 2 * length)
    return GradientState(U_new, scales, P_new, length, age), values


def polynomials(
    problem: Problem, U: np.ndarray, D: np.ndarray, P: np.ndarray, Q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of t(s) and q(s) along U + s D for one run, lowest power first."""
    v = np.ones(len(U)) if problem.weights is None else problem.weights
    U_v, D_v = U * v[:, None], D * v[:, None]
    t = np.array([np.vdot(U_v, P), 2 * np.vdot(D_v, P), np.vdot(D_v, Q)])
    S, A, B = U_v.T @ U, U_v.T @ D, D_v.T @ D
    A = A + A.T
    first, last = 2 * np.vdot(S, A), np.vdot(B, B)
    middle = np.vdot(A, A) + 2 * np.vdot(S, B)
    q = np.array([np.vdot(S, S), first, middle, 2 * np.vdot(A, B), last])
    if problem.exclude:
        square = [np.sum(U * U, axis=1), 2 * np.sum(U * D, axis=1), np.sum(D * D, axis=1)]
        left, similarity = (v * part for part in problem.self_pairs())
        t -= [float(similarity @ c) for c in square]
        for i in range(3):
            for j in range(3):
                q[i + j] -= left @ (square[i] * square[j])
    return t, q


def _best_step(scale: float | None, t: np.ndarray, q: np.ndarray) -> float:
    """The step s in [0, 1] with the smallest objective."""
    if scale is None:
        slope = poly.polysub(2 * poly.polymul(poly.polyder(t), q), poly.polymul(t, poly.polyder(q)))
    else:
        slope = poly.polysub(2 * poly.polyder(t), scale * poly.polyder(q))
    size = np.abs(slope).max(initial=0.0)
    roots = poly.polyroots(poly.polytrim(slope / size, 1e-14)) if size > 0 else np.zeros(0)
    real = roots.real[np.abs(roots.imag) < 1e-6]
    candidates = np.concatenate([[0.0, 1.0], real[(real > 0) & (real < 1)]])
    t_c, q_c = poly.polyval(candidates, t), poly.polyval(candidates, q)
    if scale is None:
        values = -np.square(np.maximum(t_c, 0)) / np.maximum(q_c, np.finfo(float).tiny)
    else:
        values = -2 * scale * t_c + scale**2 * q_c
    return float(candidates[np.argmin(values)])
