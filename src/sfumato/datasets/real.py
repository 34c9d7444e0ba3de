"""Small real data sets, as scikit-learn ships them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Loaded", "load_breast_cancer", "load_digits", "load_iris", "load_wine"]


class Loaded(NamedTuple):
    """A real data set: features (n, p) and known classes (n,)."""

    X: np.ndarray
    labels: np.ndarray


def _load(name: str) -> Loaded:
    import sklearn.datasets

    X, labels = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return Loaded(X, labels)


def load_iris() -> Loaded:
    """Fisher's irises: 150 flowers, 4 lengths and widths in cm, 3 species of 50.

    As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    return _load("iris")


def load_wine() -> Loaded:
    """Wines of three growers: 178 wines, 13 chemical measurements of very different scale.

    As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_wine
    >>> load_wine().X.shape
    (178, 13)
    """
    return _load("wine")


def load_digits() -> Loaded:
    """Handwritten digits: 1797 images of 8 x 8 pixels with 17 grey levels, 10 digits.

    As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_digits
    >>> load_digits().X.shape
    (1797, 64)
    """
    return _load("digits")


def load_breast_cancer() -> Loaded:
    """Wisconsin breast cancer, diagnostic.

    569 tumours, 30 measurements, malignant (0) or benign (1). As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_breast_cancer
    >>> load_breast_cancer().X.shape
    (569, 30)
    """
    return _load("breast_cancer")
