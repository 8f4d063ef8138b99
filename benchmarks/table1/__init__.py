"""Measurements for the paper's Table 1: time and memory of layers by sequence length."""
