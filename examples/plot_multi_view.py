"""
Weigh several views of the same objects
=======================================

Three similarities describe the same objects: two show the clusters, each a part of them, and one is
noise. From the labels of every third object we learn how much weight each deserves, by the gradient
of the spectral cost with respect to the similarity, and then cluster all objects.
"""

# %%
# Three views of four groups; the first tells two of them apart from the others, the second the
# halves of each pair.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from sfumato import SpectralClustering, metrics
from sfumato.similarity import gaussian, spectral_cost_gradient

rng = np.random.default_rng(0)
y = np.repeat(np.arange(4), 45)
features = [
    4.0 * (y // 2)[:, None] + rng.normal(size=(180, 2)),
    4.0 * (y % 2)[:, None] + rng.normal(size=(180, 2)),
    1.5 * rng.normal(size=(180, 12)),
]
views = [gaussian(X, bandwidth=1.5) for X in features]
known = np.where(np.arange(180) % 3 == 0, y, -1)


# %%
# The product of the views, each raised to a power, is the similarity of all features at once. The
# chain rule carries the gradient from the similarity to the powers.
logs = np.stack([np.log(np.maximum(W, 1e-300)) for W in views])


def cost(powers):
    W = np.exp(np.tensordot(powers, logs, axes=1))
    value, gradient = spectral_cost_gradient(W, known)
    slope = np.array([np.sum(gradient * W * each) for each in logs])
    # Large powers make narrow similarities, which fit the few labels and nothing else.
    return value + 0.1 * powers @ powers, slope + 0.2 * powers


found = minimize(cost, np.full(3, 0.5), jac=True, method="L-BFGS-B", bounds=[(0.0, 3.0)] * 3)
print("learnt powers", found.x.round(2))

# %%
# Before and after, on the objects whose labels were not used.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
hidden = known < 0
for axis, powers, name in zip(axes, (np.full(3, 0.5), found.x), ("equal", "learnt"), strict=True):
    W = np.exp(np.tensordot(powers, logs, axes=1))
    labels = SpectralClustering(4, similarity="precomputed", random_state=0).fit(W).labels_
    score = metrics.adjusted_rand_index(y[hidden], labels[hidden])
    axis.scatter(features[0][:, 0], features[1][:, 0], c=labels, s=12)
    axis.set(title=f"{name} powers: adjusted Rand {score:.2f}", xlabel="view 1", ylabel="view 2")
plt.show()
