"""Loops in Cython, compiled when the package is built: one module per concept.

Functions take NumPy arrays and check their shapes; they release the GIL and write only where their
documentation says so. Matrix products stay in BLAS. ``array.arrays.native`` imports the modules.
"""
