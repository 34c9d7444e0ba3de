"""Cluster kernels: they transform the spectrum so that objects of one cluster become similar."""

from typing import Any

import numpy as np

from ..array.arrays import namespace
from ..array.types import Array, ArrayLike
from ..array.validation import check_choice, check_number, check_weights
from ..array.warn import warn
from ..data.matrices import check_rows, check_similarity
from ..numerics.distances import unit_rows
from ..numerics.eigen import Spectrum, leading_eigenvectors
from ..numerics.operators import Factored, dtype_of, normalized_operator, positive_degrees


class ClusterKernel(Factored):
    """The operator W~ = Z Z', whose rows Z have length one; ``extend`` places new objects.

    Attributes
    ----------
    factor : array of shape (n, r)
    eigenvalues : array of shape (r,)
        Eigenvalues of the normalised similarity, before the transfer.
    following : float
        The first eigenvalue that was left out.
    """

    def __init__(
        self, factor: Array, projection: ArrayLike, eigenvalues: ArrayLike, following: float
    ) -> None:
        super().__init__(factor)
        self.projection, self.eigenvalues, self.following = projection, eigenvalues, following

    def extend(self, rows: Any) -> Any:
        """Factor rows (n_new, r) of new objects (Nystrom), of length one, or zeros for an object
        similar to nothing; times ``factor.T`` they are similarities.

        Parameters
        ----------
        rows : array, sparse array or operator of shape (n_new, n)
            Original similarities of the new objects to the n objects of the kernel.
        """
        return unit_rows(check_rows(rows, self.shape[0], "rows") @ self.projection)


def cluster_kernel(
    K: Array,
    n_components: int | None = None,
    *,
    transfer: str = "step",
    power: float = 3.0,
    sample_weight: Any = None,
) -> ClusterKernel:
    """Cluster kernel of a similarity: eigenvalues of D^-1/2 K D^-1/2 changed by a transfer
    function, then rescaled to a unit diagonal.

    With D^-1/2 K D^-1/2 = V diag(lambda) V', the kernel is Z Z' (Chapelle, Weston and Schoelkopf
    2002), where Z is V diag(phi(lambda))^1/2 with rows of length one: an operator (n, n).

    Parameters
    ----------
    K : array, sparse array or operator of shape (n, n)
        Symmetric similarities. If a matrix has negative entries, degrees are sums of absolute
        values (the signed Laplacian of Kunegis et al. 2010).
    n_components : int, optional
        Number of eigenvectors above the cut; for ``"linear"`` and ``"polynomial"``, the number kept
        (by default all).
    transfer : {"step", "linear", "linear-step", "polynomial", "poly-step"}
        phi of an eigenvalue: ``"step"`` is 1 above the cut and 0 below; ``"linear"`` the
        eigenvalue; ``"linear-step"`` the eigenvalue above the cut and 0 below; ``"polynomial"`` its
        ``power``; ``"poly-step"`` its root above the cut and its square below. Negative eigenvalues
        count as 0. ``"poly-step"`` and, without ``n_components``, ``"linear"`` and ``"polynomial"``
        need the whole spectrum.
    power : float
        Exponent of ``"polynomial"``.
    sample_weight : array of shape (n,), optional
        Weights of the objects: a weight of w counts as w copies.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import cluster_kernel
    >>> K = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> kernel = cluster_kernel(K, 2)
    >>> bool(np.allclose(kernel.toarray(), np.kron(np.eye(2), np.ones((3, 3)))))
    True
    """
    transfers = ("linear", "step", "linear-step", "polynomial", "poly-step")
    check_choice(transfer, "transfer", transfers)
    check_number(power, "power", low=0, strict=True)
    K = check_similarity(K, "K", signed=True)
    n = K.shape[0]
    weights = check_weights(sample_weight, K)
    degree = positive_degrees(K, weights, "K")
    if n_isolated := int((degree == 0).sum()):
        warn(f"{n_isolated} of {n} objects are similar to no other, and stay so")
    A = normalized_operator(K, degree, weights)
    above = n
    if n_components is not None:
        above = check_number(n_components, "n_components", low=1, high=n, integer=True)
    elif "step" in transfer:
        raise ValueError(f"transfer={transfer!r} needs n_components: how many eigenvectors to keep")
    spectrum = leading_eigenvectors(A, n if transfer == "poly-step" else above)
    _warn_if_cut_is_arbitrary(spectrum, above, transfer)
    xp = namespace(spectrum.values)
    values = xp.clip(spectrum.values, min=0.0)
    # Eigenvectors at rounding level are unreliable, and new objects would be divided by them.
    usable = values > n * xp.finfo(values.dtype).eps * values[0]
    phi = _transferred(values, above, transfer, power)
    features = spectrum.vectors * xp.where(usable, phi, xp.zeros_like(values)) ** 0.5
    divisors = xp.where(usable, values, xp.ones_like(values))
    projection = A.scaling[:, None] * (features / divisors)
    return ClusterKernel(unit_rows(features), projection, spectrum.values, spectrum.following)


def _transferred(values: Array, above: int, transfer: str, power: float) -> Any:
    xp = namespace(values)
    if transfer == "step":
        return xp.ones_like(values)
    if transfer == "polynomial":
        return values**power
    if transfer == "poly-step":
        return xp.concat([values[:above] ** 0.5, values[above:] ** 2])
    return values


def _warn_if_cut_is_arbitrary(spectrum: Spectrum, above: int, transfer: str) -> None:
    """Warn if rounding decides which eigenvectors stay, because the two at the cut are equal."""
    if transfer not in ("step", "linear-step") or above == spectrum.vectors.shape[0]:
        return
    last = float(spectrum.values[above - 1])
    # Size of the residuals of the eigenvectors.
    rounding = max(1e-9, 10 * float(np.finfo(dtype_of(spectrum.values)).eps))
    if last - spectrum.following <= rounding:
        warn(
            f"eigenvalues {above} and {above + 1} of the normalised similarity are equal "
            f"({last:.6g}): it does not say which {above} directions to keep, so the cluster "
            f"kernel of rank {above} is arbitrary"
        )
