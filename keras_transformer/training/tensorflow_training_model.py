"""The exact training step on TensorFlow, with one replica or several."""

import keras


class TensorFlowTrainingModel(keras.Model):
    """What `training_model` returns on TensorFlow; see there.

    Args:
        inputs, outputs: of a functional model.
        accumulate: positive integer, slices of a batch on each replica.
        name: name of the model.
    """

    def __init__(self, inputs, outputs, accumulate=1, name=None):
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.accumulate = accumulate

    def after_restore(self):
        """To be called when the variables were assigned from a checkpoint."""
