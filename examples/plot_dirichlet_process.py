"""
How many clusters, and how sure
===============================

A Dirichlet process mixture does not ask for the number of clusters: the number is part of the
posterior.
"""

# %%
# Four groups of unequal size; two of them touch.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import DirichletProcessMixture

rng = np.random.default_rng(1)
centers, sizes = np.array([[0, 0], [3.2, 0], [0, 7], [8, 5]]), (120, 80, 60, 15)
X = np.concatenate(
    [rng.normal(center, 1.0, (size, 2)) for center, size in zip(centers, sizes, strict=True)]
)

# %%
# The variational form is fast and gives the same answer every time; the sampler takes longer and
# draws from the exact posterior.
fast = DirichletProcessMixture(random_state=0).fit(X)
exact = DirichletProcessMixture(inference="gibbs", random_state=0, burn_in=100, n_draws=40).fit(X)
for name, model in (("variational", fast), ("sampler", exact)):
    probabilities = model.n_clusters_posterior_
    print(
        name,
        "found",
        model.n_clusters_,
        {k: round(float(p), 2) for k, p in enumerate(probabilities) if p > 0.01},
    )
print(f"agreement of the chains (1 is perfect): {exact.r_hat_:.2f}")

# %%
# Memberships of the sampler come from all draws together: two objects share a cluster as far as the
# draws put them together. Objects between the two touching groups stay undecided.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, model, name in zip(axes, (fast, exact), ("variational", "sampler"), strict=True):
    points = ax.scatter(*X.T, c=model.memberships_.max(axis=1), s=15, vmin=0.5, vmax=1)
    ax.set_title(f"{name}: largest membership")
figure.colorbar(points, ax=axes)

# %%
# The number of clusters over the draws.
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(len(exact.n_clusters_posterior_)), exact.n_clusters_posterior_)
ax.set(xlabel="clusters", ylabel="posterior probability")

# %%
# New objects are placed by the posterior predictive, and ``score`` is their mean log density: a
# fair way to compare models.
new = rng.normal(centers[0], 1.0, (50, 2))
print(fast.predict_proba(new[:3]).round(3))
print(f"held-out log density: variational {fast.score(new):.3f}, sampler {exact.score(new):.3f}")
