"""Loops in Cython, compiled when the package is built: one module per concept.

Functions take NumPy arrays, check their shapes and release the GIL; they only overwrite arguments
if their documentation says so. Matrix products are left to BLAS. ``array.arrays.native`` imports
the modules.
"""
