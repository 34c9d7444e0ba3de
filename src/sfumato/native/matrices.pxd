# Small symmetric matrices for other native modules: contiguous (d, d), in memory of the caller.

cdef bint cholesky(
    const double* matrix, Py_ssize_t d, double least, double* factor,
) noexcept nogil

cdef double invert_factor(const double* factor, Py_ssize_t d, double* inverse) noexcept nogil

cdef double precision(
    const double* factor, Py_ssize_t d, double* inverse, double* P,
) noexcept nogil

cdef void ascending(
    const double* matrix, Py_ssize_t d, double* rest, double* axes, double* values,
) noexcept nogil

cdef void raise_spectra(
    double* matrices, Py_ssize_t k, Py_ssize_t d, double floor, double* work,
) noexcept nogil

cdef void compose(
    const double* axes, const double* variances, Py_ssize_t d, double* out,
) noexcept nogil

cdef void turn(
    double* one, double* other, Py_ssize_t d, Py_ssize_t step, double c, double s,
) noexcept nogil

cdef void rotate(
    const double* axes, const double* matrix, Py_ssize_t d, double* half, double* out,
) noexcept nogil

cdef void add_square(
    const double* P, const double* mean, Py_ssize_t d, Py_ssize_t q, double* row,
) noexcept nogil

cdef bint extrapolate(
    double* x, const double* y, const double* z, Py_ssize_t size, double* stretch,
) noexcept nogil
