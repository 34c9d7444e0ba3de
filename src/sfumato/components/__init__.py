"""What a cluster of a mixture is: one file for every kind."""
