"""Clustering of the cells in an AnnData object, with results where scanpy's tools put theirs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from .array.validation import check_number

__all__ = ["cluster", "consensus"]


def cluster(
    adata: Any,
    model: Any,
    *,
    use_rep: str | None = None,
    obsp: str | None = None,
    key_added: str = "sfumato",
) -> Any:
    """Fit a copy of a model to the cells, and write memberships to ``adata.obsm[key_added]``;
    returns the fitted copy.

    Labels go to ``adata.obs[key_added]`` (a category), certainties to
    ``adata.obs[key_added + "_certainty"]``, parameters to ``adata.uns[key_added]``.

    Parameters
    ----------
    adata : AnnData, to which results are added
    model : estimator of sfumato, of which a copy is fitted
    use_rep : str, optional
        What the model is fitted to: a key of ``adata.obsm``, or ``"X"``. By default ``"X_pca"`` if
        the object has it, else ``X``.
    obsp : str, optional
        Key of a similarity in ``adata.obsp``, such as ``"connectivities"``, for a model with
        ``similarity="precomputed"``.
    key_added : str

    Examples
    --------
    >>> import anndata, numpy, sfumato  # doctest: +SKIP
    >>> cells = anndata.AnnData(numpy.random.default_rng(0).normal(size=(40, 3)))  # doctest: +SKIP
    >>> model = sfumato.anndata.cluster(cells, sfumato.GaussianMixture(2))  # doctest: +SKIP
    >>> cells.obsm["sfumato"].shape  # doctest: +SKIP
    (40, 2)
    """
    if obsp is not None:
        evidence, source = _held(adata.obsp, obsp, "obsp"), f"obsp[{obsp!r}]"
    else:
        name = use_rep or ("X_pca" if "X_pca" in adata.obsm else "X")
        evidence = adata.X if name == "X" else _held(adata.obsm, name, "use_rep")
        source = "X" if name == "X" else f"obsm[{name!r}]"
    fitted = clone(model).fit(evidence)
    _add(adata, fitted, source, key_added)
    return fitted


def consensus(
    adata: Any,
    keys: Sequence[str],
    n_clusters: int | str = "auto",
    *,
    key_added: str = "sfumato_consensus",
    random_state: int | None = 0,
) -> Any:
    """Soft consensus of several clusterings of the cells, such as Leiden at many resolutions.

    Writes what ``cluster`` writes, under another key; returns the fitted ``EvidenceAccumulation``.

    Parameters
    ----------
    adata : AnnData, to which results are added
    keys : sequence of str
        Columns of ``adata.obs`` with labels.
    n_clusters : int or "auto"
    key_added : str
    random_state : int or None
    """
    from . import EvidenceAccumulation

    if isinstance(keys, str) or len(keys) < 2:
        raise ValueError(f"keys must name at least two columns of adata.obs, got {keys!r}")
    columns = [np.asarray(_held(adata.obs, key, "keys")).astype(str) for key in keys]
    if n_clusters != "auto":
        check_number(n_clusters, "n_clusters", low=1)
    model = EvidenceAccumulation(n_clusters, ensemble="precomputed", random_state=random_state)
    fitted = model.fit(np.column_stack(columns))
    _add(adata, fitted, f"obs[{list(keys)}]", key_added)
    return fitted


def _held(place: Any, key: str, what: str) -> Any:
    """The entry under a key, or an error that lists the available keys."""
    if key not in place:
        known = ", ".join(repr(str(name)) for name in list(place.keys())[:8]) or "nothing"
        raise ValueError(f"{what}: the object has no {key!r}; it has {known}")
    return place[key]


def _add(adata: Any, model: Any, source: str, key: str) -> None:
    import pandas as pd  # installed with AnnData

    from . import __version__

    U = np.asarray(model.memberships_)
    labels, names = np.asarray(model.labels_).astype(str), [str(k) for k in range(U.shape[1])]
    adata.obsm[key] = U
    adata.obs[key] = pd.Categorical(labels, categories=names)
    adata.obs[f"{key}_certainty"] = U.max(axis=1)
    given = {name: v for name, v in model.get_params(deep=False).items() if v is not None}
    plain = (str, int, float, bool)
    parameters = {name: v if isinstance(v, plain) else repr(v) for name, v in given.items()}
    parameters |= {"model": type(model).__name__, "use_rep": source}
    adata.uns[key] = {"params": parameters, "version": __version__}
