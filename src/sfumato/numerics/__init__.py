"""Mathematics that several models share; it never imports scikit-learn."""
