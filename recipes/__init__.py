"""Whole trainings, each in a folder of its own, read from top to bottom."""

from keras_transformer.backend_start import start_backend_quietly

# Here, because `python -m recipes.NAME.train` comes by before its first import of Keras.
start_backend_quietly(devices=False)  # `training.start_devices` looks for them
