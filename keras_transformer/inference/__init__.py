"""Inference with trained models: translate text, parse sentences and align sentence pairs."""
