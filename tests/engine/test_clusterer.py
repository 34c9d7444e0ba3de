"""What every estimator says about memory."""

import numpy as np
import pytest

from sfumato import FuzzyCMeans, MemoryBudgetError
from sfumato.array.validation import SHARE


@pytest.mark.parametrize(("share", "offered"), [(1.0, True), (0.95, False)])
def test_float32_is_offered_only_where_it_fits_with_the_array_it_makes(share, offered, monkeypatch):
    """Memberships of half the bytes, labels, and the array itself in four bytes a number."""
    n, p, k = 2000, 10, 50
    needed = 4 * n * p + 4 * n * k + 8 * n
    budget = int(share * needed / SHARE) + 1
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", str(budget))
    with pytest.raises(MemoryBudgetError, match="FuzzyCMeans.fit would take") as error:
        FuzzyCMeans(k).fit(np.zeros((n, p)))
    assert ("astype('float32')" in str(error.value)) is offered
