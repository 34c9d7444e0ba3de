"""Sums of soft assignment on a CUDA device beside the same formulas in double precision."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from sfumato.numerics import distances
from sfumato.numerics.cuda_sums import fits, soft_sums

FLOOR = 1e-3


def expected(Z, weights, rows, fuzzifier):
    """w A z' and the sum of the costs."""
    D = rows @ Z
    if fuzzifier is None:
        top = D.max(axis=0)
        A = np.exp(D - top)
        costs = np.log(A.sum(axis=0)) + top
        A = A / A.sum(axis=0)
    else:
        D = np.maximum(D + FLOOR, FLOOR)
        U = D ** (-1.0 / (fuzzifier - 1.0))
        total = U.sum(axis=0)
        costs = len(rows) ** (fuzzifier - 1.0) * total ** (1.0 - fuzzifier)
        A = (costs / D) * (U / total)
        if fuzzifier == 2.0:
            A = (U / total) ** 2
    return (A * weights) @ Z.T, float(np.sum(costs * weights))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "k"), [(2, 3), (32, 64), (16, 128), (100, 120)])
@pytest.mark.parametrize(
    ("kind", "fuzzifier"),
    [("spherical", 2.0), ("spherical", 1.5), ("spherical", None), ("diag", None)],
)
def test_sums_are_those_of_double_precision(rng, kind, fuzzifier, d, k, weighted):
    X = rng.normal(size=(d, 5000))
    spread = np.full(k, 1.3) if kind == "spherical" else rng.uniform(0.5, 2.0, (k, d))
    rows = distances.coefficients(rng.normal(size=(k, d)), spread, kind)
    if fuzzifier is None:
        rows = -0.5 * rows
    Z = distances.features(X, kind)
    weights = rng.uniform(0.5, 2.0, 5000) if weighted else np.ones(5000)
    on = torch.asarray(Z, dtype=torch.float32, device="cuda")
    if not fits(on, rows, d):
        pytest.skip("too large for the device's shared memory")
    given = torch.asarray(weights, dtype=torch.float32, device="cuda") if weighted else None
    sums, cost = soft_sums(on, given, rows, d, fuzzifier=fuzzifier, floor=FLOOR)
    wanted, level = expected(Z, weights, rows, fuzzifier)
    np.testing.assert_allclose(sums, wanted, atol=2e-5 * np.abs(wanted).max())
    assert cost == pytest.approx(level, rel=2e-5)
