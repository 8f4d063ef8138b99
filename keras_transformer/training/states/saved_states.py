"""The state of a training, saved when all else of a checkpoint is on the disk."""

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import sync
from keras_transformer.training.callbacks.running_clock import CLOCK
from keras_transformer.training.callbacks.step_callback import StepCallback
from keras_transformer.training.states.training_state import remove_old_states, save_state


class Progress:
    """Time and counts of a training's whole life, through all its breaks.

    `counters` are objects by name, whose attribute `progress` is JSON-compatible and may be set.
    """

    def __init__(self, counters, state=None):
        earlier = state.progress if state else {}
        self._counters = counters
        self._began = CLOCK.seconds() - earlier.get("seconds", 0.0)
        for name in counters.keys() & earlier.keys():
            try:
                counters[name].progress = earlier[name]
            except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
                raise UserInputError(
                    f"The state {state.path} is damaged: its `{name}` is not what was written."
                ) from error

    @property
    def seconds(self):
        """Time on the clock, without the breaks and without what the process was stopped."""
        return CLOCK.seconds() - self._began

    def values(self):
        """What a state keeps, a JSON-compatible dictionary."""
        counts = {name: counter.progress for name, counter in self._counters.items()}
        return {"seconds": self.seconds, **counts}


class SavedStates(StepCallback):
    """Saves a `TrainingState` at each epoch's end; then old states and weights are removed.

    Goes behind every callback that writes or counts, since the state says what these have done.
    With `average`, an `EMAWeights`, a state holds the weights themselves.
    """

    def __init__(
        self,
        run,
        checkpoints,
        progress,
        *,
        average=None,
        save_every,
        settings=None,
        data_fingerprint=None,
    ):
        super().__init__()
        self.run = run
        self.checkpoints = checkpoints
        self.progress = progress
        self.average = average
        self.save_every = save_every
        self._training = {"settings": settings, "data_fingerprint": data_fingerprint}
        self._epoch_ended_at = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self.step == 0:
            # Weights without a state cannot be gone on from; from here on there is one.
            self._save(None, validation_due=False)
        else:
            self._remove_old_files()  # a kill may have come between the state and this

    def on_epoch_end(self, epoch, logs=None):
        self._epoch_ended_at = self.step
        self._save_values()

    def save_all(self):
        """Save weights and state after the current step, which need not be an epoch's last."""
        if self.average is not None:
            self.average.put_in()
        self.checkpoints.save()
        self._save_values()

    def _save_values(self):
        ends_epoch = self.step % self.save_every == 0 or self.model.stop_training
        if self.average is not None:
            self.average.take_out()
        self._save(self.model, bool(ends_epoch) and self._epoch_ended_at != self.step)
        if self.average is not None:
            self.average.put_in()
        self._remove_old_files()

    def _remove_old_files(self):
        self.checkpoints.remove_old_files()
        remove_old_states(self.run)

    def _save(self, model, validation_due):
        for path in (self.run.metrics_path, self.run.validation_path):
            if path.is_file():
                sync(path)  # rows before the state must not be lost when it is not
        best = {"best": self.run.checkpoints.best_record(), "validation_due": validation_due}
        progress = {**self.progress.values(), **best}
        save_state(self.run, self.step, model, progress=progress, **self._training)
