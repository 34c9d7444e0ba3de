"""
Clusters made for a class
=========================

The class changes along a direction with little variance. k-means spends its clusters on the
variance and learns nothing about the class; discriminative clustering puts its cells where the mix
of classes differs.
"""

# %%
# Two features: a wide one that says nothing about the class, and a narrow one in which the class
# changes twice.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from sfumato import DiscriminativeClustering
from sfumato.metrics import contingency_bayes_factor

rng = np.random.default_rng(0)
layer = rng.integers(3, size=600)
X = np.column_stack([6.0 * rng.normal(size=600), 2.0 * layer + 0.4 * rng.normal(size=600)])
c = np.array(["red", "blue", "green"])[layer]

# %%
# Three clusters each.
ours = DiscriminativeClustering(3, random_state=0).fit(X, c)
theirs = KMeans(3, n_init=4, random_state=0).fit_predict(X)
names = ours.classes_


def table(labels):
    counts = np.zeros((3, len(names)))
    np.add.at(counts, (labels, np.searchsorted(names, c)), 1)
    return counts


figure, axes = plt.subplots(2, 2, figsize=(9, 6), width_ratios=[2, 1])
for (left, right), title, labels in zip(
    axes, ("discriminative", "k-means"), (ours.labels_, theirs), strict=True
):
    for j in range(3):
        for name in names:
            chosen = (labels == j) & (c == name)
            left.scatter(*X[chosen].T, c=name, marker="os^D"[j], s=12, alpha=0.6)
    counts = table(labels)
    left.set_title(f"{title}: log Bayes factor {contingency_bayes_factor(counts):.0f}")
    right.imshow(counts, cmap="Greys", aspect="auto", vmin=0)
    for j, i in np.ndindex(counts.shape):
        right.text(
            i,
            j,
            f"{counts[j, i]:.0f}",
            ha="center",
            va="center",
            color="white" if counts[j, i] > counts.max() / 2 else "black",
        )
    right.set(xticks=range(len(names)), xticklabels=names, yticks=range(3), ylabel="cluster")
figure.tight_layout()

# %%
# How many clusters? The marginal likelihood peaks where another cluster no longer explains enough.
ks = range(2, 7)
evidence = [
    DiscriminativeClustering(k, n_init=2, random_state=0).fit(X, c).log_marginal_likelihood_
    for k in ks
]
figure, axis = plt.subplots(figsize=(5, 3))
axis.plot(ks, evidence, marker="o")
axis.set(xlabel="clusters", ylabel="log marginal likelihood")
figure.tight_layout()
