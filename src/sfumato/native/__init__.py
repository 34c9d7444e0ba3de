"""Loops in Cython, compiled when the package is built: one module per concept.

Functions take NumPy arrays whose shapes and types the callers have checked; they release the GIL and
write only where their documentation says so. Matrix products stay in BLAS.
"""
