"""What the JSON files of a run hold: their fields and types, in one place."""

from typing import Annotated, Literal, TypedDict

import msgspec

from keras_transformer.runs.environment import package_versions

RUN_FORMAT = "keras_transformer run"
FORMAT_VERSION = 1

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
Step = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class RunRecord(msgspec.Struct, kw_only=True):
    """run.json: what the directory is.

    `tokenizer_fingerprint` is the SHA-256 of the target's tokenizer, `versions` has Python's, the
    packages' and Keras's backend, and `origin`, "from" in the file, is what the weights started
    from, such as another run's path.
    """

    format: Literal[RUN_FORMAT]
    format_version: PositiveInt
    tokenizer_fingerprint: Sha256
    vocabulary_size: PositiveInt
    versions: dict[str, str]
    output: Literal["text", "trees"] = "text"
    source_tokenizer_fingerprint: Sha256 | None = None
    source_vocabulary_size: PositiveInt | None = None
    origin: str | None = msgspec.field(name="from", default=None)

    def as_json(self):
        """The record as a JSON-compatible dictionary, without what is None."""
        values = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if value is not None}


def new_record(tokenizer, source_tokenizer=None, origin=None):
    """Return the `RunRecord` of a run that begins; arguments as in `RunDirectory.start`."""
    source = {}
    if source_tokenizer is not None:
        source = {
            "source_tokenizer_fingerprint": source_tokenizer.fingerprint,
            "source_vocabulary_size": source_tokenizer.vocabulary_size,
        }
    return RunRecord(
        format=RUN_FORMAT,
        format_version=FORMAT_VERSION,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocabulary_size=tokenizer.vocabulary_size,
        output=tokenizer.output,
        versions=package_versions(),
        origin=None if origin is None else str(origin),
        **source,
    )


class KeptCheckpoint(TypedDict):
    """One of the best checkpoints: its step, and its validation value."""

    step: Step
    value: float


class BestRecord(TypedDict, total=False):
    """checkpoints/best.json: the best checkpoint, and under "kept" the best few, best first."""

    step: Step
    value: float
    monitor: str | None
    kept: list[KeptCheckpoint]
    keep_last: PositiveInt


class Progress(TypedDict, total=False):
    """What the callbacks of a training need to go on; counters besides, by their names."""

    seconds: Annotated[float, msgspec.Meta(ge=0)]
    best: BestRecord
    validation_due: bool


# checksums.json: the SHA-256 sums that a file may have, by its name.
Checksums = dict[str, list[Sha256]]
