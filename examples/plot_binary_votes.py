"""
Votes with missing values: clusters of yes and no
=================================================

A parliament votes on sixteen questions. Members are absent now and then, and a missing vote is not
a no: it is left out. Each cluster has a probability of yes for every question, with a beta prior.
"""

# %%
# A made-up parliament of 435 members: two large parties, a wing of the first that goes its own way
# on half of the questions, and one vote in sixteen missing.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import DirichletProcessMixture, metrics
from sfumato.conjugate import BetaBinomial, DirichletMultinomial

rng = np.random.default_rng(1984)
questions, group = 16, np.repeat([0, 1, 2], [190, 165, 80])
yes = rng.choice([0.06, 0.15, 0.85, 0.94], size=questions)
profiles = np.stack([yes, 1 - yes, np.where(np.arange(questions) < 8, yes, 1 - yes)])
votes = (rng.random((435, questions)) < profiles[group]).astype(float)
votes[rng.random(votes.shape) < 1 / 16] = np.nan
print(
    f"{np.isnan(votes).mean():.1%} of the votes are missing; {np.isnan(votes).any(axis=1).sum()} "
    "members missed one at least"
)

# %%
# The number of groups is not given.
model = DirichletProcessMixture(component=BetaBinomial, random_state=0).fit(votes)
print(model.n_clusters_, "groups of", np.round(model.weights_ * len(votes)).astype(int))
print(f"matched accuracy {metrics.matched_accuracy(group, model.labels_):.3f}")

# %%
# The opinions of a group: the posterior probability of a yes, with its 90 % interval.
# ``components_`` is a conjugate object that holds one posterior for every group and question.
figure, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
low, high = model.components_.interval(0.9)
for k in range(model.n_clusters_):
    mean = model.components_.mean[k]
    ax.errorbar(
        np.arange(questions) + 0.15 * k,
        mean,
        yerr=[mean - low[k], high[k] - mean],
        fmt="o",
        label=f"group {k}",
    )
ax.set(xlabel="question", ylabel="probability of yes", ylim=(0, 1))
ax.legend()

# %%
# Members who cannot be placed are those with few votes, or with votes of both sides.
unsure = np.argsort(model.memberships_.max(axis=1))[:4]
for member in unsure:
    print(
        member,
        "votes cast:",
        int((~np.isnan(votes[member])).sum()),
        model.memberships_[member].round(2),
    )

# %%
# A newcomer with three votes is placed by those three.
newcomer = np.full((1, questions), np.nan)
newcomer[0, :3] = (profiles[1, :3] > 0.5).astype(float)
print(model.predict_proba(newcomer).round(3))

# %%
# Counts go the same way: how often each of 300 speakers used each of 30 words.
words, speaker = rng.dirichlet(np.full(30, 0.3), size=3), rng.integers(3, size=300)
counts = np.stack([rng.multinomial(60, words[k]) for k in speaker])
speakers = DirichletProcessMixture(component=DirichletMultinomial, random_state=0).fit(counts)
print(
    speakers.n_clusters_,
    "kinds of speakers, matched accuracy",
    round(metrics.matched_accuracy(speaker, speakers.labels_), 3),
)
