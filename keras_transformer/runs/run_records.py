"""The fields of a run's JSON files, and the environment that affects its results."""

import functools
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints

import msgspec

from keras_transformer.errors import UserInputError, refuse
from keras_transformer.installation import __version__, distribution_name
from keras_transformer.search_options import OPTIONS, SearchKeywords, SearchOptions, search_over
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike

# Libraries besides this package that can affect scores or speed.
RECORDED_PACKAGES = (
    "keras",
    "tensorflow",
    "tensorflow-text",
    "jax",
    "numpy",
    "sentencepiece",
    "sacrebleu",
    "sacremoses",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and installed recorded packages, and Keras's backend."""
    import keras  # takes seconds and is not needed to read a run's files

    versions = {
        "python": platform.python_version(),
        "backend": keras.backend.backend(),
        distribution_name(): __version__,
    }
    for name in RECORDED_PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def machine() -> dict[str, Any]:
    """Return the processor, its number of cores, the backend's devices and the operating system."""
    import keras

    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "devices": keras.distribution.list_devices(),
        "system": platform.platform(),
    }


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


_RunFormat = Literal["keras_transformer run"]
RUN_FORMAT: _RunFormat = "keras_transformer run"
FORMAT_VERSION = 1
LANGUAGE_CODE = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
Step = Annotated[int, msgspec.Meta(ge=0)]
# A field with a "rule" is set by the setting of the same name, in training runs and presets. Error
# messages about the setting insert the rule after "must".
Language = Annotated[
    str,
    # `$` would allow a trailing line break.
    msgspec.Meta(
        pattern=LANGUAGE_CODE.replace("$", r"\Z"), extra={"rule": "be a code such as en or pt-BR"}
    ),
]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class RunRecord(msgspec.Struct, kw_only=True):
    """The contents of run.json, which describes the run.

    `tokenizer_fingerprint` is the SHA-256 hash of the target tokenizer. `versions` contains the
    versions of Python and packages, and Keras's backend. `origin`, stored as "from" in the file,
    is the origin of the initial weights, such as another run's path. `search` contains the default
    values for fields of `SearchOptions`. `untuned_search` contains the values from before tuning.
    `tuned_in_training` means that the run's own training was the last to tune `search`.
    `source_language` and `target_language` are codes such as "en" and "pt-BR". `examples` contains
    example sentences for the web app.
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
    source_language: Language | None = None
    target_language: Language | None = None
    examples: list[str] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the record as a JSON-compatible dictionary, without None values."""
        values = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if value is not None}


def new_record(
    tokenizer: SentencePieceTokenizer,
    source_tokenizer: SentencePieceTokenizer | None = None,
    origin: PathLike | None = None,
    **fields: Any,
) -> RunRecord:
    """Return the record of a new run. For the arguments, see `RunDirectory.start`."""
    return RunRecord(
        format=RUN_FORMAT,
        format_version=FORMAT_VERSION,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocabulary_size=tokenizer.vocabulary_size,
        output=tokenizer.output,
        versions=package_versions(),
        origin=None if origin is None else str(origin),
        source_tokenizer_fingerprint=source_tokenizer.fingerprint if source_tokenizer else None,
        source_vocabulary_size=source_tokenizer.vocabulary_size if source_tokenizer else None,
        **fields,
    )


def fields_of_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check and return the fields of `RunRecord` that are set by the training settings.

    Example:
        >>> fields_of_settings({"steps": 20, "source_language": "en", "target_language": None})
        {'source_language': 'en'}
    """
    return {
        name: _checked(name, settings[name], form)
        for name, form in _fields_with_a_rule().items()
        if settings.get(name) is not None
    }


def check_language_code(name: str, code: str | None) -> None:
    """Raise a `UserInputError` unless `code` is None or a language code such as "pt-BR"."""
    if code is not None:
        _checked(name, code, Language)


def _checked(name: str, value: object, form: Any) -> Any:
    """Return the value of a setting after checking that it satisfies its field's rule."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError:
        refuse(name, form.__metadata__[0].extra["rule"], value)


@functools.cache
def _fields_with_a_rule() -> dict[str, Any]:
    """Return the types that have a rule, keyed by field."""
    return {
        name: form
        for name, hint in get_type_hints(RunRecord, include_extras=True).items()
        for form in get_args(hint)
        if any("rule" in (meta.extra or {}) for meta in getattr(form, "__metadata__", ()))
    }


class KeptCheckpoint(TypedDict):
    """One of the best checkpoints: its step and validation value."""

    step: Step
    value: float


class BestRecord(TypedDict, total=False):
    """The best checkpoint, as in checkpoints/best.json. "kept" lists the best few, best first."""

    step: Step
    value: float
    monitor: str | None
    kept: list[KeptCheckpoint]
    keep_last: PositiveInt


class Progress(TypedDict):
    """Progress of the training callbacks. Each counter is added under its own name."""

    seconds: Annotated[float, msgspec.Meta(ge=0)]
    best: BestRecord
    validation_due: bool


def checked_search(found: Mapping[str, Any] | None, place: object) -> SearchKeywords:
    """Return the `SearchOptions` fields of a record. `place` names the file in errors."""
    search: Any = dict(found or {})
    try:
        SearchOptions(**search)
    except (TypeError, ValueError) as error:
        raise UserInputError(f"The search of {place} is damaged: {error}") from error
    return search


def capped_search(search: SearchKeywords) -> SearchKeywords:
    """Return a run's search options, each capped at its limit, `Option.most_own`.

    Example:
        >>> capped_search({"beam_size": 5000, "num_results": 300, "alpha": 0.6})
        {'beam_size': 100, 'num_results': 100, 'alpha': 0.6}
    """
    capped: Any = dict(search)
    for name, option in OPTIONS.items():
        if option.most_own is not None and capped.get(name) is not None:
            capped[name] = min(capped[name], option.most_own)
    return capped


def with_search(
    record: Mapping[str, Any], options: SearchKeywords | None, in_training: bool = False
) -> dict[str, Any]:
    """Return the contents of `run.json` with different search defaults.

    Args:
        record: the old contents. Fields that are unknown to this version are kept.
        options: fields to set. The first call keeps the earlier fields as `untuned_search`. None
            restores the earlier fields.
        in_training: whether the run's own training has tuned the options.

    Returns:
        The new contents.

    Example:
        >>> tuned = with_search({"search": {"beam_size": 6}}, {"alpha": 1.1})
        >>> tuned
        {'search': {'beam_size': 6, 'alpha': 1.1}, 'untuned_search': {'beam_size': 6}}
        >>> with_search(tuned, None)
        {'search': {'beam_size': 6}}
    """
    names = ("search", "untuned_search", "tuned_in_training")
    others = {name: value for name, value in record.items() if name not in names}
    present, untuned = record.get("search"), record.get("untuned_search")
    if options is None:
        search = present if untuned is None else untuned
        return {**others, "search": search} if search else others
    if in_training:
        others["tuned_in_training"] = True
    before = (present or {}) if untuned is None else untuned
    return {**others, "search": search_over(present or {}, options), "untuned_search": before}


def without_tuning(record: Mapping[str, Any], own: SearchKeywords, place: object) -> dict[str, Any]:
    """Return the contents of `run.json` without search options tuned during the run's training.

    The search from the settings is recorded only if it sets `max_repeats`, or if the run had a
    recorded search before tuning.

    Args:
        record: the old contents.
        own: fields that the training settings determine. They override fields inherited from the
            run that training started from.
        place: the record's file, for error messages.

    Returns:
        The new contents; unchanged if the search was tuned after training.

    Example:
        >>> tuned = with_search({"search": {"beam_size": 6}}, {"alpha": 1.1}, in_training=True)
        >>> without_tuning(tuned, {"beam_size": 4, "alpha": 0.6}, "run.json")
        {'search': {'beam_size': 4, 'alpha': 0.6}}
        >>> tuned = with_search({}, {"alpha": 1.1}, in_training=True)
        >>> without_tuning(tuned, {"alpha": 0.6}, "run.json")
        {}
        >>> without_tuning(tuned, {"alpha": 0.6, "max_repeats": 8}, "run.json")
        {'search': {'alpha': 0.6, 'max_repeats': 8}}
    """
    if record.get("untuned_search") is not None and not record.get("tuned_in_training"):
        return dict(record)
    content = with_search(record, None)
    before = checked_search(content.get("search"), place)
    # A search with only the usual options needs no record; a guard against loops does.
    if before or own.get("max_repeats"):
        content["search"] = search_over(before, own)
        SearchOptions(**content["search"])  # checks that the options fit together
    return content
