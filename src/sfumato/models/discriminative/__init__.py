"""Discriminative clustering."""
