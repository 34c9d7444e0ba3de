"""Foundations for all other folders: arrays, row blocks, memory, types and checks."""
