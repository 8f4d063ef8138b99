"""Settings of a run: a flat frozen dataclass that also defines command-line flags and JSON."""

import argparse
import dataclasses
import datetime
import functools
import json
import math
import pathlib
import tomllib
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, Self, TypeAlias

from keras_transformer.argument_checks import positive_number
from keras_transformer.argument_checks import setting as setting
from keras_transformer.errors import UserInputError, refuse, similar_name
from keras_transformer.input_files import read_input
from keras_transformer.types import PathLike

SettingValue: TypeAlias = bool | int | float | str | None

SWITCH = ("auto", "on", "off")
CHOICES = "setting_choices"  # attribute of a flag: the choices of its setting, for completion
_MOST_BYTES = 1 << 16  # per settings file; Python's TOML parser takes quadratic time
_MOST_DOTS = 50  # per line; a key with n parts takes n squared steps and bytes
_LARGEST = 2**63 - 1
_SHOWN = 100  # characters of a value in a message
_KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
# Field annotations -> the type of the values, and whether None is also allowed.
_TYPES: dict[Any, tuple[type, bool]] = {
    **{plain: (plain, False) for plain in (int, float, bool, str)},
    **{plain | None: (plain, True) for plain in (int, float, bool, str)},
}


def setting_of(owner: Any, name: str, default: Any, **rules: Any) -> Any:
    """Return a field with the reason and rules of another dataclass's field, plus more rules."""
    metadata = {**owner.__dataclass_fields__[name].metadata, **rules}
    return dataclasses.field(default=default, metadata=metadata)


def switch(reason: str) -> str:
    """Return a field that accepts "auto", "on" and "off", or True for "on" and False for "off".

    On the command line, `--name` means on, `--no-name` means off, and `--name auto` lets the
    program decide.

    Args:
        reason: as in `setting`; should explain when "auto" means on.
    """
    return setting("auto", reason, choices=SWITCH)


def switch_name(value: SettingValue) -> SettingValue:
    """Convert a switch's value: True to "on", False to "off". Return other values unchanged."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class for recipe settings, with validation, command-line flags and JSON support.

    A subclass is a frozen dataclass whose fields are created with `setting` and annotated as `int`,
    `float`, `bool` or `str`. Each of these can be combined with `| None`; None is written as `none`
    on the command line.

    Attributes:
        headings: title of each group in `--help`, keyed by the first field of the group.

    Raises:
        UserInputError: a value has the wrong type or violates its field's rules.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Training(Settings):
        ...     steps: int = setting(500, "the loss is flat by then", minimum=1)
        >>> Training(steps=20).to_dict()
        {'steps': 20}
        >>> Training.from_dict({"step": 20})
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: Unknown setting `step`. Did you mean `steps`?
    """

    headings: typing.ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        inherited = getattr(cls, "__dataclass_fields__", {})
        for name, field in vars(cls).items():
            if name in inherited and isinstance(field, dataclasses.Field):
                merged = {**inherited[name].metadata, **field.metadata}
                field.metadata = types.MappingProxyType(merged)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata.get("choices") is SWITCH:
                object.__setattr__(self, field.name, switch_name(getattr(self, field.name)))
            plain, is_optional = _value_type(type(self), field.name)
            value = getattr(self, field.name)
            if value is None and is_optional:
                continue
            if rule := _broken_rule(field.metadata, plain, value):
                refuse(field.name, f"be {rule}", value)

    @classmethod
    def from_dict(cls, values: Mapping[str, SettingValue]) -> Self:
        """Create settings from a mapping; settings that are not included keep their defaults."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                close = similar_name(name, names)
                hint = f"Did you mean `{close}`?" if close else f"Settings: {', '.join(names)}"
                raise UserInputError(f"Unknown setting `{name[:_SHOWN]}`. {hint}")
        return cls(**values)

    def to_dict(self) -> dict[str, SettingValue]:
        """Return a dictionary of field names and values."""
        return dataclasses.asdict(self)

    @classmethod
    def defaults(cls) -> dict[str, SettingValue]:
        """Return a dictionary of field names and defaults."""
        return {field.name: getattr(cls, field.name) for field in dataclasses.fields(cls)}

    @classmethod
    def add_arguments(
        cls, parser: argparse.ArgumentParser, shown: Mapping[str, str] = types.MappingProxyType({})
    ) -> None:
        """Add a flag for each field to a parser: `batch_tokens` becomes `--batch-tokens`.

        Flags that are not given are absent from the namespace, so `from_arguments` can detect them.

        Args:
            parser: parser to extend.
            shown: defaults to show in `--help` in place of the fields' own, by field name; `{}`
                stands for the field's own default.
        """
        titles = _titles(cls)
        names = dict.fromkeys(titles.values())
        groups = {title: parser.add_argument_group(title) for title in names}
        for field in _own_first(cls):
            group = groups[titles[field.name]]
            reason, _, none = field.metadata["reason"].partition("; none: ")
            if field.default is not None:
                reason, _, other = field.metadata["reason"].partition("; not given: ")
                none = other or str(field.default)
            default = shown.get(field.name, "{}").format(none or "none")
            flag = field.name.replace("_", "-")
            given: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
            action = group.add_argument(
                f"--{flag}",
                **given,
                help=f"{reason} (default: {default})".replace("%", "%%"),
                **_argument_form(field, *_value_type(cls, field.name)),
            )
            vars(action)[CHOICES] = field.metadata.get("choices")
            if field.metadata.get("choices") is SWITCH:
                group.add_argument(
                    f"--no-{flag}", **given, action="store_const", const="off", help=f"--{flag} off"
                )

    @classmethod
    def from_arguments(
        cls,
        arguments: argparse.Namespace,
        path: PathLike | None = None,
        base: Mapping[str, SettingValue] | None = None,
    ) -> Self:
        """Create settings from the namespace of a parser extended by `add_arguments`.

        Args:
            arguments: namespace whose flags take precedence over everything else.
            path: JSON or TOML settings file, which takes precedence over `base`.
            base: values that take precedence over the defaults; unknown names are ignored.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        known = {name: value for name, value in (base or {}).items() if name in names}
        settings = cls.from_dict(cls.merge(known, cls.given(arguments, path)))
        settings.check_given([name for name in names if hasattr(arguments, name)])
        return settings

    @classmethod
    def given(
        cls, arguments: argparse.Namespace, path: PathLike | None = None
    ) -> dict[str, SettingValue]:
        """Return the settings from the command line and a settings file, without defaults.

        Args:
            arguments: as in `from_arguments`; flags take precedence over the file.
            path: path of the file, or None.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        flags = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
        return cls.merge(read_settings_file(path) if path else {}, flags)

    def check_given(self, names: Collection[str]) -> None:
        """Reject flags that have no effect. (A run's own settings may contain such values.)

        Args:
            names: settings whose flags were given.

        Raises:
            UserInputError: another setting disables one of these settings.
        """

    @classmethod
    def merge(
        cls, lower: Mapping[str, SettingValue], upper: Mapping[str, SettingValue]
    ) -> dict[str, SettingValue]:
        """Merge two layers of settings; `upper` takes precedence.

        Equal numbers keep their form (3 or 3.0) from `lower`, because it identifies prepared text.
        """
        merged = {**lower, **upper}
        for name in lower.keys() & upper.keys():
            old, new = lower[name], upper[name]
            if old == new and isinstance(old, bool) == isinstance(new, bool):
                merged[name] = old
        return merged


def _own_first(cls: type[Settings]) -> list[dataclasses.Field[Any]]:
    """Return the fields of a class, with its own fields before inherited ones."""
    settings = [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    names = [name for base in settings for name in (f.name for f in dataclasses.fields(base))]
    return sorted(dataclasses.fields(cls), key=lambda field: names.count(field.name))


def _titles(cls: type[Settings]) -> dict[str, str]:
    """Return the group title for each field, in group order.

    A field is listed under the heading from the class that first declared the field.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        title = "settings"
        for name in vars(base).get("__annotations__", {}):
            title = vars(base).get("headings", {}).get(name, title)
            found.setdefault(name, title)
    return {field.name: found[field.name] for field in _own_first(cls)}


def read_settings_file(path: PathLike) -> dict[str, SettingValue]:
    """Read a settings file: TOML if the file name ends in `.toml`, otherwise JSON.

    Raises:
        UserInputError: the file cannot be read or is not a table of names and values.
    """
    content = read_input(path, _MOST_BYTES)
    try:
        text = content.decode("utf-8")
        if pathlib.Path(path).suffix == ".toml":
            if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
                raise ValueError(f"a line has more than {_MOST_DOTS} dots")
            values = tomllib.loads(text)
        else:
            values = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:  # from parsing either format or from decoding
        raise UserInputError(f"{path} is not a settings file: {_cut(str(error))}") from error
    if not isinstance(values, dict):
        raise UserInputError(f"{path} must hold a JSON object. Received: {text.strip()[:60]}")
    return values


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Duplicate names raise a `ValueError`, as in TOML."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{repeated}` occurs twice")
    return values


def _value_type(cls: type[Settings], name: str) -> tuple[type, bool]:
    """Return the type of a field's values, and whether None is also allowed."""
    annotation = _type_hints(typing.cast(Any, cls))[name]
    if annotation not in _TYPES:
        raise TypeError(
            f"`{cls.__name__}.{name}` must be int, float, bool or str, or one of them `| None`. "
            f"Received: {annotation}"
        )
    return _TYPES[annotation]


@functools.cache
def _type_hints(cls: type) -> dict[str, Any]:
    """Return a class's field types, cached because evaluating them is slow."""
    return typing.get_type_hints(cls)


def _broken_rule(rules: Mapping[str, Any], plain: type, value: Any) -> str | None:
    """Describe the rule that a value violates, or return None if the value is valid."""
    accepted = (int, float) if plain is float else plain
    fits = isinstance(value, accepted) and (plain is bool or not isinstance(value, bool))
    if not fits:
        return _KINDS[plain]
    if plain in (int, float) and not -_LARGEST <= value <= _LARGEST:  # NaN fails too
        is_finite = isinstance(value, int) or math.isfinite(value)
        return f"at most {_LARGEST}" if is_finite else "a finite number"
    if plain is str and not _is_plain(value):
        return "a valid Unicode string without NUL"
    choices, minimum, below = rules.get("choices"), rules.get("minimum"), rules.get("below")
    if choices is not None and value not in choices:
        return f"one of {', '.join(map(str, choices))}"
    if minimum is not None and value < minimum:
        return f"at least {minimum}"
    if below is not None and value >= below:
        return f"less than {below}"
    return None


def _is_plain(text: str) -> bool:
    """Return whether a string can be a file's contents or name: no NULs or lone surrogates."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _argument_form(field: dataclasses.Field[Any], plain: type, is_optional: bool) -> dict[str, Any]:
    """Return the arguments of `add_argument` other than the name, default and help."""
    if plain is bool:
        return {"action": argparse.BooleanOptionalAction}

    def parse(text: str) -> SettingValue:
        if is_optional and not text:
            raise argparse.ArgumentTypeError("must not be empty")
        try:
            return None if is_optional and text.lower() == "none" else plain(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"must be {_KINDS[plain]}. Received: {_cut(repr(text))}"
            ) from None

    choices = field.metadata.get("choices")
    shown = field.metadata.get("shown")
    metavar = shown or ("|".join(map(str, choices)) if choices else plain.__name__.upper())
    optional = {"nargs": "?", "const": "on"} if choices is SWITCH else {}
    return {"type": parse, "metavar": metavar, **optional}


_PARTS = {"dev": "use for checkpoint selection", "test": "score at the end"}

# The value that `keras-transformer train` sets by default; see `fit_settings`. In 328,000 pairs
# from Tatoeba and Multi30k, no target has more than 4 repeats in a row beyond the source's.
MAX_REPEATS = 8
WITH_MINUTES: Mapping[str, SettingValue] = types.MappingProxyType(
    {"cooldown": 0.3, "bleu_every": 3, "bleu_sentences": 300}
)
_BY_SIZE = "fitted to the text; with --preset, {}"
_BY_TIME = "with --minutes, fitted to the time and the machine; otherwise {}"
# Defaults to show in `--help` for all fitted settings, with what they are fitted to; `{}` stands
# for the setting's own default.
FITTED: Mapping[str, str] = types.MappingProxyType(
    {
        "preset": "fitted to the text",
        "vocabulary_size": "fitted to the text",
        **dict.fromkeys(("normalize_first", "intermediate_dim", "dropout"), _BY_SIZE),
        **dict.fromkeys(
            ("batch_tokens", "warmup_steps", "learning_rate_scale", "save_every"), _BY_TIME
        ),
        **{
            name: f"with --minutes, {value}; otherwise {{}}" for name, value in WITH_MINUTES.items()
        },
        "steps": "with --minutes, until the time is over; otherwise {}",
        "tune_alpha": "with --minutes, fitted to the text; otherwise {}",
        "bleu_tokenize": "fitted to --target-language",
        "max_repeats": str(MAX_REPEATS),
    }
)


@dataclasses.dataclass(frozen=True)
class EssentialSettings(Settings):
    """The training settings that `--help` shows; `TranslationSettings` contains all settings."""

    preset: str = setting(
        "base",
        "model size; ROW is a row of the paper's Table 3, such as A-h4 or C-N2",
        shown="tiny|small|base|big|ROW",
    )
    source_language: str | None = setting(
        None, "source language code, such as en; used in titles and to split sentences"
    )
    target_language: str | None = setting(
        None, "target language code, such as de; used in titles and to tokenize for BLEU"
    )
    steps: int | None = setting(None, "number of updates; none: the preset's", minimum=1)
    batch_tokens: int | None = setting(
        None,
        "maximum number of tokens per step, on each side; none: the preset's",
        minimum=1,
    )


def add_text_arguments(parser: argparse.ArgumentParser, *, mix: bool = True) -> None:
    """Add the flags that `translation_training.text_of` reads to a parser.

    Args:
        parser: parser to extend.
        mix: whether to include `--mix`.
    """
    add = parser.add_argument_group(
        "text (UTF-8, one sentence per line, plain or .gz)"
    ).add_argument
    for side in ("source", "target"):
        add(
            f"--{side}",
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"{side} sentences to train on; multiple files or quoted patterns are joined",
        )
    for part, purpose in _PARTS.items():
        for side in ("source", "target"):
            add(f"--{part}-{side}", metavar="FILE", help=f"{side} sentences to {purpose}")
    add(
        "--alignments",
        nargs="+",
        metavar="FILE",
        help="word alignments of the sentences to train on, in Pharaoh format (such as '0-0 2-1'), "
        "for guided alignment; by default, eflomal computes them",
    )
    if mix:
        add(
            "--mix",
            nargs=3,
            action="append",
            default=[],
            metavar=("SOURCE", "TARGET", "WEIGHT"),
            help="additional text, used WEIGHT times per epoch, such as 2 or 0.25; repeatable",
        )


def add_run_arguments(
    parser: argparse.ArgumentParser, runs: PathLike, fine_tuning: bool = True
) -> None:
    """Add the flags of a `training.TrainingCommand`, except for its settings, to a parser.

    Args:
        parser: parser to extend.
        runs: parent of the default run directory, which is named after the current time.
        fine_tuning: whether training can start from another run.
    """
    default_run = pathlib.Path(runs, f"{datetime.datetime.now():%Y%m%d-%H%M%S}")
    group = parser.add_argument_group("run")
    add = group.add_argument
    add(
        "--run",
        type=pathlib.Path,
        default=default_run,
        metavar="DIR",
        help=f"run directory (default: {default_run.parent}/<date>-<time>)",
    )
    parser.set_defaults(default_run=default_run)
    either = group.add_mutually_exclusive_group()
    either.add_argument("--overwrite", action="store_true", help="replace an existing run")
    either.add_argument(
        "--resume",
        action="store_true",
        help="resume the run in DIR from its last checkpoint, or start one if there is none; with "
        "--deterministic, the result is bitwise identical; requires --run",
    )
    add(
        "--minutes",
        type=positive_number,
        metavar="M",
        help="stop training after M minutes, then average and score as usual (default: no limit); "
        "with --resume, M includes earlier training time",
    )
    if fine_tuning:
        add(
            "--from",
            type=pathlib.Path,
            metavar="RUN",
            help="start from the weights of another run, using its model, tokenizers and settings",
        )
    add(
        "--settings",
        type=pathlib.Path,
        metavar="FILE",
        help="JSON or TOML settings file, such as a run's settings.json; flags take precedence",
    )


def add_export_argument(parser: argparse.ArgumentParser) -> None:
    """Add the `--export` flag to a parser."""
    parser.add_argument(
        "--export",
        metavar="DIRECTORY",
        help="export the result to this directory as a SavedModel and translate with the export",
    )
