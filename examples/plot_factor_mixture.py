"""
Many features, few factors
==========================

Handwritten digits, 64 features each: every cluster has a mean and a few directions in which its
digits vary.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import FactorMixture
from sfumato.metrics import adjusted_rand_index

digits = load_digits()
chosen = digits.target < 4
X, truth = digits.data[chosen], digits.target[chosen]

# %%
# The number of factors by BIC.
model = FactorMixture(4, n_factors=(1, 2, 3, 4), n_init=2, random_state=0).fit(X)
print({row.setting["n_factors"]: round(row.bic) for row in model.search_})
print("factors:", model.n_factors_)
print("adjusted Rand index:", round(adjusted_rand_index(truth, model.labels_), 2))

# %%
# Means, and what the strongest direction of a cluster adds and takes away.
figure, axes = plt.subplots(3, 4, figsize=(7, 5.5))
for j in range(4):
    left, size, _ = np.linalg.svd(model.loadings_[j], full_matrices=False)
    change = 2 * left[:, 0] * size[0]
    for axis, image in zip(
        axes[:, j],
        (model.means_[j] - change, model.means_[j], model.means_[j] + change),
        strict=True,
    ):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axis.set(xticks=[], yticks=[])
for axis, name in zip(axes[:, 0], ("minus", "mean", "plus"), strict=True):
    axis.set_ylabel(name)
figure.tight_layout()
