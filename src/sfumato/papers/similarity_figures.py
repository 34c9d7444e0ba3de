"""Figures 1 and 2 of Rota Bulo and Pelillo (2010).

Similarity, reconstruction and membership curves on S-Block and Iris.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from .. import memberships as ms
from .. import plot
from ..array.labels import encode
from .outcome import Outcome
from .shelf import Shelf
from .similarity import baum_eagon, evidence, row_stochastic

__all__ = ["figures"]


def figures(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """One picture of three panels for each of S-Block and Iris, objects in the order of their
    classes.
    """
    import matplotlib.pyplot as plt

    pictures = {}
    for item in islice(evidence(shelf), 2):
        order = np.argsort(item.labels, kind="stable")
        W, truth = item.W[order][:, order], encode(item.labels[order])
        given, similarity = ("D^-1 W", row_stochastic(W, 0)) if item.name == "S-Block" else ("W", W)
        state = baum_eagon(similarity, truth.max() + 1, seed=0)
        U = ms.align(state.U[:, 0], ms.one_hot(truth))
        figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
        for axis, matrix, title in (
            (axes[0], similarity, f"similarity, {given}"),
            (axes[1], state.scale[0] * U @ U.T, "scale · U U'"),
        ):
            axis.imshow(matrix, cmap="magma", vmax=np.quantile(matrix, 0.99))
            axis.set(title=title, xlabel="objects", ylabel="objects")
        plot.profiles(U, ordered=False, ax=axes[2])
        figure.suptitle(
            f"{item.name}, W = {item.source}; the published rule on {given}, objects in the order "
            "of their classes"
        )
        pictures[f"similarity-{item.name.lower()}.png"] = figure
    return Outcome(figures=pictures)
