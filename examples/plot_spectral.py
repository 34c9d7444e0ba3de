"""
Spectral clustering that says how sure it is
============================================

Two crescents and a bridge between them: the labels of spectral clustering, the memberships behind
them, and where new points fall.
"""

# %%
# A graph of nearest neighbours follows the crescents. The two leading eigenvectors of its
# normalised form separate them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from sfumato import SpectralClustering, metrics

X, y = make_moons(600, noise=0.1, random_state=0)
model = SpectralClustering(2, random_state=0).fit(X)
print(
    f"accuracy {metrics.matched_accuracy(y, model.labels_):.3f}, mean membership "
    f"{model.memberships_.max(axis=1).mean():.3f}"
)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].scatter(*X.T, c=model.memberships_[:, 0], cmap="coolwarm", s=12)
axes[0].set_title("memberships")
axes[1].scatter(
    model.embedding_[:, 1],
    np.random.default_rng(0).uniform(size=600),
    c=model.memberships_[:, 0],
    cmap="coolwarm",
    s=12,
)
axes[1].set(title="second eigenvector", yticks=[])

# %%
# Every place of the plane is a new object: its neighbours among the fitted points say where it
# belongs.
grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 80), np.linspace(-1.1, 1.6, 60)), axis=-1)
shares = model.predict_proba(grid.reshape(-1, 2))[:, 0].reshape(60, 80)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.imshow(shares, origin="lower", extent=(-1.6, 2.6, -1.1, 1.6), cmap="coolwarm", aspect="auto")
ax.scatter(*X.T, c="black", s=2)
ax.set_title("new objects")

# %%
# How many clusters? ``cost_`` says how far the eigenvectors are from the indicators of clusters:
# least for two.
for k in (2, 3, 4):
    fitted = SpectralClustering(k, random_state=0).fit(X)
    print(f"k = {k}: eigengap {fitted.eigengap_:.4f}, cost per cluster {fitted.cost_ / k:.3f}")
plt.show()
