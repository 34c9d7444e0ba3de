"""
2. Embeddings of texts
======================

Embeddings are directions: bring them to length 1. With fewer than about ten texts per dimension,
reduce the dimensions first, because evidence that does not depend on units cannot tell a dimension
of pure noise from an informative one.
"""

# %%
# Ninety texts on three topics, as a language model would embed them.
import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from sfumato import EvidenceAccumulation, plot

rng = np.random.default_rng(0)
topic = np.repeat([0, 1, 2], 30)
E = rng.normal(size=(90, 64)) * 0.15 + np.eye(3, 64)[topic]
E /= np.linalg.norm(E, axis=1, keepdims=True)

# %%
# The consensus finds the number of topics, and gives the topics of new texts too.
model = make_pipeline(PCA(5), EvidenceAccumulation(random_state=0)).fit(E)
print(model[-1].n_clusters_, "topics")
print(model.predict_proba(E[:2]).round(2))

# %%
# Texts between topics would be the ones to read; here there are none.
memberships = model[-1].memberships_
print(np.flatnonzero(memberships.max(axis=1) < 0.6))
plot.scatter(model[:-1].transform(E)[:, :2], memberships)

# %%
# BERTopic takes any of our models instead of HDBSCAN and names the topics.
