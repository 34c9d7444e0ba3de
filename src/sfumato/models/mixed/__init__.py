"""Mixtures for tables with columns of different kinds."""
