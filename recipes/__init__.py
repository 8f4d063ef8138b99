"""Complete training scripts, each in its own folder, to be read from top to bottom."""

from keras_transformer.installation import start_backend_quietly

# Here, because `python -m recipes.NAME.train` runs this before it first imports Keras.
start_backend_quietly(devices=False)  # `training.start_devices` finds the devices
