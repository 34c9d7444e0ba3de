"""Machinery that every model shares.

Arrays, memory, row blocks, the loop, validation and base classes.
"""
