# Covariances of the fourteen families for other native modules.

cdef struct Family:
    int volume, shape, orientation
    Py_ssize_t k, d, p, w  # components, features, and the shape of one covariance
    Py_ssize_t n_turns
    const Py_ssize_t* turns  # pairs of axes (n_turns, 2)
    double floor
    Py_ssize_t n_steps


cdef Py_ssize_t room(Py_ssize_t k, Py_ssize_t d) noexcept nogil

cdef void covariances(
    const Family* family, const double* scatter, const double* mass, const double* previous,
    double* out, double* work,
) noexcept nogil
