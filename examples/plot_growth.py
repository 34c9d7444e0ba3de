"""
Clusters from triples: growth transforms
========================================

Some similarities are about three objects at a time. Whether three points lie on one line is such a
question: any two points do. The Baum-Eagon inequality maximises every polynomial with nonnegative
coefficients over memberships, so that a similarity of triples is no harder than one of pairs.
"""

# %%
# Points along two lines that cross.
import matplotlib.pyplot as plt
import numpy as np

from sfumato import metrics, plot
from sfumato.growth import maximize

rng = np.random.default_rng(0)
truth = np.repeat([0, 1], 25)
along = rng.uniform(-1, 1, 50)
X = np.c_[along, np.where(truth == 0, along, -along)] + 0.02 * rng.normal(size=(50, 2))

# %%
# Three points lie on one line when the triangle between them is flat.
a, b, c = X[:, None, None], X[None, :, None], X[None, None, :]
area = np.abs((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])
T = np.exp(-((area / 0.03) ** 2))
i = np.arange(50)
T[i, i, :] = T[i, :, i] = T[:, i, i] = 0.0


# %%
# The chance that three objects fall together, summed over the triples that lie on a line, less what
# would be expected of clusters of these sizes: a polynomial of degree three. A constant added to
# the gradient makes its coefficients nonnegative.
def polynomial(U):
    together = np.einsum("ijr,jr->ir", T @ U, U)
    sizes = U.sum(axis=0)
    value = (U * together).sum() - T.mean() * (sizes**3).sum()
    return value, 3 * together - 3 * T.mean() * sizes**2


runs = [
    maximize(polynomial, rng.dirichlet([1, 1], size=50), offset=3 * T.mean() * 50**2)
    for _ in range(5)
]
best = max(runs, key=lambda run: run.value)
print(f"value {best.value:.0f} after {best.n_iter} steps")
print("adjusted Rand", metrics.adjusted_rand_index(truth, best.memberships.argmax(axis=1)))

# %%
# Points near the crossing lie on both lines, and their memberships say so.
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plot.scatter(X, best.memberships, ax=axes[0])
axes[1].plot(best.history)
axes[1].set(xlabel="step", ylabel="value of the polynomial")
