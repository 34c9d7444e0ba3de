# Quadratic programs on the simplex for other native modules: one problem with k coordinates, in
# contiguous memory of the caller.

cdef Py_ssize_t minimise(
    const double* H, const double* b, double* u, Py_ssize_t k,
    double* factor, Py_ssize_t* free, double* work,
) noexcept nogil

cdef void pair_steps(
    const double* H, const double* b, double* u, Py_ssize_t k, double* slope, Py_ssize_t n_steps,
) noexcept nogil

cdef void descend_pairs(
    const double* H, double* slope, double* u, Py_ssize_t k, Py_ssize_t n_steps,
) noexcept nogil
