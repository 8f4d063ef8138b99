"""What training models of all backends share: a step that is the sum of slices of its batch."""

import inspect

import keras

from keras_transformer.metrics import StepLoss


class StepSums:
    """Mixin of a `keras.Model` with an attribute `accumulate`.

    `step_losses` are the `StepLoss` metrics given to `compile`, which add up a step's slices.
    """

    def compile(self, *args, **options):
        """As `keras.Model.compile`; refuses a loss whose slices do not add up to the batch's."""
        given = inspect.signature(keras.Model.compile).bind(self, *args, **options).arguments
        loss = given.get("loss")
        if self.accumulate > 1 and getattr(loss, "reduction", None) != "sum":
            raise ValueError(
                "`loss` must be a `keras.losses.Loss` of reduction 'sum' where `accumulate` is "
                f"above 1. Received: loss={loss}, accumulate={self.accumulate}"
            )
        metrics = keras.tree.flatten([given.get("metrics"), given.get("weighted_metrics")])
        self.step_losses = [metric for metric in metrics if isinstance(metric, StepLoss)]
        super().compile(*args, **options)

    def check_weights(self, data):
        """Refuse a batch without weights: its loss may be a mean, and slices not add up."""
        _, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if sample_weight is None:
            raise ValueError(
                "Batches must bring weights where `accumulate` is above 1. Received: none, "
                f"accumulate={self.accumulate}"
            )

    def check_rows(self, rows):
        """Refuse rows that cannot be cut into equal slices; a number of None is not known yet."""
        if rows is not None and rows % self.accumulate:
            raise ValueError(
                "The rows of a batch must be a multiple of replicas x `accumulate`. Received on "
                f"one replica: {rows} rows, accumulate={self.accumulate}"
            )
