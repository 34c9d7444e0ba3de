# Matrix products in row-major order, by the BLAS of SciPy, and the type of real numbers.

from scipy.linalg.cython_blas cimport dgemm, sgemm

ctypedef fused real:
    float
    double


cdef inline void multiply(
    const real* A, Py_ssize_t stride, const real* B, real* C,
    Py_ssize_t m, Py_ssize_t n, Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B for B (p, n) and A (m, p), whose rows begin ``stride`` numbers apart."""
    cdef int rows = <int> m, columns = <int> n, inner = <int> p, ld = <int> stride
    cdef char no = b"N"
    cdef real one = 1.0, zero = 0.0
    if real is double:
        dgemm(&no, &no, &columns, &rows, &inner, &one, <real*> B, &columns, <real*> A, &ld, &zero,
              C, &columns)
    else:
        sgemm(&no, &no, &columns, &rows, &inner, &one, <real*> B, &columns, <real*> A, &ld, &zero,
              C, &columns)


cdef inline void multiply_transposed(
    const real* A, const real* B, real* C, Py_ssize_t m, Py_ssize_t n, Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B' for A (m, p) and B (n, p)."""
    cdef int rows = <int> m, columns = <int> n, inner = <int> p
    cdef char no = b"N", yes = b"T"
    cdef real one = 1.0, zero = 0.0
    if real is double:
        dgemm(&yes, &no, &columns, &rows, &inner, &one, <real*> B, &inner, <real*> A, &inner,
              &zero, C, &columns)
    else:
        sgemm(&yes, &no, &columns, &rows, &inner, &one, <real*> B, &inner, <real*> A, &inner,
              &zero, C, &columns)
