"""Settings of a run: a flat frozen dataclass that is also the command line and the JSON file."""

import argparse
import dataclasses
import difflib
import json
import pathlib
import tomllib
import types
import typing

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input

_MOST_BYTES = 1 << 16  # of a settings file: Python's reader of TOML takes the square of its length
_LARGEST = 2**63 - 1
_SHOWN = 100  # characters of a value in a message


def setting(default, reason, *, choices=None, minimum=None, below=None):
    """A dataclass field that says why its default is what it is.

    A field that a subclass states again keeps the rules that it does not give.

    Args:
        default: the value where nothing else is given.
        reason: why this value; shown by `--help`.
        choices: the allowed values, all of them.
        minimum: the least allowed number.
        below: every allowed number is less than this one.
    """
    rules = {"reason": reason, "choices": choices, "minimum": minimum, "below": below}
    given = {name: rule for name, rule in rules.items() if rule is not None}
    return dataclasses.field(default=default, metadata=given)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of a recipe's settings: checked fields, command line and JSON.

    A subclass is a frozen dataclass whose fields are made by `setting` and are annotated `int`,
    `float`, `bool` or `str`, or one of these `| None` (written `none` on the command line).

    Raises:
        UserInputError: a value has the wrong type or breaks its field's rule.

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

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        inherited = getattr(cls, "__dataclass_fields__", {})
        for name, field in vars(cls).items():
            if name in inherited and isinstance(field, dataclasses.Field):
                field.metadata = {**inherited[name].metadata, **field.metadata}

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check(field, _value_type(type(self), field.name), getattr(self, field.name))

    @classmethod
    def from_dict(cls, values):
        """Settings from a mapping of names to values; names not in it keep their defaults."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                name = name[:_SHOWN]  # looking for one like it takes the square of its length
                close = difflib.get_close_matches(name, names, n=1)
                hint = f"Did you mean `{close[0]}`?" if close else f"Settings: {', '.join(names)}"
                raise UserInputError(f"Unknown setting `{name}`. {hint}")
        return cls(**values)

    def to_dict(self):
        """Every field's name and value."""
        return dataclasses.asdict(self)

    @classmethod
    def defaults(cls):
        """Every field's name and default."""
        return {field.name: field.default for field in dataclasses.fields(cls)}

    @classmethod
    def add_arguments(cls, parser):
        """Give an `argparse` parser one flag a field: `batch_tokens` becomes `--batch-tokens`.

        A flag that is not given leaves no trace in the namespace: see `from_arguments`.
        """
        group = parser.add_argument_group("settings")
        for field in _own_first(cls):
            value_type = _value_type(cls, field.name)
            default = "none" if field.default is None else field.default
            group.add_argument(
                "--" + field.name.replace("_", "-"),
                dest=field.name,
                default=argparse.SUPPRESS,
                help=f"{field.metadata['reason']} (default: {default})".replace("%", "%%"),
                **_argument_form(field, value_type),
            )

    @classmethod
    def from_arguments(cls, arguments, path=None, base=None):
        """Settings from the namespace of a parser that `add_arguments` extended.

        Args:
            arguments: the namespace; a flag in it outranks everything.
            path: a settings file, JSON or TOML, which outranks `base`, or None.
            base: names and values that outrank the defaults, or None; names of other settings are
                passed over.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        known = {name: value for name, value in (base or {}).items() if name in names}
        given = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
        values = cls.merge(known, read_settings_file(path) if path else {})
        return cls.from_dict(cls.merge(values, given))

    @classmethod
    def merge(cls, lower, upper):
        """Names and values of two layers, of which `upper` outranks `lower`."""
        return {**lower, **upper}


def _own_first(cls):
    """The fields of a class, those that it adds to its base before those of the base."""
    settings = [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    names = [name for base in settings for name in (f.name for f in dataclasses.fields(base))]
    return sorted(dataclasses.fields(cls), key=lambda field: names.count(field.name))


def read_settings_file(path):
    """Names and values of a settings file: TOML if its name ends in `.toml`, else JSON.

    Raises:
        UserInputError: the file cannot be read, or holds no table of names and values.
    """
    content = read_input(path, _MOST_BYTES)
    try:
        text = content.decode("utf-8")
        if pathlib.Path(path).suffix == ".toml":
            values = tomllib.loads(text)
        else:
            values = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:  # of both formats; of text that is not UTF-8
        raise UserInputError(f"{path} is no settings file: {_cut(str(error))}") from error
    if not isinstance(values, dict):
        raise UserInputError(f"{path} must hold a JSON object. Received: {text.strip()[:60]}")
    return values


def _without_repetition(pairs):
    """The dict of a JSON object; `ValueError` where it has a name twice, as in TOML."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"`{next(name for name in names if names.count(name) > 1)}` stands twice")
    return values


@dataclasses.dataclass(frozen=True)
class _ValueType:
    plain: type  # int, float, bool or str
    optional: bool


def _value_type(cls, name):
    annotation = typing.get_type_hints(cls)[name]
    members = set(typing.get_args(annotation)) if _is_union(annotation) else {annotation}
    plain = members - {types.NoneType}
    if len(plain) != 1 or not plain <= {int, float, bool, str}:
        raise TypeError(
            f"`{cls.__name__}.{name}` must be int, float, bool or str, or one of them `| None`. "
            f"Received: {annotation}"
        )
    return _ValueType(plain.pop(), types.NoneType in members)


def _is_union(annotation):
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)


def _check(field, value_type, value):
    if value is None and value_type.optional:
        return
    rule = _broken_rule(field.metadata, value_type.plain, value)
    if rule:
        raise UserInputError(
            f"`{field.name}` must be {rule}. Received: {field.name}={_cut(repr(value))}"
        )


def _broken_rule(rules, plain, value):
    """The rule that a value breaks, in words, or None."""
    accepted = (int, float) if plain is float else plain
    if not isinstance(value, accepted) or (isinstance(value, bool) and plain is not bool):
        return {int: "an integer", float: "a number", bool: "true or false", str: "a text"}[plain]
    if plain in (int, float) and not -_LARGEST <= value <= _LARGEST:  # nor is NaN
        return "a finite number" if plain is float else f"at most {_LARGEST}"
    if plain is str and not _is_plain(value):
        return "a text of whole characters without NUL"
    choices, minimum, below = rules.get("choices"), rules.get("minimum"), rules.get("below")
    if choices is not None and value not in choices:
        return f"one of {', '.join(map(str, choices))}"
    if minimum is not None and value < minimum:
        return f"at least {minimum}"
    if below is not None and value >= below:
        return f"less than {below}"
    return None


def _is_plain(text):
    """Whether a text can be written to a file, and can name one: no NUL, no half of a pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _cut(text):
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _argument_form(field, value_type):
    """What `add_argument` needs beside the name, the default and the help."""
    if value_type.plain is bool:
        return {"action": argparse.BooleanOptionalAction}

    def parse(text):
        if value_type.optional and text.lower() == "none":
            return None
        return value_type.plain(text)

    parse.__name__ = value_type.plain.__name__  # argparse names it: "invalid int value: 'x'"
    choices = field.metadata.get("choices")
    metavar = "|".join(map(str, choices)) if choices else value_type.plain.__name__.upper()
    return {"type": parse, "metavar": metavar}
