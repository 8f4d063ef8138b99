"""Base class of the training models: a step is the sum over slices of its batch."""

import inspect
from typing import Any

import keras

from keras_transformer.metrics import StepLoss


class StepSums(keras.Model):
    """A functional model that reads a batch in `accumulate` slices.

    `step_losses` are the `StepLoss` metrics given to `compile`, which add up a step's slices.
    """

    def __init__(
        self, inputs: Any, outputs: Any, accumulate: int = 1, name: str | None = None
    ) -> None:
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.accumulate = accumulate

    def compile(self, *args: Any, **options: Any) -> None:
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

    def check_weights(self, data: Any) -> None:
        """Refuse a batch without weights: its loss may be a mean, which slices do not add up to."""
        _, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if sample_weight is None:
            raise ValueError(
                "Batches must bring weights where `accumulate` is above 1. Received: none, "
                f"accumulate={self.accumulate}"
            )

    def check_rows(self, rows: int | None) -> None:
        """Refuse rows that do not divide into equal slices; None is a number not known yet."""
        if rows is not None and rows % self.accumulate:
            raise ValueError(
                "The rows of a batch must be a multiple of replicas x `accumulate`. Received on "
                f"one replica: {rows} rows, accumulate={self.accumulate}"
            )
