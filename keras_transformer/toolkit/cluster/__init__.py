"""Jobs that run on multiple machines with Ray."""

from keras_transformer.toolkit.cluster.ray_sifter import RaySifter as RaySifter
from keras_transformer.toolkit.cluster.ray_training import train_on_ray as train_on_ray

__all__ = ["RaySifter", "train_on_ray"]
