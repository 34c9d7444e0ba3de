"""
9. A table with columns in different units
==========================================

Distances add up columns as they are, so a column with values in the thousands dominates. The
consensus and most mixtures need no scaling. For other models standardise first. The command line
does so by itself (``--scale auto``), and ``sfumato predict`` does the same to new objects.
"""

# %%
# Thirteen measurements of wine in different units.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato import FuzzyCMeans, metrics, plot

wine = load_wine()
raw = FuzzyCMeans(3, random_state=0).fit(wine.data)
scaled = make_pipeline(StandardScaler(), FuzzyCMeans(3, random_state=0)).fit(wine.data)

# %%
# Agreement with the three kinds of wine, without and with scaling.
for name, labels in (("raw", raw.labels_), ("scaled", scaled.predict(wine.data))):
    print(name, round(metrics.adjusted_rand_index(wine.target, labels), 2))
_, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
plot.contingency(wine.target, raw.memberships_, row_title="kind of wine", ax=axes[0])
plot.contingency(wine.target, scaled[-1].memberships_, row_title="kind of wine", ax=axes[1])
