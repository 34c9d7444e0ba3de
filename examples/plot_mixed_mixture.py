"""
A table with numbers, counts and categories
===========================================

Groups of patients from columns of five kinds, with a tenth of the values missing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sfumato import MixedMixture
from sfumato.metrics import adjusted_rand_index

rng = np.random.default_rng(0)
truth = rng.integers(3, size=600)
table = pd.DataFrame(
    {
        "age": rng.normal(np.array([35.0, 55.0, 70.0])[truth], 9),
        "income": np.exp(rng.normal(np.array([3.6, 3.4, 3.0])[truth], 0.4)),
        "visits": rng.poisson(np.array([1.0, 3.0, 8.0])[truth]),
        "smoker": rng.random(600) < np.array([0.5, 0.2, 0.3])[truth],
        "town": np.array(["north", "south", "west"])[(truth + rng.integers(2, size=600)) % 3],
    }
)
for name in ("age", "income", "town"):
    table.loc[rng.random(600) < 0.1, name] = None

# %%
# Kinds are read from the types of the columns; only the skewed one has to be named.
model = MixedMixture("auto", columns={"income": "log-normal"}, n_init=3, random_state=0).fit(table)
print(model.columns_)
print("clusters:", model.n_clusters_)
print("adjusted Rand index:", round(adjusted_rand_index(truth, model.labels_), 2))

# %%
# ``parameters_`` describes every cluster.
for name, parameters in model.parameters_.items():
    print(name, {key: value.round(2).tolist() for key, value in parameters.items()})

# %%
# Objects with missing values are less certain.
seen = table.notna().sum(axis=1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].plot(
    [row.setting["n_clusters"] for row in model.search_], [row.bic for row in model.search_]
)
axes[0].set(xlabel="clusters", ylabel="BIC (lower is better)")
axes[1].boxplot(
    [model.memberships_.max(axis=1)[seen == count] for count in (3, 4, 5)],
    tick_labels=["3", "4", "5"],
)
axes[1].set(xlabel="values observed", ylabel="largest membership")
figure.tight_layout()
