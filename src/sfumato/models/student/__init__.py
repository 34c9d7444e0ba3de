"""Mixtures of multivariate t distributions."""
