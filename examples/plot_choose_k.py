"""
How many clusters, if any
=========================

Criteria score the numbers of clusters in different ways. The structure test looks for sparse
regions between clusters, and its answer is one cluster if there are none. By itself the
silhouette never prefers one cluster, even for a cloud without groups.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from sfumato import plot
from sfumato.datasets import make_gaussians
from sfumato.selection import choose_n_clusters

warnings.simplefilter("ignore")
model = KMeans(n_init=2, random_state=0)
candidates = [1, 2, 3, 4, 5, 6, 8, 10]
settings = {"n_splits": 2, "random_state": 0}

# %%
# Four groups, and a cloud without any. The dashed line is the answer.
data = {
    "four groups": make_gaussians(200, 4, n_features=10, separation=6, random_state=1).evidence,
    "no groups": make_gaussians(200, 1, n_features=10, random_state=0).evidence,
}
figure, axes = plt.subplots(2, 3, figsize=(12, 7))
for row, (name, X) in zip(axes, data.items(), strict=True):
    row[0].scatter(X[:, 0], X[:, 1], s=12)
    row[0].set_title(f"{name} in ten dimensions, two of them")
    for axis, criterion in zip(row[1:], ("structure", "silhouette"), strict=True):
        choice = choose_n_clusters(model, X, candidates, criterion=criterion, **settings)
        scores = np.array([entry.score for entry in choice.table[1:]])
        plot.selection(candidates[1:], scores, chosen=choice.n_clusters, name=criterion, ax=axis)
        verdict = f"prefers {choice.preferred}, answer {choice.n_clusters}"
        axis.set_title(f"{criterion}: {verdict}")
        print(f"{name:12} {criterion:9} {verdict}")
figure.tight_layout()

# %%
# The table of candidates, with the probability of every number.
choice = choose_n_clusters(model, data["four groups"], candidates, **settings)
print(choice)

# %%
# The distribution over the number of clusters.
figure, axis = plt.subplots()
plot.cluster_numbers(choice.distribution, chosen=choice.n_clusters, ax=axis)
