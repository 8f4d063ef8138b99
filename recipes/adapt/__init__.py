"""Adapt a pretrained model, or your own, to a domain."""
