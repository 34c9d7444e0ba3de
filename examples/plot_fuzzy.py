"""
Fuzzy c-means and what its exponent does
========================================

Memberships fade with the distance to cluster centers; the fuzzifier says how fast. A noise cluster
keeps outliers from pulling at centers.
"""

import matplotlib.pyplot as plt
import numpy as np

from sfumato import FuzzyCMeans

rng = np.random.default_rng(0)
centers = np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 4.0]])
X = centers[rng.integers(3, size=400)] + rng.normal(size=(400, 2))
grid = np.stack(np.meshgrid(np.linspace(-4, 9, 120), np.linspace(-4, 8, 120)), axis=-1)

# %%
# The largest membership over the plane: crisp for a small fuzzifier, vague for a large one, and
# flat far from all centers.
figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True)
for axis, fuzzifier in zip(axes, (1.2, 2.0, 4.0), strict=True):
    model = FuzzyCMeans(3, fuzzifier=fuzzifier, random_state=0).fit(X)
    largest = model.predict_proba(grid.reshape(-1, 2)).max(axis=1).reshape(grid.shape[:2])
    axis.contourf(
        grid[..., 0], grid[..., 1], largest, levels=np.linspace(1 / 3, 1, 11), cmap="viridis"
    )
    axis.plot(*X.T, ".", color="white", markersize=2)
    axis.plot(*model.cluster_centers_.T, "r+", markersize=14)
    axis.set_title(
        f"fuzzifier {fuzzifier:g}: mean of the largest {model.memberships_.max(axis=1).mean():.2f}"
    )
figure.tight_layout()

# %%
# Outliers pull centers away unless there is a noise cluster for them.
dirty = np.vstack([X, rng.uniform(-40, 40, size=(40, 2))])
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for axis, noise in zip(axes, (None, 0.25), strict=True):
    model = FuzzyCMeans(3, noise_cluster=noise, random_state=0).fit(dirty)
    shown = model.memberships_[:, :3] @ np.eye(3)
    axis.scatter(*dirty.T, c=np.clip(shown, 0, 1), s=8)
    axis.plot(*model.cluster_centers_.T, "k+", markersize=14)
    error = np.linalg.norm(model.cluster_centers_[:, None] - centers, axis=2).min(axis=0).mean()
    axis.set_title(f"noise_cluster={noise}: centers off by {error:.2f}")
figure.tight_layout()
