"""Pairwise probabilistic clustering."""
