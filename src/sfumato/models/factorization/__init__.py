"""Completely positive factorization."""
