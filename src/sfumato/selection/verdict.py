"""One verdict on a clustering, from all that is known of it.

Two questions decide: do the data separate the clusters (the structure test), and do fits to
resamples find them again (stability)? Each may be unknown.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy
from ..array.types import ArrayLike
from ..engine.structure import CONFIDENT
from ..memberships import check_memberships

__all__ = ["STABLE", "Verdict", "verdict"]

STABLE = 0.8  # agreement that Tibshirani and Walther (2005) ask of prediction strength


class Verdict(NamedTuple):
    """How far to trust a clustering: ``kind`` is "good", "note" or "caution"."""

    kind: str
    text: str


def verdict(
    clustering: Any,
    *,
    structure: Any = None,
    stability: float | None = None,
    automatic: bool = False,
    noise: bool = False,
) -> Verdict:
    """How far to trust a clustering, in one or two sentences.

    Parameters
    ----------
    clustering : fitted clusterer, or memberships of shape (n, k)
    structure : Structure, optional
        Result of the structure test; ``structure_`` of a fitted clusterer if not given.
    stability : float, optional
        Agreement of fits to resamples, such as ``stability(model, X).agreement``.
    automatic : bool
        Whether the number of clusters was chosen from the data; known of a fitted clusterer.
    noise : bool
        Whether the last column is noise, not a cluster; known of a fitted clusterer.

    Returns
    -------
    verdict : Verdict

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import verdict
    >>> X = make_gaussians(200, 3, separation=8, random_state=0).evidence
    >>> verdict(GaussianMixture(3, random_state=0).fit(X), stability=1.0).text
    'Clear clusters: the data separate all 3, and fits to resamples agree to 1.00.'
    """
    if hasattr(clustering, "memberships_"):
        structure = getattr(clustering, "structure_", None) if structure is None else structure
        automatic = automatic or getattr(clustering, "n_clusters", None) == "auto"
        noise = noise or getattr(clustering, "noise", None) is not None
        clustering = clustering.memberships_
    U = check_memberships(to_numpy(clustering))
    k = U.shape[1] - noise
    if k == 1:
        why = "no division into several is supported by the data" if automatic else "as asked for"
        return Verdict("note", f"One cluster: {why}.")
    steady = None if stability is None else stability >= STABLE
    agree = "" if stability is None else f"fits to resamples agree to {stability:.2f}"
    if structure is None:
        return _untested(k, steady, agree)
    if structure.supported:
        return _separate(k, structure.split, steady, agree)
    return _not_separate(U, k, int(structure.n_apart), steady, agree, automatic)


def _untested(k: int, steady: bool | None, agree: str) -> Verdict:
    if steady is None:
        return Verdict("note", f"Untested: whether the {k} clusters are separate is not known.")
    if steady:
        return Verdict("good", f"Stable clusters: {agree}.")
    return Verdict("caution", f"Unstable clusters: {agree} only (1 is the same, 0 is chance).")


def _separate(k: int, split: int | None, steady: bool | None, agree: str) -> Verdict:
    if steady is False:
        return Verdict(
            "caution",
            f"Separate clusters whose borders move: the data separate all {k}, but {agree} only. "
            "Look at the uncertain objects before acting on their labels.",
        )
    more = f", and {agree}" if agree else ""
    if split is not None:
        return Verdict(
            "note",
            f"Too few clusters: the data separate all {k}{more}, but cluster {split} falls into "
            "pieces with an empty region between them. Try more clusters.",
        )
    return Verdict("good", f"Clear clusters: the data separate all {k}{more}.")


def _not_separate(
    U: ArrayLike, k: int, apart: int, steady: bool | None, agree: str, automatic: bool
) -> Verdict:
    gaps = (
        "no gap lies between the clusters"
        if apart == 1
        else f"the data separate {apart} groups, fewer than the {k} clusters"
    )
    advice = f" Try {apart} clusters." if 1 < apart < k and not automatic else ""
    if steady:
        return Verdict(
            "note",
            f"Clusters that shade into each other: {gaps}, but {agree}. Read them as a steady "
            f"division of a continuum, not as separate groups.{advice}",
        )
    if float(np.asarray(U).max(axis=1).mean()) < CONFIDENT:
        return Verdict("note", f"Vague memberships, and rightly so: {gaps}.{advice}")
    more = f", and {agree} only" if agree else ""
    return Verdict(
        "caution",
        f"No clusters to rely on: {gaps}{more}. The memberships cut a continuum, or noise.{advice}"
        if apart == 1
        else f"Too many clusters: {gaps}{more}. Some are parts of one group.{advice}",
    )
