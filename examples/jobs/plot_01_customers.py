"""
1. A table of customers
=======================

Without Python this is one command, ``sfumato fit customers.csv``: it understands ``$1,234.50``,
``12 %``, ``yes`` and ``North``, chooses the number of clusters and writes a report. In Python,
``MixedMixture`` takes a table of numbers and categories as it is."""

# %%
# Numbers, yes or no, and words side by side.
import numpy as np
import pandas as pd

from sfumato import MixedMixture, plot, report

rng = np.random.default_rng(0)
group = np.repeat([0, 1, 2], 40)
customers = pd.DataFrame(
    {
        "income": np.exp(rng.normal(10 + 0.8 * group, 0.2)),
        "discount": rng.normal([20, 5, 12], 2, (40, 3)).T.ravel(),
        "member": rng.random(120) < np.array([0.1, 0.5, 0.9])[group],
        "region": np.array(["north", "south", "west"])[(group + (rng.random(120) < 0.2)) % 3],
    }
)
customers.head(3)

# %%
# BIC chooses among two, three and four clusters. Incomes are skewed, so they are modelled by their
# logarithm.
model = MixedMixture([2, 3, 4], columns={"income": "log-normal"}, n_init=2, random_state=0)
model.fit(customers)
print(model.n_clusters_, "clusters")

# %%
# What is each cluster like? The column that separates it best from all other customers:
for cluster, profile in enumerate(report.profiles(customers, model.memberships_)):
    best = profile[0]
    name = f"{best.column} {best.level or ''}".strip()
    print(f"cluster {cluster}: {name} {best.value:.1f}, overall {best.overall:.1f}")

# %%
# ``report.write("customers.html", model, customers)`` writes all of this as one page.
places = np.column_stack([np.log(customers["income"]), customers["discount"]])
plot.scatter(places, model.memberships_, axis_names=["log income", "discount"])
