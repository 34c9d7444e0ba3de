"""
One soft clustering from a hundred
==================================

Many clusterings of the same objects disagree. Evidence accumulation asks how often two objects were
put together, and finds memberships that explain it, without ever forming the matrix of all pairs.
"""

# %%
# Two moons and a blob. No single k-means run finds them; a hundred fine ones do together.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sfumato import ClusteringEnsemble, EvidenceAccumulation, metrics, plot

rng = np.random.default_rng(0)
moons, labels = make_moons(400, noise=0.09, random_state=0)
X = np.concatenate([moons, rng.normal([3.0, 1.3], 0.25, size=(150, 2))])
labels = np.concatenate([labels, np.full(150, 2)])

ensemble = ClusteringEnsemble(100, random_state=0)
L = ensemble.fit_transform(X)
sizes = L.max(axis=0) + 1
print(
    f"{L.shape[1]} partitions of {L.shape[0]} objects into {sizes.min()} to {sizes.max()} "
    f"clusters, {np.mean(L < 0):.0%} not seen"
)

# %%
# The consensus: memberships, and the co-association as an operator that only multiplies.
model = EvidenceAccumulation(3, ensemble="precomputed", random_state=0).fit(L)
figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
axes[0].scatter(*X.T, c=L[:, 0], cmap="tab20", s=8)
axes[0].set_title("one of the partitions")
plot.similarity(model.coassociation_, model.memberships_, ax=axes[1])
plot.scatter(X, model.memberships_, ax=axes[2])
print(f"adjusted Rand index {metrics.adjusted_rand_index(labels, model.labels_):.3f}")

# %%
# How many clusters? The gap after the k-th eigenvalue of the co-association shows it, weighted by
# how far the clusters agree with the partitions.
chosen = EvidenceAccumulation("auto", ensemble="precomputed", max_clusters=8, random_state=0).fit(L)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plot.selection(
    chosen.candidates_, chosen.scores_, chosen=chosen.n_clusters_, name="weighted eigengap", ax=ax
)

# %%
# How sure is it? Resampling the partitions gives intervals for the chance that two objects belong
# together.
middle = int(np.argmin(np.abs(np.sort(model.memberships_, axis=1)[:, -1] - 0.6)))
pairs = np.array([[0, 1], [0, 500], [middle, 0]])
for (i, j), (low, high) in zip(pairs, model.cooccurrence_interval(pairs, n_draws=20), strict=True):
    print(f"objects {i} and {j}: together with probability {low:.2f} to {high:.2f}")

# %%
# New objects are labelled by the same partitions and get memberships from these labels.
whole = EvidenceAccumulation(3, ensemble=ensemble, random_state=0).fit(X)
print(whole.predict_proba([[-1.0, 0.0], [1.0, -0.5], [3.0, 1.3], [2.3, 0.8]]).round(2))
plt.show()
