"""Machinery that every model shares: arrays, memory, row blocks, the loop, validation and base classes."""
