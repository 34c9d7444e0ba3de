"""
Measuring soft clusterings
==========================

Memberships are numbers that can be checked. Three clusterings of the same overlapping groups: one
that states the true probabilities, one that is too sure, one that is too vague. The
measures of labels see no difference between them; the Brier score and the calibration curve do.
"""

import matplotlib.pyplot as plt

from sfumato import metrics
from sfumato.datasets import make_gaussians
from sfumato.memberships import harden, most_uncertain
from sfumato.selection import fit_temperature, temper

X, posterior, labels = make_gaussians(500, 3, separation=2.5, random_state=3)
clusterings = {
    "true posterior": posterior,
    "too sure": temper(posterior, 0.2),
    "too vague": temper(posterior, 3.0),
}

# %%
# Every measure takes labels or memberships on either side. Hardened, the three agree with the truth
# equally well; as memberships they do not.
for name, memberships in clusterings.items():
    hard = metrics.adjusted_rand_index(labels, harden(memberships))
    soft = metrics.adjusted_rand_index(labels, memberships)
    brier = metrics.brier_score(labels, memberships, interval=0.95)
    print(
        f"{name:15} labels {hard:.3f}   memberships {soft:.3f}   Brier {brier.value:.3f} "
        f"[{brier.low:.3f}, {brier.high:.3f}]"
    )

# %%
# The calibration curve bins pairs of objects by the chance of being together, and asks how many
# are.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5))
left.scatter(*X.T, c=posterior, s=15)
vague = most_uncertain(posterior, 25)
left.scatter(*X[vague].T, s=60, facecolors="none", edgecolors="black", label="the 25 least certain")
left.legend(loc="best")
right.plot([0, 1], [0, 1], color="grey", linewidth=1)
for name, memberships in clusterings.items():
    curve = metrics.calibration_curve(labels, memberships, n_pairs=50_000, interval=0.95)
    right.plot(
        curve.predicted, curve.observed, marker="o", label=f"{name}: error {curve.error:.3f}"
    )
    right.fill_between(curve.predicted, curve.low, curve.high, alpha=0.2)
right.set(xlabel="chance to be together", ylabel="share that is together")
right.legend()
figure.tight_layout()

# %%
# A temperature, learnt from objects whose labels are known, corrects the overconfident clustering
# on the others.
known, rest = slice(0, 150), slice(150, None)
temperature = fit_temperature(clusterings["too sure"][known], labels[known])
recalibrated = temper(clusterings["too sure"][rest], temperature)
print(f"temperature {temperature:.1f}")
for name, memberships in {"before": clusterings["too sure"][rest], "after": recalibrated}.items():
    print(
        f"{name:7} calibration error "
        f"{metrics.calibration_curve(labels[rest], memberships).error:.3f}"
    )
