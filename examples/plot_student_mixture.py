"""
Outliers that do not make clusters
==================================

Three groups, and a few objects that belong nowhere: a normal mixture spends components on them, a
mixture of t distributions does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from sfumato import GaussianMixture, StudentMixture
from sfumato.metrics import adjusted_rand_index

rng = np.random.default_rng(0)
truth = rng.integers(3, size=300)
X = np.array([[0.0, 0.0], [8.0, 0.0], [4.0, 7.0]])[truth] + rng.normal(size=(300, 2))
X = np.vstack([X, rng.uniform(-40, 50, size=(12, 2))])

# %%
# Both get the number of groups.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, sharey=True)
for axis, kind in zip(axes, (GaussianMixture, StudentMixture), strict=True):
    model = kind(3, covariance_type="tied", random_state=0).fit(X)
    index = adjusted_rand_index(truth, model.labels_[:300])
    axis.scatter(*X.T, c=model.memberships_, s=8)
    axis.scatter(*model.means_.T, c="black", marker="x")
    axis.set_title(f"{kind.__name__}: adjusted Rand index {index:.2f}")

# %%
# The degrees of freedom say how heavy the tails are, and the log-density names the outliers.
model = StudentMixture("auto", covariance_type="tied", n_init=4, random_state=0).fit(X)
print("clusters:", model.n_clusters_, " degrees of freedom:", model.degrees_of_freedom_.round(1))
print("least likely objects:", np.sort(np.argsort(model.score_samples(X))[:12]))
