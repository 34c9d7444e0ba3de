"""
5. A similarity of proteins
===========================

There are no features, only how alike any two proteins are. Pass the matrix as it is.
"""

# %%
# Sixty proteins of three families.
import numpy as np

from sfumato import PairwiseProbabilisticClustering, plot

rng = np.random.default_rng(0)
family = np.repeat([0, 1, 2], 20)
alike = np.where(family[:, None] == family, 0.8, 0.1) + 0.05 * rng.random((60, 60))
alike = (alike + alike.T) / 2

# %%
# New proteins are placed by their similarities to the known ones.
known, new = alike[:58, :58], alike[58:, :58]
model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0).fit(known)
print(model.predict_proba(new).round(2))

# %%
# The matrix in the order of the clusters shows three blocks.
plot.similarity(known, model.memberships_)
