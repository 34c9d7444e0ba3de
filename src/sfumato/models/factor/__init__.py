"""Mixtures of factor analyzers."""
