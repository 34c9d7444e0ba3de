"""Models by their names on the command line, and how their parameters are set there."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

from .. import models

# Names by which the models are known elsewhere.
ALIASES = {
    "gmm": "gaussian-mixture",
    "fcm": "fuzzy-c-means",
    "dpgmm": "dirichlet-process",
    "eac": "consensus",
}


def commands() -> dict[str, str]:
    """Public class name of every model that the command line offers, by its name there."""
    return {model.command: model.name for model in models.MODELS if model.command}


def class_of(name: str) -> Any:
    """The estimator class of a model."""
    import sfumato

    check_model(name)
    return getattr(sfumato, commands()[name])


def canonical(name: str | None) -> str | None:
    """The name of a model, for one of its aliases."""
    return name if name is None else ALIASES.get(name.lower(), name)


def first_choice(table: Any) -> str:
    """The model for those who name none: the consensus, or the one that takes categories."""
    categories = any(column.categories and column.used for column in table.fields or ())
    return "mixed-mixture" if categories else "consensus"


def parse_clusters(text: str | None, model: str) -> int | None:
    """Number of clusters, ``None`` for ``auto``; if none is given, the default of the estimator."""
    if text is None:
        default = inspect.signature(class_of(model)).parameters["n_clusters"].default
        return default if isinstance(default, int) else None
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"--clusters must be a whole number of at least 1, or auto; got '{text}'")
    return int(text)


def check_model(name: str) -> None:
    """Refuse a name that no model has."""
    if name not in commands():
        raise ValueError(f"--model must be one of {', '.join(commands())}; got '{name}'")


def make(
    name: str,
    n_clusters: int | None,
    *,
    seed: int,
    similarity: str | None = None,
    settings: Sequence[str] | None = None,
) -> Any:
    """An estimator; ``settings`` are "parameter=value" with values in JSON or plain words."""
    kind = class_of(name)
    known = list(inspect.signature(kind).parameters)
    parameters: dict[str, Any] = {"random_state": seed}
    if n_clusters is not None:
        parameters["n_clusters"] = n_clusters
    if similarity is not None:
        if "similarity" not in known:
            raise ValueError(
                f"--similarity does not apply to {name}, which takes features as they are"
            )
        parameters["similarity"] = similarity
    choices = [name for name in known if name not in ("n_clusters", "random_state")]
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or key not in choices:
            raise ValueError(
                f"--set takes parameter=value, with one of {', '.join(choices)}; got '{setting}'"
            )
        parameters[key] = _value(value)
    return kind(**{key: value for key, value in parameters.items() if key in known})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None if text == "None" else {"True": True, "False": False}.get(text, text)
