"""What a fit reads: features, similarities, links and partial labels, checked and converted."""
