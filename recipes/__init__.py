"""Complete training scripts, one per folder, that you can read from top to bottom."""

from keras_transformer.installation import start_backend_quietly

# This comes first because `python -m recipes.NAME.train` must run it before importing Keras.
start_backend_quietly(devices=False)  # `training.start_devices` finds the devices
