"""Benchmarks of speed, memory use and quality, including comparisons with other programs."""
