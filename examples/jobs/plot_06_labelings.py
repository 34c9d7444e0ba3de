"""
6. Many clusterings of the same objects
=======================================

Ten people sorted the same objects into groups, and not everybody saw each object. There is one
column per person, ``-1`` where a person did not see an object. Numbers of groups may differ and
labels need not match. From a shell: ``sfumato consensus labelings.csv``.
"""

# %%
# Ten labelings of 120 objects.
from sfumato import EvidenceAccumulation, datasets, plot

L = datasets.make_labelings(120, 3, n_members=10, random_state=0).evidence
print(L[:3])

# %%
# The consensus, and the chance that two objects belong together.
model = EvidenceAccumulation(ensemble="precomputed", random_state=0).fit(L)
print(model.n_clusters_, "clusters")
print(round(float(model.memberships_[0] @ model.memberships_[1]), 2))
plot.simplex(model.memberships_) if model.n_clusters_ == 3 else plot.memberships(model.memberships_)
