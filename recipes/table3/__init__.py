"""The rows of the paper's Table 3 on any parallel corpus."""
