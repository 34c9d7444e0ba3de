"""Definitions of clusters for mixtures: one file for every kind."""
