"""A run's model: its architecture and its weights, read as data that anybody may have written."""

import sys
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import parse_json
from keras_transformer.files.weight_files import read_weight_file
from keras_transformer.models.architecture import load_architecture
from keras_transformer.runs.model_weights import count_weights, load_weights
from keras_transformer.runs.run_checkpoints import WEIGHTS, RunCheckpoints
from keras_transformer.runs.run_checksums import ADVICE

_OTHER_WEIGHTS = (
    f"Take other weights with --checkpoint, or {ADVICE[0].lower()}{ADVICE[1:]} Where a program of "
    "yours wrote them, call `keep_checksum` of the `RunDirectory`."
)


class RunModels(RunCheckpoints):
    """The part of a run directory that makes a model of its files.

    Args:
        path: the run directory.
    """

    def __init__(self, path):
        super().__init__(path)
        self.model_path = self.path / "model.json"
        self.weights_path = self.path / "model.weights.h5"

    def publish(self, checkpoint):
        """Make a file of weights the run's final ones, those that translate."""
        self.copy_weights(checkpoint, self.weights_path)

    def find_weights(self, checkpoint=None):
        """Return the file of weights to load.

        Args:
            checkpoint: a path, or a name in checkpoints/ such as "best" or "step-00000500". None:
                the run's final weights, or, said on stderr, the best or last checkpoint of a run
                that did not reach its end.
        """
        if checkpoint is not None:
            named = self.checkpoints_path / f"{checkpoint}{WEIGHTS}"
            path = Path(checkpoint) if not named.is_file() else named
            if not path.is_file():
                raise UserInputError(f"There is no checkpoint {checkpoint} in {self.path}.")
            return path
        if self.weights_path.is_file():
            return self.weights_path
        unfinished = [self.best_path] if self.best_path.is_file() else self.checkpoints()[-1:]
        if not unfinished:
            raise UserInputError(f"The run {self.path} holds no weights yet.")
        print(
            f"The run {self.path} did not reach its end: using {unfinished[0].name}.",
            file=sys.stderr,
        )
        return unfinished[0]

    def load_architecture(self, **rates):
        """Return the run's `keras.Model` with new weights, such as for a state to replace.

        Args:
            **rates: dropout rates that replace those it was trained with, such as `dropout=0.2`.
        """
        return self._make_model(rates)

    def load_model(self, checkpoint=None, **rates):
        """Return the run's `keras.Model` with weights.

        Args:
            checkpoint: as in `find_weights`.
            **rates: as in `load_architecture`.

        Raises:
            UserInputError: a file is missing, damaged or refused, or they do not fit each other.
        """
        path = self.find_weights(checkpoint)
        content = read_weight_file(path)
        self.check_content(path, content.getbuffer(), _OTHER_WEIGHTS)
        model = self._make_model(rates, count_weights(path, content), weights=path)
        load_weights(model, path, content)
        return model

    def _make_model(self, rates, num_weights=None, weights=None):
        path = self.model_path
        architecture = parse_json(path, self.read_checked(path), ADVICE)
        try:
            for layer in architecture["config"]["layers"]:
                config = layer["config"]
                config.update({name: rates[name] for name in rates if name in config})
                config["trainable"] = True  # what was frozen is that training's business
            architecture.pop("compile_config", None)
            return load_architecture(architecture, num_weights)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fit = f" The weights {weights} do not fit it." if weights else ""
            raise UserInputError(f"Cannot read the model {path}: {error}.{fit}") from error
