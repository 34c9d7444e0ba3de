"""
A few labels go a long way
==========================

Two labelled digits of each kind, and hundreds without a label. The cluster kernel uses
the unlabelled ones: it makes digits of one cluster alike, so a support vector machine needs few
labels.
"""

# %%
# A local similarity, and its cluster kernel: ten eigenvectors, all of the same weight.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.similarity import cluster_kernel, knn, self_tuning

X, y = (part[:900] for part in load_digits(return_X_y=True))
kernels = {"plain kernel": self_tuning(X), "cluster kernel": cluster_kernel(knn(X), 10).toarray()}

order = np.argsort(y, kind="stable")
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (name, K) in zip(axes, kernels.items(), strict=True):
    ax.imshow(K[np.ix_(order, order)], cmap="Greys", vmin=0, vmax=1)
    ax.set(title=f"{name}, digits in order", xticks=[], yticks=[])


# %%
# Accuracy on the digits without a label, mean of ten draws of the labelled ones.
def accuracy(K, n_labels, seed):
    rng = np.random.default_rng(seed)
    known = np.concatenate(
        [rng.choice(np.flatnonzero(y == digit), n_labels, replace=False) for digit in range(10)]
    )
    rest = np.setdiff1d(np.arange(len(y)), known)
    machine = SVC(kernel="precomputed", C=10).fit(K[np.ix_(known, known)], y[known])
    return machine.score(K[np.ix_(rest, known)], y[rest])


n_labels = [1, 2, 3, 5, 10, 20]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, K in kernels.items():
    means = [np.mean([accuracy(K, n, seed) for seed in range(10)]) for n in n_labels]
    print(name, dict(zip(n_labels, np.round(means, 3).tolist(), strict=True)))
    ax.plot(n_labels, means, marker="o", label=name)
ax.set(xlabel="labelled digits of each kind", ylabel="accuracy on the others", xscale="log")
ax.legend()

# %%
# New digits join through their neighbours among the known ones: the kernel extends to them without
# being computed again.
kernel = cluster_kernel(knn(X[:800]), 10)
rows = kernel.extend(knn(X[800:], X[:800])) @ kernel.factor.T
machine = SVC(kernel="precomputed", C=10).fit(kernel.toarray(), y[:800])
print(f"accuracy on 100 new digits {machine.score(rows, y[800:]):.3f}")
plt.show()
