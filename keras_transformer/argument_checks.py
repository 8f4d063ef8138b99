"""Argument checks with informative error messages, and the `KeepsArguments` base class."""

import argparse
import dataclasses
import functools
import inspect
import math
import numbers
import typing
from collections.abc import Callable, Collection, Iterable, Sized
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeGuard,
    TypeVar,
    overload,
)

from keras_transformer.errors import UserInputError, refuse, reject

if TYPE_CHECKING:
    import numpy as np

_T = TypeVar("_T")
_Number = TypeVar("_Number", int, float)
_Options = ParamSpec("_Options")
_MOST = 2**31 - 1  # the largest integer in a model, far above any other valid number
_SHOWN = 100  # maximum number of characters shown of a command-line argument


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is a Python or NumPy integer; booleans do not count."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a Python or NumPy real number; booleans do not count."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def known_values(tensor: Any) -> "np.ndarray | None":
    """Return a tensor or list as a NumPy array, or None if it has no values yet, as in a graph."""
    import keras

    is_tensor = keras.ops.is_tensor(tensor)
    if is_tensor and keras.backend.backend() == "tensorflow" and not hasattr(tensor, "numpy"):
        return None  # NumPy would warn about a graph's tensor
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return keras.ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError, ValueError, RuntimeError):  # varies by backend
        return None


def python_number(value: _T) -> _T:
    """Convert a number to a Python number, which JSON supports. Return other values unchanged.

    Example:
        >>> import numpy as np
        >>> python_number(np.int64(3)), python_number(np.float32(0.5)), python_number(None)
        (3, 0.5, None)
    """
    number: Any = value
    if is_number(value):
        number = int(value) if is_integer(value) else float(value)
    return number


def check_no_string(name: str, strings: object) -> None:
    """Reject a single string in place of a list: a string is itself a sequence of strings."""
    if isinstance(strings, (str, bytes)):
        refuse(name, "be a list of strings", strings)


def checked_strings(name: str, strings: Iterable[str]) -> list[str]:
    """Return the strings in UTF-8-encodable form; raise a ValueError for any other value."""
    check_no_string(name, strings)
    try:
        strings = list(strings)
    except TypeError:  # such as a tensor in a graph, which has no values yet
        refuse(name, "be a list of strings", strings)
    for i, string in enumerate(strings):
        if not isinstance(string, str):
            reject(f"`{name}` must be a list of strings", **{f"{name}[{i}]": string})
    return [without_surrogates(string) for string in strings]


class OneOrMany(Protocol[_Options]):
    """A method that maps a list of strings to a list of equal length, or a string to a string."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self, sentences: str, *args: _Options.args, **options: _Options.kwargs
    ) -> str: ...

    @overload
    def __call__(
        self, sentences: Iterable[str], *args: _Options.args, **options: _Options.kwargs
    ) -> list[str]: ...


def of_one_or_many(
    translate: Callable[Concatenate[Any, Iterable[str], _Options], list[str]],
) -> OneOrMany[_Options]:
    """Decorator that lets a method that takes a list of strings also accept a single string.

    For a single string, it returns a string, and `prefixes` can also be a single string.
    """

    @functools.wraps(translate)
    def either(self: Any, sentences: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(sentences, str):
            return translate(self, sentences, *args, **options)
        args = tuple([each] if isinstance(each, str) else each for each in args)
        if isinstance(options.get("prefixes"), str):
            options["prefixes"] = [options["prefixes"]]
        return translate(self, [sentences], *args, **options)[0]

    method: Any = either
    return method


def without_surrogates(string: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return string


def check_equal_numbers(name: str, rows: Sized, other_name: str, other_rows: Sized) -> None:
    """Require that two arguments have the same length."""
    if len(rows) != len(other_rows):
        raise UserInputError(
            f"`{other_name}` must have the same length as `{name}`. "
            f"Received: {len(rows)} {name}, {len(other_rows)} {other_name}"
        )


def check_bool(name: str, value: object) -> None:
    """Require True or False; without this check, any truthy value would count as True."""
    if not isinstance(value, bool):
        refuse(name, "be True or False", value)


def check_positive_int(name: str, value: object) -> None:
    """Require an integer >= 1."""
    if not is_integer(value) or value < 1:
        refuse(name, "be a positive integer", value)


def check_window(name: str, value: object) -> None:
    """Require a positive odd integer that fits in int32, or None."""
    if value is None:
        return
    if not is_integer(value) or value not in range(1, 2**31, 2):
        refuse(name, "be an odd positive integer, or None", value)


def check_non_negative_int(name: str, value: object) -> None:
    """Require an integer >= 0."""
    if not is_integer(value) or value < 0:
        refuse(name, "be an integer >= 0", value)


def check_seed(name: str, value: object) -> None:
    """Require an integer, or None."""
    if value is not None and not is_integer(value):
        refuse(name, "be an integer, or None", value)


def check_rate(name: str, value: object) -> None:
    """Require a number in [0, 1), such as a dropout rate."""
    if not is_number(value) or not 0 <= value < 1:
        refuse(name, "be a number in [0, 1)", value)


def check_positive_number(name: str, value: object) -> None:
    """Require a finite number > 0."""
    if not is_number(value) or not 0 < value < math.inf:
        refuse(name, "be a finite number > 0", value)


def check_non_negative_number(name: str, value: object) -> None:
    """Require a number >= 0."""
    if not is_number(value) or not value >= 0:
        refuse(name, "be a number >= 0", value)


# The rule for each argument name, shared by all layers, losses and option records.
_RULES = {
    name: check
    for check, names in {
        check_positive_int: "vocabulary_size source_vocabulary_size hidden_dim intermediate_dim "
        "num_decoder_layers num_heads alignment_layer alignment_head key_dim value_dim max_length "
        "num_tables",
        check_non_negative_int: "num_encoder_layers mask_id hidden_id zero_id",
        check_rate: "dropout attention_dropout activation_dropout word_dropout label_smoothing",
        check_positive_number: "layer_norm_epsilon residual_scale initial_gain scale",
        check_bool: "use_bias qk_norm normalize_first b2t_connection final_norm tie_weights "
        "use_logits_bias",
        check_window: "attention_window",
        check_seed: "seed",
    }.items()
    for name in names.split()
}


def check_by_name(name: str, value: object, annotation: Any) -> None:
    """Apply the rule for arguments with this name. None passes if the annotation allows it."""
    if name in _RULES and not (value is None and type(None) in typing.get_args(annotation)):
        _RULES[name](name, value)


def check_one_of(name: str, value: object, choices: Collection[object]) -> None:
    """Require one of the given values."""
    if value not in choices:
        refuse(name, f"be one of {list(choices)}", value)


def check_vectors(name: str, shape: tuple[int | None, ...]) -> None:
    """Require a call argument to have rank 3, the rank of a batch of vector sequences."""
    if len(shape) != 3:
        refuse(name, "be a tensor of rank 3, (batch, length, hidden_dim)", shape=tuple(shape))


def known_width(name: str, shape: tuple[int | None, ...]) -> int:
    """Return the size of a call argument's last axis, which must be known to create weights."""
    width = shape[-1]
    if width is None:
        raise ValueError(f"The last axis of `{name}` must be known. Received: shape {tuple(shape)}")
    return width


def _number(
    convert: Callable[[str], _Number], name: str, is_fit: Callable[[_Number], bool]
) -> Callable[[str], _Number]:
    """Return an `argparse` type with error messages like "must be NAME. Received: 'x'"."""

    def parse(text: str) -> _Number:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not is_fit(value):
            raise argparse.ArgumentTypeError(f"must be {name}. Received: {text[:_SHOWN]!r}")
        return value

    return parse


positive_int = _number(int, f"an integer from 1 to {_MOST}", lambda value: 1 <= value <= _MOST)
int_from_zero = _number(int, f"an integer from 0 to {_MOST}", lambda value: 0 <= value <= _MOST)
positive_number = _number(float, "a positive number", lambda value: 0 < value <= _MOST)
number_from_zero = _number(float, "a number of at least 0", lambda value: 0 <= value <= _MOST)
share = _number(float, "a number above 0 and at most 1", lambda value: 0 < value <= 1)


def setting(
    default: _T,
    reason: str,
    *,
    choices: Collection[bool | int | float | str | None] | None = None,
    minimum: float | None = None,
    below: float | None = None,
    shown: str | None = None,
) -> _T:
    """Return a dataclass field with the reason for its default.

    A subclass that redefines a field inherits any rules it does not override.

    Args:
        default: the default value.
        reason: explanation of the default, shown by `--help`.
        choices: the allowed values.
        minimum: the smallest allowed number.
        below: exclusive upper bound of the allowed numbers.
        shown: placeholder for the value in `--help`; defaults to the choices or the type.
    """
    rules = {
        "reason": reason,
        "choices": choices,
        "minimum": minimum,
        "below": below,
        "shown": shown,
    }
    given = {name: rule for name, rule in rules.items() if rule is not None}
    return dataclasses.field(default=default, metadata=given)


class KeepsArguments:
    """Mixin that stores constructor arguments as attributes and returns them from `get_config`.

    Make it the first base class of a Keras subclass. Before the subclass's constructor runs, its
    arguments are checked by the rules for their names and stored, numbers as Python numbers.
    Initializers, regularizers, constraints, activations and losses are stored as Keras objects. The
    constructor may replace an attribute, for example with a resolved default. Arguments that are
    properties of the Keras class, such as `dtype`, are handled by that class.
    """

    _kept: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # User-defined subclasses implement their own `get_config`, as Keras requires.
        if "__init__" not in vars(cls) or not cls.__module__.startswith(f"{__package__}."):
            return
        construct = cls.__init__
        signature = inspect.signature(construct)
        _, *parameters = signature.parameters.values()
        names = [
            each.name
            for each in parameters
            if each.kind is not each.VAR_KEYWORD and not hasattr(cls, each.name)
        ]
        cls._kept = (*cls._kept, *names)

        @functools.wraps(construct)
        def keep_and_construct(self: Any, *arguments: Any, **keywords: Any) -> None:
            given = signature.bind(self, *arguments, **keywords)
            given.apply_defaults()
            for each in parameters:
                check_by_name(each.name, given.arguments[each.name], each.annotation)
            # Keras's optimizers do not allow `setattr` before their own constructor has run.
            vars(self).update({name: _as_object(name, given.arguments[name]) for name in names})
            construct(self, *arguments, **keywords)

        vars(keep_and_construct)["__signature__"] = signature  # Keras reads this
        cls.__init__ = keep_and_construct  # type: ignore[method-assign]

    def _kept_arguments(self) -> dict[str, Any]:
        """Return the arguments as JSON-compatible values from which the class can be re-created."""
        return {name: _as_json(name, getattr(self, name)) for name in self._kept}

    def get_config(self) -> dict[str, Any]:
        keras_class: Any = super()
        return {**self._kept_arguments(), **keras_class.get_config()}


def _kind(name: str) -> str:
    """Return the kind of an argument from its name: "initializer" for `kernel_initializer`."""
    return name.rpartition("_")[2]


def _as_object(name: str, value: Any) -> Any:
    """Convert an argument to the form stored by its class."""
    kind = _kind(name)
    if kind == "initializer":
        return checked_initializer(name, value)
    if kind in ("regularizer", "constraint", "activation", "loss"):
        import keras

        plural = "losses" if kind == "loss" else f"{kind}s"
        return getattr(keras, plural).get(value)
    return python_number(value)


def _as_json(name: str, value: Any) -> Any:
    import keras

    if _kind(name) == "activation":  # Keras functions are stored by name
        return keras.activations.serialize(value)
    return keras.saving.serialize_keras_object(value)


def checked_initializer(name: str, identifier: Any) -> Any:
    """Return the Keras initializer specified by an argument."""
    import keras

    try:
        found = keras.initializers.get(identifier)
    except ValueError:
        found = None
    if found is None:
        refuse(name, "be an initializer or its name", identifier)
    return found
