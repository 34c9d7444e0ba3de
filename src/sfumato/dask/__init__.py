"""Estimators on dask arrays, with the blocks of rows on the workers of a cluster.

Needs ``pip install 'sfumato[dask]'`` and a running ``distributed.Client``.

Blocks of rows stay on the workers as futures. The state of the model is sent to them, and sums over
blocks come back. They are added in the order of the blocks, so that the answer does not depend on
the workers. Results of a lost worker are computed again.

Features: a pass over the data is one task per block. Similarities: worker b keeps rows W_b; a panel
P of a Gauss-Seidel sweep needs

    (W U)[P] = sum_b W_b[:, P]' U_b        (W is symmetric: every worker takes part in every panel)

so only U_b and its changes are sent.
"""

from ._features import Features, check_array, check_features, shards
from ._similarity import Similarity

__all__ = ["Features", "Similarity", "check_array", "check_features", "shards"]
