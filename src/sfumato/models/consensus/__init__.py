"""Evidence accumulation: ensembles of clusterings and their soft consensus."""
