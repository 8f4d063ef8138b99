"""What Keras needs to load models of this package."""

from keras_transformer.saving.class_registration import register_with_keras

__all__ = ["register_with_keras"]
