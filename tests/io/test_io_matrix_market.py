"""Matrix Market: what SciPy writes comes back, and what nobody should write is refused without a
crash.
"""

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.io import InputError, read

A = np.random.default_rng(0).integers(-3, 4, size=(6, 6)) * 1.5
FORMS = {
    "sparse": sp.coo_array(np.where(A > 0, A, 0)),
    "dense": A,
    "symmetric": sp.coo_array(A + A.T),
    "dense symmetric": A + A.T,
    "skew": sp.coo_array(A - A.T),
    "dense skew": A - A.T,
    "integer": sp.coo_array(A.astype(int)),
    "wide": A[:2],
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_what_scipy_writes_comes_back(tmp_path, form, packed):
    symmetry = {"symmetric": "symmetric", "skew": "skew-symmetric"}.get(form.split()[-1], "general")
    scipy.io.mmwrite(tmp_path / "a.mtx", FORMS[form], symmetry=symmetry)
    path = tmp_path / "a.mtx"
    if packed:
        path = tmp_path / "a.mtx.gz"
        path.write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    values = read(path).values
    expected = scipy.io.mmread(tmp_path / "a.mtx", spmatrix=False)
    assert sp.issparse(values) == sp.issparse(expected)
    as_dense = [
        matrix.toarray() if sp.issparse(matrix) else matrix for matrix in (values, expected)
    ]
    np.testing.assert_array_equal(*as_dense)


def test_a_pattern_is_ones(tmp_path):
    head = "%%MatrixMarket matrix coordinate pattern symmetric\n% a note\n\n3 3 3\n"
    (tmp_path / "a.mtx").write_text(head + "1 1\n3 1\n3 2\n")
    np.testing.assert_array_equal(
        read(tmp_path / "a.mtx").values.toarray(), [[1, 0, 1], [0, 0, 1], [1, 1, 0]]
    )


HEAD = "%%MatrixMarket matrix coordinate real general\n"
BROKEN = {
    "few": HEAD + "3 3 2\n1 1 5\n",
    "many": HEAD + "3 3 1\n1 1 5\n2 2 5\n",
    "outside": HEAD + "3 3 2\n1 1 5\n4 1 5\n",
    "zero": HEAD + "3 3 2\n1 1 5\n0 1 5\n",
    "half": HEAD + "3 3 2\n1 1 5\n1.5 1 5\n",
    "huge": HEAD + "3 3 2\n1 1 5\n1e300 1 5\n",
    "text": HEAD + "3 3 2\n1 1 5\n1 x 5\n",
    "negative": HEAD + "-3 3 1\n1 1 5\n",
    "words": "%%MatrixMarket matrix coordinate real sideways\n3 3 1\n1 1 5\n",
    "not square": HEAD.replace("general", "symmetric") + "3 2 1\n1 1 5\n",
    "no sizes": HEAD + "%\n",
    "complex": HEAD.replace("real", "complex") + "1 1 1\n1 1 5 0\n",
    "declared": HEAD + "3 3 99999999\n1 1 5\n",
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused(tmp_path, case):
    (tmp_path / "a.mtx").write_text(BROKEN[case])
    with pytest.raises(InputError):
        read(tmp_path / "a.mtx")


@settings(max_examples=60)
@given(st.data())
def test_no_change_of_bytes_brings_a_foreign_error(tmp_path_factory, data):
    """The parser of SciPy dies of a segmentation fault on some of these."""
    content = bytearray((HEAD + "4 3 5\n1 1 0.5\n2 3 1e-3\n3 1 2.25\n4 2 7\n4 3 1\n").encode())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("market") / "a.mtx"
    path.write_bytes(content)
    try:
        values = read(path).values
    except (InputError, MemoryError):
        return
    assert values.ndim == 2
