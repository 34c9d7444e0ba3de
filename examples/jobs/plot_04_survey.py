"""
4. A survey with weights
========================

Weights count objects: a person of weight 2 is two persons. Missing answers need no filling in.
"""

# %%
# Four questions, two kinds of people, five percent of the answers missing.
import numpy as np

from sfumato import GaussianMixture, plot

rng = np.random.default_rng(0)
answers = rng.normal(size=(200, 4)) + 3 * (np.arange(200) % 2)[:, None]
answers[rng.random(answers.shape) < 0.05] = np.nan
weight = rng.uniform(0.5, 2, 200)

# %%
# BIC chooses among one, two and three groups. The shares are those of the population, not of the
# sample.
model = GaussianMixture([1, 2, 3], random_state=0).fit(answers, sample_weight=weight)
shares = weight @ model.memberships_ / weight.sum()
print(model.n_clusters_, "groups with shares", shares.round(2))

# %%
# Most people clearly belong to one group.
plot.uncertainty(model.memberships_)
