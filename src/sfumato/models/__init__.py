"""Estimators: parameters plus hooks; file names are those of the kernels they stand on."""
