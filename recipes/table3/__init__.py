"""Rows of the paper's Table 3, trained on any parallel corpus."""
