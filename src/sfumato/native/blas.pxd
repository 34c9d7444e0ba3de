# Matrix products in row-major order, by the BLAS of SciPy, and the type of real numbers.

from scipy.linalg.cython_blas cimport dgemm, sgemm

ctypedef fused real:
    float
    double


cdef inline void multiply_strided(
    const real* A, Py_ssize_t to_next_a, const real* B, Py_ssize_t to_next_b, real* C,
    Py_ssize_t to_next_c, Py_ssize_t m, Py_ssize_t n, Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B for A (m, p) and B (p, n), with the given row strides."""
    cdef int rows = <int> m, columns = <int> n, inner = <int> p
    cdef int a = <int> to_next_a, b = <int> to_next_b, c = <int> to_next_c
    cdef char no = b"N"
    cdef real one = 1.0, zero = 0.0
    if real is double:
        dgemm(&no, &no, &columns, &rows, &inner, &one, <real*> B, &b, <real*> A, &a, &zero, C, &c)
    else:
        sgemm(&no, &no, &columns, &rows, &inner, &one, <real*> B, &b, <real*> A, &a, &zero, C, &c)


cdef inline void multiply(
    const real* A, Py_ssize_t to_next, const real* B, real* C, Py_ssize_t m, Py_ssize_t n,
    Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B for A (m, p) with row stride ``to_next``, and B (p, n)."""
    multiply_strided(A, to_next, B, n, C, n, m, n, p)


cdef inline void multiply_transposed(
    const real* A, Py_ssize_t to_next_a, const real* B, Py_ssize_t to_next_b, real* C, Py_ssize_t m,
    Py_ssize_t n, Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B' for A (m, p) and B (n, p), with the given row strides."""
    cdef int rows = <int> m, columns = <int> n, inner = <int> p
    cdef int a = <int> to_next_a, b = <int> to_next_b
    cdef char no = b"N", yes = b"T"
    cdef real one = 1.0, zero = 0.0
    if real is double:
        dgemm(&yes, &no, &columns, &rows, &inner, &one, <real*> B, &b, <real*> A, &a, &zero, C,
              &columns)
    else:
        sgemm(&yes, &no, &columns, &rows, &inner, &one, <real*> B, &b, <real*> A, &a, &zero, C,
              &columns)
