"""
Soft clusters from a similarity
===============================

A similarity matrix is all that is given. The pairwise model finds memberships U such that scale * U
U' comes as near to it as it can.
"""

# %%
# The Iris flowers, by a Gaussian similarity. Two of the three species overlap.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from sfumato import PairwiseProbabilisticClustering, metrics, plot
from sfumato.similarity import gaussian

iris = load_iris()
W = gaussian(iris.data, bandwidth=0.5)
model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0).fit(W)

figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
plot.similarity(W, ax=axes[0])
plot.reconstruction(model.memberships_, model.scale_, ax=axes[1])
plot.profiles(model.memberships_, ax=axes[2])

# %%
# How good is the fit? ``gap_`` is the share of the squared similarity that is not explained,
# ``kkt_residual_`` is zero at a minimum.
print(f"unexplained {model.gap_:.1%}, residual {model.kkt_residual_:.1e}, {model.n_iter_} passes")
print(f"matched accuracy {metrics.matched_accuracy(iris.target, model.labels_):.3f}")

# %%
# The flowers that lie between the species are the ones with a small margin.
from sfumato.memberships import margin

unsure = np.argsort(margin(model.memberships_))[:5]
print(np.column_stack([unsure, model.memberships_[unsure].round(2)]))

# %%
# New flowers get memberships from their similarities to the fitted ones.
new = gaussian(iris.data[:3] + 0.05, iris.data, bandwidth=0.5)
print(model.predict_proba(new).round(3))
plt.show()
