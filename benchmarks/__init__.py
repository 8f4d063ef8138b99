"""Benchmarks: speed, memory, and quality compared with other programs."""
