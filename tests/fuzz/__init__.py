"""Random evidence, random parameters, and the contract as the judge.

``python -m fuzz --seconds 60``.
"""
