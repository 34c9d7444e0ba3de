"""Compilation ahead of the first fit."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from ..core.arrays import compiling, optional_module
from ..numerics.waiting import waited
from . import MODELS

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Compile the kernels that have a compiled form, and keep them on disk for later processes.

    Small fits do not wait for a compilation: until this function, or a fit of very many objects,
    has compiled the kernels, they compute with NumPy. Afterwards small mixtures are about five
    times faster, other small fits two to three times. It takes one to two minutes, once for each
    installation; a second call takes seconds.

    Raises
    ------
    ImportError
        If Numba is not installed.
    PermissionError
        If there is no folder that can be written to keep the kernels in.

    Examples
    --------
    >>> import sfumato
    >>> sfumato.compile_kernels()  # doctest: +SKIP
    """
    try:
        import_module("numba")
    except ImportError as error:
        raise ImportError("compiling needs Numba: pip install 'sfumato[fast]'") from error
    if optional_module("sfumato.numerics", "compiled_simplex") is None:
        raise PermissionError(
            errno.EACCES,
            "compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a folder that can be written",
        )
    with compiling(whole=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, evidence in _fits():
            waited(estimator.fit, evidence)


def _fits() -> Iterator[tuple[Any, np.ndarray]]:
    """Small fits that together call every compiled kernel, with the evidence of each."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 30)
    X = rng.normal(size=(90, 3)) + 2.0 * np.eye(3)[groups]  # overlap, so that all starts are made
    holed = np.where(np.arange(270).reshape(X.shape) % 7 == 0, np.nan, X)
    labelings = np.stack([rng.permutation(3)[groups] for _ in range(12)], axis=1)
    labelings[rng.random(labelings.shape) < 0.1] = 0
    published = {"ensemble": "precomputed", "consensus": "coassociation"}
    likelihood = published | {"consensus": "coassociation-likelihood"}
    settings: tuple[tuple[str, dict[str, Any], np.ndarray], ...] = (
        ("FuzzyCMeans", {}, X),
        ("FuzzyCMeans", {"fuzzifier": 1.2}, X),
        ("FuzzyCMeans", {"fuzzifier": 1.2}, X.astype(np.float32)),
        ("GaussianMixture", {}, X),
        ("GaussianMixture", {}, X.astype(np.float32)),
        ("SpectralClustering", {}, X),
        ("PairwiseProbabilisticClustering", {}, X),
        ("PairwiseProbabilisticClustering", {"similarity": "cosine"}, X),
        ("EvidenceAccumulation", {}, X),
        ("EvidenceAccumulation", {}, holed),
        ("EvidenceAccumulation", {"ensemble": "precomputed"}, labelings),
        ("EvidenceAccumulation", published, labelings),
        ("EvidenceAccumulation", likelihood, labelings),
        ("CompletelyPositiveFactorization", {}, X),
        ("DirichletProcessMixture", {"inference": "gibbs", "max_iter": 5}, X),
    )
    modules = {model.name: model.module for model in MODELS}
    for name, parameters, evidence in settings:
        home = import_module(f"{__package__}.{modules[name]}")
        yield getattr(home, name)(3, random_state=0, **parameters), evidence
