"""Jobs for several machines, on Ray."""

from keras_transformer.cluster.ray_sifter import RaySifter as RaySifter

__all__ = ["RaySifter"]
