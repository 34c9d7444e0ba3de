"""Confident memberships on noise without a warning, and false warnings, in every model."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import sfumato

from .choose_sets import ASIDE, FAMILIES, NOISE, SET, SET_NOISE, wanted
from .timing import Line

TITLE = "The structure test: noise and false warnings, every model"
DRAWS = int(os.environ.get("SFUMATO_DRAWS", "2"))
FIRST = int(os.environ.get("SFUMATO_FIRST", "0"))  # draw to begin with, for a run in parts
OBJECTS, CONFIDENT = 150, 0.75
SEEDS = {"noise": 19000, "structure": 20000}  # nothing was set on draws with these seeds


def _models(k: int) -> dict[str, Any]:
    return {
        "fuzzy c-means": sfumato.FuzzyCMeans(k, random_state=0),
        "Gaussian mixture": sfumato.GaussianMixture(k, n_init=2, random_state=0),
        "Student mixture": sfumato.StudentMixture(k, n_init=2, random_state=0),
        "factor mixture": sfumato.FactorMixture(k, n_factors=1, n_init=2, random_state=0),
        "mixed mixture": sfumato.MixedMixture(k, n_init=2, random_state=0),
        "Dirichlet process": sfumato.DirichletProcessMixture(n_init=1, random_state=0),
        "spectral": sfumato.SpectralClustering(k, random_state=0),
        "completely positive": sfumato.CompletelyPositiveFactorization(k, n_init=1, random_state=0),
        "pairwise": sfumato.PairwiseProbabilisticClustering(k, random_state=0),
        "consensus": sfumato.EvidenceAccumulation(k, random_state=0),
        "average linkage": sfumato.EvidenceAccumulation(k, consensus="average", random_state=0),
    }


def _precomputed(k: int) -> dict[str, tuple[str, Any]]:
    given = {"similarity": "precomputed", "random_state": 0}
    return {
        "spectral": ("similarity", sfumato.SpectralClustering(k, **given)),
        "completely positive": ("similarity", sfumato.CompletelyPositiveFactorization(k, **given)),
        "pairwise": ("similarity", sfumato.PairwiseProbabilisticClustering(k, **given)),
        "consensus": ("labels", sfumato.EvidenceAccumulation(k, ensemble="precomputed")),
        "average linkage": (
            "labels",
            sfumato.EvidenceAccumulation(k, ensemble="precomputed", consensus="average"),
        ),
    }


def _fit(model: Any, evidence: np.ndarray) -> tuple[bool, bool]:
    """Whether the fit is confident, and whether it warned of the evidence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(evidence)
    confident = float(model.memberships_.max(axis=1).mean()) > CONFIDENT
    return confident, any(issubclass(w.category, sfumato.EvidenceWarning) for w in caught)


def _noise_fits(k: int) -> Iterator[tuple[str, str, bool]]:
    """Kind of noise, model, and whether the fit is confident without a warning."""
    for draw in range(FIRST, FIRST + DRAWS):
        for place, (kind, make) in enumerate(NOISE.items()):
            if wanted(kind):
                X = make(OBJECTS, np.random.default_rng([SEEDS["noise"], draw, place]))
                for name, model in _models(k).items():
                    confident, warned = _fit(model, X)
                    yield kind, name, confident and not warned and model.n_clusters_ > 1
        rng = np.random.default_rng([SEEDS["noise"], draw])
        random = rng.random((OBJECTS, OBJECTS))
        labels = rng.integers(4, size=(OBJECTS, 30))
        for name, (kind, model) in _precomputed(k).items() if wanted("at random") else ():
            confident, warned = _fit(model, random + random.T if kind == "similarity" else labels)
            yield f"{kind} at random", name, confident and not warned


def _structured_fits() -> Iterator[tuple[str, str, bool]]:
    """Family, model, and whether a fit with the true number that finds the groups warned."""
    for draw in range(FIRST, FIRST + DRAWS):
        for place, (family, make) in enumerate(FAMILIES.items()):
            if family not in ASIDE + SET[1:] or not wanted(family):
                continue
            rng = np.random.default_rng([SEEDS["structure"], draw, place])
            X, truth = make(2 * OBJECTS, rng)
            for name, model in _models(int(truth.max()) + 1).items():
                _, warned = _fit(model, X)
                found = sfumato.metrics.adjusted_rand_index(truth, model.labels_) > 0.8
                if found and model.n_clusters_ == truth.max() + 1:
                    yield family, name, warned


def _share(values: list[bool]) -> float:
    return 100.0 * float(np.mean(values)) if values else math.nan


def run() -> list[Line]:
    lines = []
    for k in (3,):
        fits = list(_noise_fits(k))
        named = [f"{kind}: {name}" for kind, name, silent in fits if silent]
        note = f"{len(fits)} fits; silent: {'; '.join(named) or 'none'}"
        silent = _share([s for _, _, s in fits])
        lines.append(
            Line(f"silent and confident on noise, k = {k}", silent, math.nan, "", "%", "5", note)
        )
        aside = _share([s for kind, _, s in fits if kind not in SET_NOISE])
        lines.append(Line("the same on noise kept aside", aside, math.nan, "", "%", "5"))
    fits = list(_structured_fits())
    for what, families in {"ten families kept aside": ASIDE, "six that set it": SET}.items():
        own = [fit for fit in fits if fit[0] in families]
        named = sorted({f"{family}: {name}" for family, name, warned in own if warned})
        note = f"{len(own)} fits that found the groups; warned: {'; '.join(named) or 'none'}"
        share = _share([warned for _, _, warned in own])
        lines.append(Line(f"false warnings, {what}", share, math.nan, "", "%", "5", note))
    return lines
