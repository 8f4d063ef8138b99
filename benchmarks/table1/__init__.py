"""Table 1 of the paper, measured: time and memory of layers as the sequence grows."""
