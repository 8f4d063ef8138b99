"""Epochs of a training that may resume in the middle of one."""

import math
from collections.abc import Callable, Iterable, Sequence

import keras

from keras_transformer.training.callbacks.step_callback import Logs
from keras_transformer.training.checkpoints.training_state import TrainingState


class EpochCallbacks(keras.callbacks.CallbackList):
    """The callbacks of one training, whose epochs end at multiples of `save_every` steps.

    `fit` gives every epoch the same number of steps, so a training resumed in the middle of an
    epoch would be validated and saved at other steps than one without a break. Its first epoch is
    therefore cut short. A training can also resume between the last step of an epoch and its
    validation. `at_end` is called after all callbacks when `fit` ends.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: keras.Model,
        state: TrainingState | None,
        save_every: int,
        epochs: int,
        at_end: Callable[[], None],
    ) -> None:
        super().__init__(
            callbacks, add_history=True, model=model, epochs=epochs, steps=save_every, verbose=0
        )
        self._save_every = save_every
        self._first_step = state.step if state else 0
        self._validation_due = state is not None and state.progress["validation_due"]
        self._at_end = at_end
        self._steps = save_every
        self._is_cut = False
        self._has_begun = False

    def validate_if_due(
        self, validation_data: Iterable[object] | None, validation_steps: int | None
    ) -> None:
        """Finish the epoch as `fit` does, if the break came before its validation."""
        if not self._validation_due:
            return
        self.on_train_begin()
        logs = {}
        if validation_data is not None:
            inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
            values = self.model.evaluate(
                inputs,
                labels,
                sample_weight=weights,
                steps=validation_steps,
                callbacks=self,
                return_dict=True,
                verbose=0,
            )
            logs = {f"val_{name}": value for name, value in values.items()}
        self.on_epoch_end(math.ceil(self._first_step / self._save_every) - 1, logs)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not self._has_begun:
            self._has_begun = True
            if self._first_step:
                logs = {**(logs or {}), "steps_done": self._first_step}
            super().on_train_begin(logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        super().on_train_end(logs)
        self._at_end()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._steps = self._save_every
        if epoch == self._first_step // self._save_every:
            self._steps -= self._first_step % self._save_every

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        is_short = self._steps < self._save_every
        if is_short and batch + 1 >= self._steps and not self.model.stop_training:
            self.model.stop_training = self._is_cut = True

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._is_cut:
            self.model.stop_training = self._is_cut = False
        super().on_epoch_end(epoch, logs)
