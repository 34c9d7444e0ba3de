"""
10. Millions of rows
====================

Features may lie in a memory-mapped file. They are read in blocks of rows, and only sums over the
blocks are kept. The page on scale goes on to streams, several machines and GPUs.
"""

# %%
# A file of 20 000 rows stands in for one of many millions.
import tempfile
from pathlib import Path

import numpy as np

from sfumato import FuzzyCMeans, plot

rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "big.npy")
    rows = rng.normal(size=(20_000, 4)) + 6 * np.eye(3, 4)[np.arange(20_000) % 3]
    np.save(path, rows.astype(np.float32))
    big = np.load(path, mmap_mode="r")
    model = FuzzyCMeans(3, random_state=0, n_init=1).fit(big)
    del big
print(model.cluster_centers_.round(1), model.memberships_.dtype)

# %%
# Memberships of all rows, in the order of the clusters.
plot.memberships(model.memberships_)
