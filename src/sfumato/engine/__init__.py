"""Loops, searches, levels, the structure test, and the base classes of estimators."""
