"""
A gallery of pictures
=====================

Every picture takes memberships (or the evidence behind them) and gives matplotlib axes, so it can
be placed in any figure. The memberships here come from three overlapping groups whose truth is
known.
"""

# %%
# Three overlapping groups, and each object's chance of belonging to each of them.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import plot

rng = np.random.default_rng(0)
centers = np.array([[0.0, 0.0], [3.2, 0.4], [1.4, 2.6]])
truth = rng.integers(3, size=400)
X = centers[truth] + rng.normal(size=(400, 2))
distances = ((X[:, None] - centers) ** 2).sum(axis=2)
U = np.exp(-distances / 2)
U /= U.sum(axis=1, keepdims=True)

# %%
# In the plane: colours blend where clusters overlap, and fade where an object is uncertain.
plot.scatter(X, U)

# %%
# On the simplex (three clusters): corners are certain, the middle is undecided.
plot.simplex(U, names=["left", "right", "top"])

# %%
# As a heat map and as curves, objects ordered by cluster. Both work for any number of objects.
_, axes = plt.subplots(2, 1, figsize=(7, 5), layout="constrained")
plot.memberships(U, ax=axes[0])
plot.profiles(U, ax=axes[1])

# %%
# How sure is it? The largest membership of every object.
plot.uncertainty(U)

# %%
# Is it calibrated? Among objects given a membership near 0.8, about 80 % should belong.
stated = U.ravel()
came_true = (truth[:, None] == np.arange(3)).ravel()
which = np.minimum((stated * 10).astype(int), 9)
counts = np.bincount(which, minlength=10)
plot.calibration(
    np.bincount(which, stated, minlength=10) / counts,
    np.bincount(which, came_true, minlength=10) / counts,
    counts,
)

# %%
# A similarity matrix, and the one that the memberships imply.
W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2)
_, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plot.similarity(W, U, ax=axes[0])
plot.reconstruction(U, ax=axes[1])

# %%
# Against known classes: soft counts, written on the share of each class.
table = np.eye(3)[truth].T @ U
plot.contingency(table, row_names=["left", "right", "top"], row_title="group")

# %%
# Curves of a search: the objective over iterations, the score over numbers of clusters, information
# kept and used.
_, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
plot.history(10 + 30 * 0.6 ** np.arange(20), ax=axes[0])
plot.selection(
    range(2, 8), [0.52, 0.81, 0.74, 0.66, 0.61, 0.55], spread=[0.04] * 6, chosen=3, ax=axes[1]
)
plot.information([0.0, 0.3, 0.7, 1.0, 1.6], [0.0, 0.26, 0.5, 0.58, 0.61], ax=axes[2])
