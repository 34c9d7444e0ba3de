"""Dirichlet process mixtures."""
