"""Fit one model of every kind from an installed package, as a wheel is tested."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

import sfumato

MODELS = ("FuzzyCMeans", "GaussianMixture", "SpectralClustering", "EvidenceAccumulation")
MODELS += ("PairwiseProbabilisticClustering", "CompletelyPositiveFactorization")


def main() -> int:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 40)
    X = rng.normal(size=(120, 3)) + 8.0 * np.eye(3)[truth]
    for name in MODELS:
        U = getattr(sfumato, name)(3, random_state=0).fit(X).memberships_
        wrong = sum(len(set(U[truth == c].argmax(axis=1))) - 1 for c in range(3))
        if wrong or not np.allclose(U.sum(axis=1), 1.0):
            print(f"{name}: clusters that are far apart were not found")
            return 1
    native = Path(import_module("sfumato.native.sums").__file__)
    print(f"sfumato {sfumato.__version__}: {len(MODELS)} models, native modules in {native.parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
