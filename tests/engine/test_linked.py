"""Linked rows: units, pieces, and their memberships against plain enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from sfumato.data.constraints import Known
from sfumato.engine import linked
from sfumato.native.linked import Units


def enumerated(logits, together, pulls, labels):
    """Marginals of every row, and the log-sum, over all labellings of all rows."""
    m, k = logits.shape
    total, weight = [], []
    for z in itertools.product(range(k), repeat=m):
        if any(z[a] != z[b] for a, b in together):
            continue
        if any(label >= 0 and z[i] != label for i, label in enumerate(labels)):
            continue
        value = sum(logits[i, z[i]] for i in range(m))
        value += sum(w for (a, b), w in pulls if z[a] == z[b])
        total.append(value)
        weight.append(z)
    total, weight = np.array(total), np.array(weight)
    p = np.exp(total - logsumexp(total))
    U = np.stack([[p[weight[:, i] == j].sum() for j in range(k)] for i in range(m)])
    return U, logsumexp(total)


@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_marginals_are_those_of_all_labellings(seed, k):
    rng = np.random.default_rng(seed)
    n = 6
    logits = rng.normal(scale=2, size=(n, k))
    must, soft = [[0, 1]], [[2, 3, 0.7]]
    apart = [[1, 2, 1.5], [4, 5, 3.0]]
    labels = np.array([-1, -1, -1, -1, -1, int(rng.integers(2))])
    known = Known.of(must + [], [*apart], None, logits, k)
    known = known._replace(
        pairs=np.vstack([known.pairs, [[2, 3]]]),
        weights=np.append(known.weights, 0.7),
        labels=labels,
    )
    links = linked.Linked.of(known)
    np.testing.assert_array_equal(links.rows, np.arange(n))
    U, value = links.couple(logits)
    pulls = [((1, 2), -1.5), ((4, 5), -3.0), ((soft[0][0], soft[0][1]), 0.7)]
    expected, total = enumerated(logits, must, pulls, labels)
    np.testing.assert_allclose(U, expected, atol=1e-9)
    assert value == pytest.approx(total, abs=1e-8)


def test_hard_links_of_a_large_piece_are_honoured(rng):
    n, k = 30, 3
    truth = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += 2.0
    pairs = np.array([(a, b) for a in range(n) for b in range(a) if truth[a] != truth[b]])[::7]
    links = linked.Linked.of(Known.of(None, pairs, None, logits, k))
    assert max(units.size for units in links.pieces) > 8
    U, value = links.couple(logits)
    labels = U.argmax(axis=1)
    at = np.searchsorted(links.rows, pairs)
    assert (labels[at[:, 0]] != labels[at[:, 1]]).all()
    assert value <= logsumexp(logits[links.rows], axis=1).sum() + 1e-9


def test_mean_field_bounds_the_exact_sum_from_below(rng):
    A, pull = rng.normal(size=(5, 2)), np.zeros((5, 5))
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 4)):
        pull[a, b] = pull[b, a] = -0.3
    nothing, piece = (np.empty(0, int),) * 3, [(np.arange(5), pull)]
    U, exact = Units(np.full(5, -1), nothing, piece, linked.MOST_STATES).couple(A)
    near, bound = linked._mean_field(A, pull)
    assert bound <= exact
    assert bound > exact - 0.05
    np.testing.assert_allclose(near, U, atol=0.02)


def test_what_cannot_be_honoured_is_broken_as_little_as_possible():
    pairs = [(a, b) for a in range(3) for b in range(a)]
    links = linked.Linked.of(Known.of(None, pairs, None, np.zeros((3, 1)), 2))
    U, _ = links.couple(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]]))
    assert np.isfinite(U).all()
    assert U[0].argmax() == 0


def test_units_of_known_label_tell_others_and_join_no_pieces(rng):
    logits = rng.normal(size=(7, 3))
    y = np.array([0, 1, 2, -1, -1, -1, -1])
    apart = [[0, 3, 0.8], [1, 3, 1.7], [4, 2, 2.5], [5, 4, 0.4]]
    links = linked.Linked.of(Known.of([[6, 2, 1.1]], apart, y, logits, 3))
    assert [units.size for units in links.pieces] == [2]
    U, value = links.couple(logits)
    pulls = [((a, b), -w) for a, b, w in apart] + [((6, 2), 1.1)]
    expected, total = enumerated(logits, [], pulls, y)
    np.testing.assert_allclose(U, expected, atol=1e-9)
    assert value == pytest.approx(total, abs=1e-8)


def test_pieces_are_worked_on_as_each_by_itself(rng):
    logits = rng.normal(size=(8, 3))
    apart = [[0, 1, 0.8], [2, 3, 1.7], [4, 5, 2.5], [5, 6, 0.4], [6, 7, 1.0]]
    together = linked.Linked.of(Known.of(None, apart, None, logits, 3))
    assert [units.size for units in together.pieces] == [2, 2, 4]
    U, value = together.couple(logits)
    groups = (apart[:1], apart[1:2], apart[2:])
    parts = [linked.Linked.of(Known.of(None, group, None, logits, 3)) for group in groups]
    alone = [part.couple(logits[part.rows]) for part in parts]
    np.testing.assert_allclose(U, np.concatenate([R for R, _ in alone]), rtol=1e-12)
    assert value == pytest.approx(sum(part for _, part in alone), rel=1e-12)
