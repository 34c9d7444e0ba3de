"""
How much to remember
====================

The information bottleneck groups rows of counts by what they say about the columns. The parameter
beta decides how much is kept: as it grows, clusters separate one after the other.
"""

# %%
# Ninety documents of sixty words each, from three topics over twelve words; a third of the
# documents mix two topics.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import InformationBottleneck

rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(12, 0.4), size=3)
shares = np.repeat(np.eye(3), 30, axis=0)
shares[::3] = 0.5 * shares[::3] + 0.5 * np.roll(shares[::3], 1, axis=1)
counts = np.stack([rng.multinomial(60, share @ topics) for share in shares])

# %%
# The memberships of the mixed documents (every third row) lie between their two topics.
model = InformationBottleneck(3, beta=10, random_state=0).fit(counts)
order = np.argsort(model.memberships_ @ np.arange(3))
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.imshow(model.memberships_[order].T, aspect="auto", cmap="magma", vmin=0, vmax=1)
ax.set(
    xlabel="documents, sorted", ylabel="cluster", yticks=range(3), title="memberships at beta = 10"
)

# %%
# What is kept at each beta. The dashed line is all that the documents say about the words.
beta, compression, relevance = model.information_curve_.T
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(compression, relevance, marker="o")
ax.axhline(model.information_, linestyle="--", color="grey")
ax.set(
    xlabel="I(documents; clusters), nats",
    ylabel="I(words; clusters), nats",
    title="the information curve",
)

# %%
# With an infinite beta the clusters are hard.
hard = InformationBottleneck(3, beta=np.inf, random_state=0).fit(counts)
print(
    f"relevance {hard.relevance_:.3f} of {hard.information_:.3f} nats, sizes "
    f"{np.bincount(hard.labels_).tolist()}"
)
