"""LiteRT models."""
