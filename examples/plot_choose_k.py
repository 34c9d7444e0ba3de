"""
How many clusters, if any
=========================

Two halves of the evidence should tell the same story. ``choose_n_clusters`` fits both halves, lets
each predict the other, and asks whether they agree better than halves of structureless evidence do.
The proportion of ambiguous clustering (PAC) shows what happens without that question: on a cloud
without groups it points at the largest number it is offered.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from sfumato.datasets import make_gaussians
from sfumato.selection import choose_n_clusters

warnings.simplefilter("ignore")
model = KMeans(n_init=2)
candidates = [1, 2, 3, 4, 5, 6, 8, 10]
settings = {"n_splits": 2, "random_state": 0}

# %%
# Four groups, and a cloud without any. The band is the agreement of halves of structureless
# evidence at the preferred number.
data = {
    "four groups": make_gaussians(200, 4, n_features=10, separation=6, random_state=1).evidence,
    "no groups": make_gaussians(200, 1, n_features=10, random_state=0).evidence,
}
figure, axes = plt.subplots(2, 3, figsize=(12, 7))
for row, (name, X) in zip(axes, data.items(), strict=True):
    row[0].scatter(X[:, 0], X[:, 1], s=12)
    row[0].set_title(f"{name} in ten dimensions, two of them")
    for axis, criterion in zip(row[1:], ("held-out", "pac"), strict=True):
        choice = choose_n_clusters(model, X, candidates, criterion=criterion, **settings)
        scores = np.array([entry.score for entry in choice.table[1:]])
        errors = [entry.standard_error for entry in choice.table[1:]]
        axis.errorbar(
            candidates[1:], scores if criterion == "held-out" else -scores, yerr=errors, marker="o"
        )
        axis.axvline(choice.preferred, color="grey", linestyle=":")
        if criterion == "held-out":
            axis.axhspan(choice.reference.min(), choice.reference.max(), alpha=0.2)
        verdict = f"prefers {choice.preferred}, answer {choice.n_clusters}"
        axis.set(title=f"{criterion}: {verdict}", xlabel="clusters", ylim=(-0.05, 1.05))
        print(
            f"{name:12} {criterion:9} {verdict} (agreement {choice.agreement:.2f}, without "
            f"structure {choice.reference.mean():.2f})"
        )
figure.tight_layout()

# %%
# The table behind a choice, with the candidates that failed and why, if any did.
print(choose_n_clusters(model, data["four groups"], candidates, **settings))
