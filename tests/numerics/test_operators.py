"""Sums over the entries of a similarity, whatever it is, against the matrix it stands for."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from sfumato.numerics.operators import Factored, diagonal_of, magnitudes, squared_norm

N, M = 300, 280  # products with the identity go by 256 columns
RNG = np.random.default_rng(0)
F, R = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))
F[RNG.random(F.shape) < 0.3] = 0.0
W = F @ R.T
FORMS = {
    "array": W,
    "sparse": sp.csr_array(W),
    "operator": aslinearoperator(W),
    "factors": Factored(F, R),
    "sparse factors": Factored(sp.csr_array(F), sp.csr_array(R)),
}


@pytest.mark.parametrize("right", [None, RNG.random(M)], ids=["", "right"])
@pytest.mark.parametrize("left", [None, RNG.random(N)], ids=["", "left"])
@pytest.mark.parametrize("form", FORMS)
def test_squared_norm_is_the_weighted_sum_of_squares(form, left, right):
    l, r = (np.ones(s) if v is None else v for s, v in ((N, left), (M, right)))
    assert squared_norm(FORMS[form], left, right) == pytest.approx(l @ W**2 @ r, rel=1e-12)


def test_the_norm_of_a_similarity_that_is_one_factor_by_itself():
    v = RNG.random(N)
    one = Factored(F, F)
    assert squared_norm(one) == pytest.approx(np.square(F @ F.T).sum(), rel=1e-12)
    assert squared_norm(one, v) == pytest.approx(v @ np.square(F @ F.T).sum(axis=1), rel=1e-12)
    assert squared_norm(one, v, v) == pytest.approx(v @ np.square(F @ F.T) @ v, rel=1e-12)


def test_the_diagonal_of_what_only_multiplies():
    square = F @ F.T
    np.testing.assert_allclose(diagonal_of(aslinearoperator(square)), square.diagonal())


@pytest.mark.parametrize("form", ["array", "sparse"])
def test_magnitudes_are_without_signs(form):
    found = magnitudes(FORMS[form])
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, np.abs(W))
