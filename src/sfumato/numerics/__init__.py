"""Mathematics shared by several models; it never imports scikit-learn."""
