"""
3. Single cells
===============

With AnnData, ``sfumato.anndata.cluster(adata, GaussianMixture(random_state=0))`` reads the
principal components and writes memberships to ``obsm``, labels and certainty to ``obs``.
``sfumato.anndata.consensus(adata, ["leiden_0.5", "leiden_1.0"])`` makes one soft answer of several
Leiden runs, and ``sfumato fit cells.h5ad`` does it from a shell. Here the arrays alone.
"""

# %%
# Cells of three types, and some on the way from one type to the next. Principal components
# are not standardised, because their variances show how important each is.
import numpy as np

from sfumato import GaussianMixture, memberships, plot

rng = np.random.default_rng(0)
centers = np.array([[0, 0, 0], [8, 0, 2], [8, 7, 0]])
cells = centers[np.repeat([0, 1, 2], 80)] + rng.normal(size=(240, 3))
between = centers[0] + np.linspace(0.3, 0.7, 6)[:, None] * (centers[1] - centers[0])
components = np.vstack([cells, between])

# %%
# Markers say that there are three types. Cells whose membership is divided may be in transition.
model = GaussianMixture(3, random_state=0).fit(components)
print("cells of each type:", memberships.sizes(model.memberships_).round(1))
print("least certain cells:", memberships.most_uncertain(model.memberships_, 5))
plot.scatter(components[:, :2], model.memberships_, axis_names=["PC 1", "PC 2"])
