"""
8. A sensor log with missing values
===================================

Readings drop out, and some are absurd. Mixtures integrate over missing values: nothing is filled
in, and an object with few readings gets less certain memberships. Heavy tails allow for outliers.
"""

# %%
# Three states of a machine, a tenth of the readings missing, three absurd rows.
import numpy as np

from sfumato import StudentMixture, plot

rng = np.random.default_rng(0)
states = np.array([[0, 0, 0], [6, 6, 0], [0, 6, 6]])
log = rng.normal(size=(300, 3)) + states[np.arange(300) % 3]
log[rng.random(log.shape) < 0.1] = np.nan
log[:3] = rng.normal(scale=60, size=(3, 3))

# %%
# The centers are found although three rows lie far away.
model = StudentMixture(3, random_state=0).fit(log)
print(model.means_.round(1))

# %%
# Rows whose state is uncertain.
print(np.flatnonzero(model.memberships_.max(axis=1) < 0.6))
complete = ~np.isnan(log[:, :2]).any(axis=1)
axis = plot.scatter(log[complete, :2], model.memberships_[complete])
axis.set(xlim=(-5, 11), ylim=(-5, 11))
