"""Attention as functions, and what it does position by position: the parts of the layer."""
