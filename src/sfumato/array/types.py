"""Types of arguments: arrays of any library, similarities, weights, seeds."""

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class Similarity(Protocol):
    """A similarity (n, n): anything with a shape that can be multiplied by an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __matmul__(self, other: Any, /) -> Any: ...


# An array of NumPy, torch or CuPy, or a sparse array of SciPy: which library is known only at run
# time, and so is what its methods return.
Array: TypeAlias = Any
# Arguments of public functions: arrays of any library, and all that NumPy converts to arrays.
ArrayLike: TypeAlias = npt.ArrayLike | Array
Weights: TypeAlias = np.ndarray | None
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
# A model with scikit-learn's methods; a string, so that importing this module is fast.
Estimator: TypeAlias = "BaseEstimator"
