import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import FuzzyCMeans, MemoryBudgetError
from sfumato.datasets import make_memberships
from sfumato.memberships import (
    align,
    average,
    check_memberships,
    cooccurrence,
    entropy,
    harden,
    margin,
    most_uncertain,
    one_hot,
    predict_strongest,
    project_simplex,
    sizes,
    strongest,
)


def soft(seed=0, n=20, k=4):
    return make_memberships(n, k, concentration=0.5, random_state=seed)


def test_harden_is_argmax_and_rejects_the_vague():
    U = soft()
    np.testing.assert_array_equal(harden(U), U.argmax(1))
    labels = harden(U, threshold=0.6)
    np.testing.assert_array_equal(labels == -1, U.max(1) < 0.6)
    np.testing.assert_array_equal(labels[labels >= 0], U.argmax(1)[labels >= 0])
    with pytest.raises(ValueError, match="threshold"):
        harden(U, threshold=2)


def test_entropy_margin_and_sizes_equal_their_definitions():
    U = soft()
    np.testing.assert_allclose(entropy(U), [-sum(u * np.log(u) for u in row if u > 0) for row in U])
    np.testing.assert_allclose(margin(U), [sorted(row)[-1] - sorted(row)[-2] for row in U])
    w = np.arange(20.0)
    np.testing.assert_allclose(sizes(U, w), sum(w[i] * U[i] for i in range(20)))
    assert entropy(np.eye(3)).tolist() == [0, 0, 0]
    assert margin(np.ones((3, 1))).tolist() == [1, 1, 1]
    assert entropy(np.ones((3, 1)), relative=True).tolist() == [0, 0, 0]


def test_float32_stays_float32():
    U = soft().astype(np.float32)
    for result in (
        entropy(U),
        entropy(U, relative=True),
        margin(U),
        sizes(U),
        align(U, U[:, ::-1]),
        cooccurrence(U),
    ):
        assert result.dtype == np.float32


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
def test_align_undoes_any_renaming_and_is_optimal(seed, k, k_reference):
    from itertools import permutations

    U, V = soft(seed, k=k), soft(seed + 1, k=k_reference)
    order = np.random.default_rng(seed).permutation(k)
    np.testing.assert_array_equal(align(U[:, order], U), U)
    aligned = align(U, V)
    width = max(k, k_reference)
    assert aligned.shape == (20, width)
    np.testing.assert_allclose(aligned.sum(1), 1)
    padded, target = (
        np.pad(U, ((0, 0), (0, width - k))),
        np.pad(V, ((0, 0), (0, width - k_reference))),
    )
    best = min(np.sum((padded[:, list(p)] - target) ** 2) for p in permutations(range(width)))
    assert np.sum((aligned - target) ** 2) == pytest.approx(best)


def test_average_recovers_a_membership_from_renamed_noisy_copies():
    U = soft(n=200)
    rng = np.random.default_rng(0)
    copies = [
        project_simplex(U[:, rng.permutation(4)] + rng.normal(scale=0.1, size=U.shape))
        for _ in range(30)
    ]
    mean = average(copies, reference=U)
    assert np.abs(mean - U).mean() < 0.05
    np.testing.assert_allclose(mean.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(average([U, U[:, ::-1]]), U, atol=1e-15)


def test_average_of_unequal_numbers_of_clusters_and_weights():
    U, V = soft(k=2), soft(1, k=4)
    assert average([U, V]).shape == (20, 4)
    np.testing.assert_allclose(average([U, V], partition_weight=[0, 1]), V, atol=1e-15)
    with pytest.raises(ValueError, match="partition_weight must hold a weight for each of 2"):
        average([U, V], partition_weight=[1, 2, 3])
    with pytest.raises(ValueError, match="empty"):
        average([])


def test_cooccurrence_of_pairs_and_of_all():
    U = soft()
    C = U @ U.T
    np.fill_diagonal(C, 1)
    np.testing.assert_allclose(cooccurrence(U), C)
    pairs = np.random.default_rng(0).integers(20, size=(200_000, 2))
    np.testing.assert_allclose(cooccurrence(U, pairs), C[pairs[:, 0], pairs[:, 1]])
    assert cooccurrence(U, np.empty((0, 2), int)).shape == (0,)
    with pytest.raises(ValueError, match="20 objects"):
        cooccurrence(U, [(0, 20)])
    with pytest.raises(ValueError, match=r"integers .m, 2."):
        cooccurrence(U, [0, 1])


def test_cooccurrence_of_all_pairs_asks_for_memory_first(monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1000")
    with pytest.raises(MemoryBudgetError, match="pass the pairs you need"):
        cooccurrence(soft())


def test_one_hot():
    labels = np.array([2, 0, -1, 1])
    U = one_hot(labels)
    np.testing.assert_array_equal(U.argmax(1)[labels >= 0], labels[labels >= 0])
    np.testing.assert_allclose(U[2], 1 / 3)
    np.testing.assert_array_equal(one_hot(["b", "a"]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(one_hot([True, False]), [[0, 1], [1, 0]])
    assert one_hot([0, 1], dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="n_clusters=2"):
        one_hot([0, 5], 2)
    with pytest.raises(ValueError, match="-3"):
        one_hot([0, -3])


def test_most_uncertain_come_first():
    U = soft()
    order = most_uncertain(U, 20)
    assert (np.diff(entropy(U)[order]) <= 0).all()
    assert (np.diff(margin(U)[most_uncertain(U, 5, by="margin")]) >= 0).all()
    assert len(most_uncertain(U, 100)) == 20
    with pytest.raises(ValueError, match="by must be one of 'entropy', 'margin'"):
        most_uncertain(U, by="size")


def test_what_is_not_memberships_is_refused():
    for wrong in ([[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match="sum to 1"):
            check_memberships(wrong)
    with pytest.raises(ValueError, match=r"array .n, k., not empty"):
        check_memberships([1.0, 0.0])
    with pytest.raises(TypeError, match="numbers"):
        check_memberships([["a"]])


def test_other_array_libraries():
    torch = pytest.importorskip("torch")
    U = soft()
    T = torch.asarray(U)
    for function in (entropy, margin, sizes, harden, cooccurrence):
        result = function(T)
        assert isinstance(result, torch.Tensor)
        np.testing.assert_allclose(result.numpy(), function(U))
    np.testing.assert_allclose(align(T[:, [1, 0, 2, 3]], T).numpy(), U)
    np.testing.assert_allclose(cooccurrence(T, [(0, 1)]).numpy(), cooccurrence(U, [(0, 1)]))


def test_scores_that_cannot_be_projected_are_named():
    for scores in ("a", [["a", "b"]], None, [[1j, 2.0]]):
        with pytest.raises((TypeError, ValueError), match="scores"):
            project_simplex(scores)
    for scores in (3.0, np.empty((2, 0)), [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match="scores"):
            project_simplex(scores)
    np.testing.assert_allclose(project_simplex([2, 1]), [1.0, 0.0])


def test_strongest_keeps_the_largest_and_rescales():
    rng = np.random.default_rng(0)
    U = rng.dirichlet(np.full(30, 0.3), size=200)
    few = strongest(U, top=4)
    assert np.diff(few.indptr).max() <= 4
    np.testing.assert_allclose(few.sum(axis=1), 1.0)
    for row, kept in zip(U, few.toarray(), strict=True):
        largest = np.argsort(-row, kind="stable")[:4]
        expected = np.zeros(30)
        expected[largest] = row[largest] / row[largest].sum()
        np.testing.assert_allclose(kept, expected)
    np.testing.assert_allclose(strongest(U, top=50).toarray(), U)


def test_strongest_of_equal_memberships_are_the_first_clusters():
    assert strongest(np.full((1, 5), 0.2), top=2).indices.tolist() == [0, 1]


@pytest.mark.parametrize("top", [0, 1.5, "all"])
def test_strongest_refuses(top):
    with pytest.raises((TypeError, ValueError), match="top"):
        strongest(np.eye(3), top)


def test_predict_strongest_equals_that_of_dense_memberships(monkeypatch):
    X = np.random.default_rng(1).normal(size=(101, 3))
    model = FuzzyCMeans(12, random_state=0).partial_fit(X)
    monkeypatch.setitem(predict_strongest.__globals__, "ENTRIES", 120)
    few = predict_strongest(model, X, top=3)
    np.testing.assert_allclose(
        few.toarray(), strongest(model.predict_proba(X), 3).toarray(), atol=1e-12
    )
    with pytest.raises(TypeError, match="predict_proba"):
        predict_strongest("model", X)


def test_numbers_out_of_range_are_named():
    U = np.array([[0.9, 0.1], [0.5, 0.5]])
    with pytest.raises(TypeError, match="threshold must be a number, got 'a'"):
        harden(U, threshold="a")
    with pytest.raises(ValueError, match="n_objects must lie in"):
        most_uncertain(U, -1)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_projection_of_huge_scores():
    V = [[1e308, -1e308, -1.5e308], [0.2, -1e308, 0.9], [3.0, 2.5, -1e308]]
    np.testing.assert_allclose(project_simplex(V), [[1, 0, 0], [0.15, 0, 0.85], [0.75, 0.25, 0]])
