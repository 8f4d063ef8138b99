"""A run directory with the results of training and everything needed for translation.

Keras takes seconds to import, so it is imported only to load a model; engines do not need it.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from keras_transformer.errors import UserInputError
from keras_transformer.files import is_left_over, remove_left_over, tell, write_json
from keras_transformer.input_files import MOST_RECORD_BYTES, parse_json, read_json, to_record
from keras_transformer.runs.checksums import ADVICE, RunChecksums, has_checksums
from keras_transformer.runs.run_checkpoints import LOCK_NAME, RunCheckpoints
from keras_transformer.runs.run_records import (
    FORMAT_VERSION,
    RUN_FORMAT,
    RunRecord,
    capped_search,
    checked_search,
    fields_of_settings,
    new_record,
    with_search,
    without_tuning,
)
from keras_transformer.runs.shipped_models import found_run, names_to_try
from keras_transformer.search_options import SearchKeywords, SearchOptions, search_over
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.sentencepiece_tokenizer import (
    SHORTLIST,
    SOURCE_TOKENIZER,
    TOKENIZER,
    save_tokenizers,
)
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    import keras

_tell_once = functools.cache(tell)

_Tokenizer = TypeVar("_Tokenizer", bound=SentencePieceTokenizer)


class RunFiles:
    """Paths of a run's files, and methods that check which files exist.

    ```
    run.json              format of the directory, tokenizer fingerprint, package versions
    settings.json         recipe settings
    model.json            the model's options; missing if the model is not a `Transformer`
    tokenizer.model       the SentencePiece model
    source_tokenizer.model  the source tokenizer, if the source has its own vocabulary
    shortlist.npz         the lexical shortlist, if the run has one
    model.weights.h5      the final weights (average or best), written at the end and removed when
                          training continues; presets may contain model.safetensors instead
    checkpoints/          step-00000500.weights.h5 (the last n and the best n), best.weights.h5,
                          best.json, averages such as average-last-5-step-00000500.weights.h5;
                          step-00000500.state.npz (the last two), used to resume training;
                          base.weights.h5, the base weights for LoRA adapters
    tensorboard/          event files
    engines/              exports from `keras-transformer translate --engine`, created when needed
    metrics.csv  validation.csv  layers.csv  dev_samples.csv  samples.txt  scores.json
    report.html  SHA256SUMS
    ```

    The `checkpoints` attribute is a `RunCheckpoints`, and `checksums` is a `RunChecksums`.

    Args:
        path: the directory.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.checksums = RunChecksums(self.path)
        self.checkpoints = RunCheckpoints(self.path, self.checksums)
        # Stands in for `record_path` until everything needed before training is written.
        self.starting_path = self.path / ".starting-run.json"
        self.record_path = self.path / "run.json"
        self.settings_path = self.path / "settings.json"
        self.model_path = self.path / "model.json"
        self.tokenizer_path = self.path / TOKENIZER
        self.source_tokenizer_path = self.path / SOURCE_TOKENIZER
        self.shortlist_path = self.path / SHORTLIST
        self.weights_path = self.path / "model.weights.h5"
        self.safetensors_path = self.path / "model.safetensors"
        self.tensorboard_path = self.path / "tensorboard"
        self.engines_path = self.path / "engines"
        self.metrics_path = self.path / "metrics.csv"
        self.validation_path = self.path / "validation.csv"
        self.layers_path = self.path / "layers.csv"
        self.samples_path = self.path / "samples.txt"
        self.dev_samples_path = self.path / "dev_samples.csv"
        self.scores_path = self.path / "scores.json"
        self.report_path = self.path / "report.html"

    def is_run(self) -> bool:
        """Return whether the directory contains the `run.json` file of a run."""
        if not self.record_path.is_file():
            return False
        record = read_json(self.record_path, ADVICE, MOST_RECORD_BYTES)
        return isinstance(record, dict) and record.get("format") == RUN_FORMAT

    def has_not_started(self) -> bool:
        """Return whether `path` is missing or empty, or contains a run killed before it started."""
        if not self.path.is_dir():
            return True
        files = {path.name for path in self.path.iterdir()}
        begun = self.starting_path.is_file() and not self.record_path.is_file()
        return begun or all(name == LOCK_NAME or is_left_over(name) for name in files)

    def final_weights(self) -> Path | None:
        """Return the file of the final weights, or None if there is none."""
        paths = self.weights_path, self.safetensors_path
        return next((path for path in paths if path.is_file()), None)

    def no_weights(self) -> UserInputError:
        """Return the error for a run without weights."""
        return UserInputError(f"The run {self.path} contains no weights yet.")

    def check_no_links(self) -> None:
        """Refuse a run with symbolic links to directories, to prevent writes outside the run.

        Raises:
            UserInputError: a directory is a symbolic link.
        """
        for directory in self._directories():
            if directory.is_symlink():
                raise UserInputError(
                    f"{directory} is a symbolic link: nothing is written outside of a run. Move "
                    "the directory there, or make the entire run a link."
                )

    def _directories(self) -> tuple[Path, ...]:
        """The subdirectories of the run."""
        return self.checkpoints.directory, self.tensorboard_path, self.engines_path

    def clear(self) -> None:
        """Remove only the files of an older run."""
        remove_left_over(self.path)
        files = {path for path in vars(self).values() if isinstance(path, Path)}
        kept = {self.path, self.starting_path, *self._directories()}
        for path in (files | {self.checksums.path}) - kept:
            path.unlink(missing_ok=True)
        for directory in self._directories():
            shutil.rmtree(directory, ignore_errors=True)


class RunDirectory(RunFiles):
    """A directory with the results of a training run.

    Use `RunDirectory.create` for a new run and `RunDirectory.open` for an existing run. See
    `RunFiles` for a list of the files.

    Args:
        path: the directory.

    Example:

    ```python
    run = RunDirectory.open("runs/first")
    source_tokenizer, tokenizer = run.load_tokenizers()
    model = run.load_model()  # or: run.load_model("best")
    last_five = run.checkpoints.last()[-5:]
    ```
    """

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    @classmethod
    def create(cls, path: PathLike, overwrite: bool = False, resume: bool = False) -> Self:
        """Return the directory for a training run. Nothing on disk changes before `start`.

        Args:
            path: a directory that does not exist, is empty, or contains a run that was killed
                before it started. With `overwrite` or `resume`, it may contain any run.
            overwrite: whether `start` may replace a run.
            resume: whether training may resume a run; see `training.find_state`.

        Raises:
            UserInputError: `path` contains files that do not belong to a run, or it contains a run
                but neither `overwrite` nor `resume` is set.
        """
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise UserInputError(f"The run directory {path} exists and is a file.")
        if run.has_not_started():
            return run
        if not run.is_run():
            raise UserInputError(
                f"The directory {path} is not empty and contains no run of keras_transformer. "
                "Choose another directory: this one is not overwritten."
            )
        if resume:
            return cls.open(path)
        if not overwrite:
            raise UserInputError(
                f"The run directory {path} exists. Choose another one, pass --resume to "
                "continue the run in it, or --overwrite to replace it."
            )
        return run

    @classmethod
    def find(cls, path: PathLike) -> Self:
        """Return the directory of a run or of the shipped model with this name; it may not exist.

        `open` also requires it to be a run.
        """
        return cls(found_run(path))

    @classmethod
    def open(cls, path: PathLike) -> Self:
        """Return the directory of an existing run.

        Args:
            path: the directory, or the name of a shipped model; see `presets`.

        Raises:
            UserInputError: `path` is not a run, or its `run.json` is damaged or has a newer format.
        """
        run = cls.find(path)
        if not run.path.is_dir():
            is_file = run.path.is_file()
            hint = (
                " Load a Keras model with `keras.saving.load_model`." if is_file else names_to_try()
            )
            raise UserInputError(f"There is no run directory {path}.{hint}")
        if not run.is_run():
            message = f"The directory {path} is not a run of keras_transformer."
            exports = [run.path, *run.path.glob("[0-9]*")]
            if not run.settings_path.is_file() and any(map(has_checksums, exports)):
                message += (
                    " It contains an export: the classes of `keras_transformer.serving` read it, "
                    "and `keras-transformer translate RUN --engine litert` exports a run and "
                    "translates with that."
                )
            raise UserInputError(message)
        run.record()
        return run

    def start(
        self,
        *,
        model: keras.Model,
        tokenizer: SentencePieceTokenizer,
        settings: Mapping[str, object],
        source_tokenizer: SentencePieceTokenizer | None = None,
        origin: PathLike | None = None,
        search: dict[str, Any] | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        dtype: str | None = None,
    ) -> None:
        """Remove the files of an older run and write all files needed before training.

        Args:
            model: model whose options are written. Only a `Transformer` has options; other models
                cannot be loaded from the run.
            tokenizer: tokenizer whose model is copied.
            settings: JSON-compatible settings by name.
            source_tokenizer: source tokenizer, if the source has its own vocabulary.
            origin: source of the initial weights, such as another run's path.
            search: default values for fields of `SearchOptions`.
            source_language, target_language: codes such as "en"; default to the settings.
            dtype: dtype to load the model with, if different from the model's own.
        """
        self.check_no_links()
        fields = {**fields_of_settings(settings), "search": search}
        given = {"source_language": source_language, "target_language": target_language}
        fields |= {name: code for name, code in given.items() if code is not None}
        record = new_record(tokenizer, source_tokenizer, origin, **fields)
        self.path.mkdir(parents=True, exist_ok=True)
        from keras_transformer.runs.model_weights import model_record

        options = model_record(model)
        if self.record_path.is_file():
            os.replace(self.record_path, self.starting_path)  # not a run until all is written
        else:
            write_json(self.starting_path, {"format": RUN_FORMAT})
        self.clear()
        self.checksums.write_json(self.settings_path, settings)
        if options is not None:
            changed = {} if dtype is None else {"dtype": dtype}
            self.checksums.write_json(self.model_path, options | changed)
        save_tokenizers(self.path, source_tokenizer or tokenizer, tokenizer)
        self.checkpoints.directory.mkdir()
        self.checksums.write_json(self.record_path, record.as_json())
        self.starting_path.unlink()

    def record(self) -> RunRecord:
        """Return the contents of run.json.

        Raises:
            UserInputError: the file is damaged or has a newer format.
        """
        record = self._read(self.record_path)
        version = record.get("format_version") if isinstance(record, dict) else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise UserInputError(
                f"The run {self.path} has format version {version}; this keras_transformer reads "
                f"{FORMAT_VERSION} and older. Install a newer version."
            )
        return to_record(self.record_path, record, RunRecord, ADVICE)

    def search_defaults(self) -> SearchKeywords:
        """Return the run's default values for fields of `SearchOptions`.

        The run may be untrusted. Options that would take hours are lowered, with a note on stderr.

        Raises:
            UserInputError: the record is damaged, or an option is invalid.
        """
        search = checked_search(self.record().search, self.record_path)
        lowered = capped_search(search)
        if lowered != search:
            _tell_once(
                f"{self.record_path} asks for a slow search. It is lowered to "
                + ", ".join(
                    f"{name}={value}" for name, value in sorted(lowered.items() - search.items())
                )
                + "; flags and arguments are not limited."
            )
        return lowered

    def write_search_defaults(
        self, options: SearchKeywords | None, in_training: bool = False
    ) -> None:
        """Write the values returned by `search_defaults`. The rest of run.json stays unchanged.

        A training run already holds `run_lock` on the directory. Other callers must hold the lock
        during this call.

        Args:
            options: fields of `SearchOptions` to set. Other fields are kept, except that
                `num_results` is dropped if the beam is smaller. None restores the defaults from
                before the first call.
            in_training: whether the run's own training has tuned the options; see `undo_tuning`.

        Raises:
            UserInputError: the record is damaged, an option is invalid, or the file cannot be
                written.
        """
        search: Any = search_over(self.search_defaults(), options or {})
        SearchOptions(**search)  # checks the options
        content = with_search(self._read(self.record_path), options, in_training)
        checked_search(content.get("search"), self.record_path)
        self.checksums.write_json(self.record_path, content)

    def undo_tuning(self, own: SearchKeywords) -> None:
        """Undo the training run's own tuning when training continues or ends without tuning.

        Later tuning, for example with `keras-transformer tune`, is kept. The training run already
        holds `run_lock` on the directory.

        Args:
            own: fields of `SearchOptions` that the training settings determine. They override the
                fields inherited from the run that training started from.

        Raises:
            UserInputError: the record is damaged, an option is invalid, or the file cannot be
                written.
        """
        self.record()  # checks the types
        present = self._read(self.record_path)
        if (content := without_tuning(present, own, self.record_path)) != present:
            self.checksums.write_json(self.record_path, content)

    def update_record(self, **fields: object) -> None:
        """Set fields of run.json. The rest of the file stays unchanged."""
        self.checksums.write_json(self.record_path, {**self._read(self.record_path), **fields})

    def _read(self, path: Path) -> Any:
        return parse_json(path, self.checksums.read(path), ADVICE)

    def settings(self) -> dict[str, Any]:
        """Return the contents of settings.json.

        Raises:
            UserInputError: the file is missing or damaged.
        """
        return to_record(self.settings_path, self._read(self.settings_path), dict[str, Any], ADVICE)

    def publish(self, checkpoint: PathLike | None = None) -> None:
        """Copy a checkpoint's weights to `model.weights.h5`, the file used for translation.

        If the checkpoint contains adapters, they are merged into the weights.

        Args:
            checkpoint: checkpoint file; defaults to the best, or to the last if none has been
                ranked.

        Raises:
            UserInputError: the run has no checkpoint.
        """
        path = self.checkpoints.best_or_last() if checkpoint is None else checkpoint
        if path is None:
            raise self.no_weights()
        if self.checkpoints.base_path.is_file():
            from keras_transformer.runs.model_weights import save_weights

            save_weights(self.load_model(path), self.weights_path)
        else:
            self.checksums.copy(path, self.weights_path)

    def find_weights(self, checkpoint: PathLike | None = None) -> Path:
        """Return the weight file to load.

        Args:
            checkpoint: a path, or a name in checkpoints/ such as "best" or "step-00000500". None
                selects the final weights. If the run is not finished, None selects the best or else
                the last checkpoint, with a note on stderr.

        Raises:
            UserInputError: the checkpoint does not exist, or the run contains no weights yet.
        """
        if checkpoint is not None:
            return self.checkpoints.find(checkpoint)
        final = self.final_weights()
        if final is not None:
            return final
        path = self.checkpoints.best_or_last()
        if path is None:
            raise self.no_weights()
        tell(f"The run {self.path} is not finished: using {path.name}.")
        return path

    def load_architecture(self, **rates: float) -> keras.Model:
        """Return the run's model with new weights. For the arguments, see `load_model`."""
        from keras_transformer.runs.model_weights import load_run_model

        return load_run_model(self.model_path, self.checksums, None, rates)

    def load_model(self, checkpoint: PathLike | None = None, **rates: float) -> keras.Model:
        """Return the run's model with its weights.

        Args:
            checkpoint: see `find_weights`.
            **rates: dropout rates that replace the rates used in training, such as `dropout=0.2`.

        Raises:
            UserInputError: a file is missing, damaged or refused, or the files do not match.
        """
        from keras_transformer.runs.model_weights import load_run_model

        self.checksums.warn_if_missing()
        weights = self.find_weights(checkpoint)
        return load_run_model(self.model_path, self.checksums, weights, rates)

    @overload
    def load_tokenizers(self) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]: ...

    @overload
    def load_tokenizers(
        self, target_class: type[_Tokenizer]
    ) -> tuple[SentencePieceTokenizer, _Tokenizer]: ...

    def load_tokenizers(
        self, target_class: type[SentencePieceTokenizer] = SentencePieceTokenizer
    ) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
        """Return the source and target tokenizers; the same object if they are shared.

        Args:
            target_class: class of the target tokenizer; `TreeTokenizer` for a parser.

        Raises:
            UserInputError: a file is missing or damaged, the model was trained with a different
                tokenizer, or `target_class` does not match the model's outputs.
        """
        record = self.record()
        if record.output != target_class.output:
            raise UserInputError(
                f"The outputs of the run {self.path} are {record.output}, not "
                f"{target_class.output}. `keras-transformer parse` is for trees, `translate` for "
                "text."
            )
        tokenizer = _load_tokenizer(
            target_class, self.tokenizer_path, record.tokenizer_fingerprint, record.vocabulary_size
        )
        if record.source_tokenizer_fingerprint is None or record.source_vocabulary_size is None:
            return tokenizer, tokenizer
        source_tokenizer = _load_tokenizer(
            SentencePieceTokenizer,
            self.source_tokenizer_path,
            record.source_tokenizer_fingerprint,
            record.source_vocabulary_size,
        )
        return source_tokenizer, tokenizer

    def write_shortlist(self, shortlist: Shortlist) -> None:
        """Write a shortlist, which `load_shortlist` reads."""
        shortlist.save(self.shortlist_path, self.checksums.keeping(self.shortlist_path))

    def load_shortlist(
        self, tokenizer: SentencePieceTokenizer, source_tokenizer: SentencePieceTokenizer
    ) -> Shortlist:
        """Return the run's shortlist.

        Raises:
            UserInputError: the run has no shortlist, or the shortlist is damaged.
        """
        path = self.shortlist_path
        if not path.is_file():
            raise UserInputError(
                f"The run {self.path} has no shortlist. `train --shortlist` creates one, and "
                "`import bergamot` takes the model's."
            )
        if self.checksums.is_damaged(path):
            raise UserInputError(f"Damaged: {path}. {ADVICE}")
        return Shortlist.load(path, tokenizer, source_tokenizer)


def _load_tokenizer(
    tokenizer_class: type[_Tokenizer], path: Path, fingerprint: str, vocabulary_size: int
) -> _Tokenizer:
    """Load the tokenizer from a file, and require the tokenizer that the model was trained with."""
    tokenizer = tokenizer_class.load(path)
    if tokenizer.vocabulary_size != vocabulary_size:
        raise UserInputError(
            f"The tokenizer {path} has {tokenizer.vocabulary_size} pieces; the model was trained "
            f"with {vocabulary_size}."
        )
    if tokenizer.fingerprint != fingerprint:
        raise UserInputError(f"The tokenizer {path} is not the one the model was trained with.")
    return tokenizer
