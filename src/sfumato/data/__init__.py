"""Input of a fit, checked and converted: features, similarities, links and partial labels."""
