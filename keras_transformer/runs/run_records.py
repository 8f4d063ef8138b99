"""Fields and types of the JSON files of a run."""

from typing import Annotated, Any, Literal, TypedDict

import msgspec

from keras_transformer.runs.environment import package_versions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike

_RunFormat = Literal["keras_transformer run"]
RUN_FORMAT: _RunFormat = "keras_transformer run"
FORMAT_VERSION = 1

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
Step = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class RunRecord(msgspec.Struct, kw_only=True):
    """run.json: what the directory is.

    `tokenizer_fingerprint` is the SHA-256 of the target's tokenizer. `versions` has those of Python
    and the packages, and Keras's backend. `origin`, "from" in the file, is what the weights started
    from, such as another run's path. `search` has fields of `SearchOptions`, which this model's
    searches have where none are given; `untuned_search` those of before `search` was tuned, and
    `tuned_in_training` says that the run's own training did that last.
    """

    format: _RunFormat
    format_version: PositiveInt
    tokenizer_fingerprint: Sha256
    vocabulary_size: PositiveInt
    versions: dict[str, str]
    output: Literal["text", "trees"] = "text"
    source_tokenizer_fingerprint: Sha256 | None = None
    source_vocabulary_size: PositiveInt | None = None
    origin: str | None = msgspec.field(name="from", default=None)
    search: dict[str, bool | int | float | str | None] | None = None
    untuned_search: dict[str, bool | int | float | str | None] | None = None
    tuned_in_training: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the record as a JSON-compatible dictionary, leaving out None values."""
        values = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if value is not None}


def new_record(
    tokenizer: SentencePieceTokenizer,
    source_tokenizer: SentencePieceTokenizer | None = None,
    origin: PathLike | None = None,
    search: dict[str, Any] | None = None,
) -> RunRecord:
    """Return the record of a new run; arguments as in `RunDirectory.start`."""
    return RunRecord(
        format=RUN_FORMAT,
        format_version=FORMAT_VERSION,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocabulary_size=tokenizer.vocabulary_size,
        output=tokenizer.output,
        versions=package_versions(),
        origin=None if origin is None else str(origin),
        search=search,
        source_tokenizer_fingerprint=source_tokenizer.fingerprint if source_tokenizer else None,
        source_vocabulary_size=source_tokenizer.vocabulary_size if source_tokenizer else None,
    )


class KeptCheckpoint(TypedDict):
    """One of the best checkpoints: its step and its validation value."""

    step: Step
    value: float


class BestRecord(TypedDict, total=False):
    """checkpoints/best.json: the best checkpoint and, under "kept", the best few, best first."""

    step: Step
    value: float
    monitor: str | None
    kept: list[KeptCheckpoint]
    keep_last: PositiveInt


class Progress(TypedDict):
    """Progress of a training's callbacks; counters are added under their names."""

    seconds: Annotated[float, msgspec.Meta(ge=0)]
    best: BestRecord
    validation_due: bool


# checksums.json: the valid SHA-256 sums of each file, by its name.
Checksums = dict[str, list[Sha256]]
