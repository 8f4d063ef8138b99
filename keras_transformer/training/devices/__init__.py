"""Devices and machines for training, on both backends."""
