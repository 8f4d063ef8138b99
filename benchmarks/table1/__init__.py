"""The paper's Table 1, measured: time and memory of layers by sequence length."""
