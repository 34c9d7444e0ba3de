"""What labels explain of the leading eigenvectors of a similarity."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.numerics.blocks import Blocks


def blocks_of(sizes: tuple[int, ...], between: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    W = np.where(labels[:, None] == labels, 1.0, between) * rng.uniform(
        0.5, 1.0, (len(labels),) * 2
    )
    return (W + W.T) / 2


@pytest.mark.parametrize("k", [2, 3])
def test_the_share_is_that_of_a_projection_by_lstsq(k):
    W = blocks_of((20, 15, 30), 0.3)
    labels = np.random.default_rng(1).integers(3, size=len(W))
    root = np.sqrt(W.sum(axis=1))
    V = np.linalg.eigh(W / np.outer(root, root))[1][:, ::-1][:, :k]
    indicators = (labels[:, None] == np.arange(3)) * root[:, None]
    fitted = indicators @ np.linalg.lstsq(indicators, V, rcond=None)[0]
    worst = np.linalg.eigvalsh(V.T @ (V - fitted))[-1]
    assert Blocks.of(W, labels, k).unexplained(k) == pytest.approx(worst, abs=1e-3)


def test_blocks_explain_their_labels_and_halves_of_one_stand_apart_together():
    W = blocks_of((40, 40, 40), 0.01)
    labels = np.repeat([0, 1, 2], 40)
    assert Blocks.of(W, labels, 3).unexplained(3) < 0.01
    halved = np.where(np.arange(120) < 20, 3, labels)
    found = Blocks.of(W, halved, 4)
    assert found.unexplained(4) > 0.2
    assert found.n_apart(4, 0.1) == 3
    assert found.n_apart(4, 0.0) == 1
