"""Pure functions on arrays: one file for each piece of mathematics, its objective at the top."""
