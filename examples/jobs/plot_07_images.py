"""
7. Images
=========

Small images are rows of pixels. Reduce them first, since neighbouring pixels are nearly the same.
Ten clusters are asked for because there are ten digits. A warning may say that some of them touch.
"""

# %%
# 300 scanned digits of 8 x 8 pixels, reduced to twelve principal components.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sfumato import EvidenceAccumulation, metrics

digits = load_digits()
Z = PCA(12, random_state=0).fit_transform(digits.data[:300])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model = EvidenceAccumulation(10, random_state=0).fit(Z)
print(
    "agreement with the digits",
    round(metrics.matched_accuracy(digits.target[:300], model.labels_), 2),
)

# %%
# The images that are hardest to place.
ties = np.argsort(model.memberships_.max(axis=1))[:5]
_, axes = plt.subplots(1, 5, figsize=(8, 2))
for axis, image in zip(axes, ties, strict=True):
    axis.imshow(digits.images[image], cmap="gray_r")
    axis.set_axis_off()
