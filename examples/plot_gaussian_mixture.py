"""
Gaussian mixtures with missing values, and how many components
==============================================================

Stretched clusters in mixed units, a fifth of the values missing, and the number of components
chosen by a criterion.
"""

import matplotlib.pyplot as plt
import numpy as np

from sfumato import GaussianMixture, plot
from sfumato.metrics import adjusted_rand_index

rng = np.random.default_rng(0)
truth = rng.integers(3, size=500)
height = np.array([-4.0, 0.0, 4.0])[truth] + 0.7 * rng.normal(size=500)
X = np.column_stack([1000 * (rng.normal(size=500) + 0.3 * height), height])

# %%
# Distances in these units see only the first feature. The mixture works in whitened coordinates and
# does not mind.
model = GaussianMixture(3, random_state=0).fit(X)
angle = np.linspace(0, 2 * np.pi, 100)
figure, axis = plt.subplots(figsize=(6, 4))
axis.scatter(*X.T, c=model.memberships_, s=8)
for mean, covariance in zip(model.means_, model.covariances_, strict=True):
    ellipse = (
        mean
        + 2 * np.column_stack([np.cos(angle), np.sin(angle)]) @ np.linalg.cholesky(covariance).T
    )
    axis.plot(*ellipse.T, "k-", linewidth=1)
axis.set_title(f"adjusted Rand index {adjusted_rand_index(truth, model.labels_):.2f}")

# %%
# Missing values are integrated out: no imputation, and an object seen in part has vaguer
# memberships, as it should.
incomplete = X.copy()
incomplete[rng.random(X.shape) < 0.2] = np.nan
partly = GaussianMixture(3, random_state=0).fit(incomplete)
filled = GaussianMixture(3, random_state=0).fit(
    np.where(np.isnan(incomplete), np.nanmean(incomplete, axis=0), incomplete)
)
seen = (~np.isnan(incomplete)).sum(axis=1)
print(
    "adjusted Rand index, missing values integrated out:",
    round(adjusted_rand_index(truth, partly.labels_), 2),
)
print(
    "adjusted Rand index, missing values filled with means:",
    round(adjusted_rand_index(truth, filled.labels_), 2),
)
for count in range(3):
    print(
        f"{count} of 2 features seen: mean of the largest membership "
        f"{partly.memberships_[seen == count].max(axis=1).mean():.2f}"
    )

# %%
# The number and the shape of components, with the table of candidates.
chosen = GaussianMixture("auto", random_state=0).fit(X)
print(chosen.search_)
figure, axis = plt.subplots(figsize=(6, 4))
plot.model_search(chosen.search_, ax=axis)
