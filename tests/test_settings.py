import argparse
import dataclasses
import math

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_json
from keras_transformer.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class Example(Settings):
    steps: int = setting(500, "the loss is flat by then", minimum=1)
    dropout: float = setting(0.1, "10 % as in the paper", minimum=0, below=1)
    norm: str = setting("post", "the paper's order", choices=("post", "pre"))
    lowercase: bool = setting(False, "case carries meaning")
    tokenizer: str | None = setting(None, "trained on the text where none is given")


def parse(*flags, path=None):
    parser = argparse.ArgumentParser(exit_on_error=False)
    Example.add_arguments(parser)
    return Example.from_arguments(parser.parse_args(flags), path)


def test_command_line_without_flags_gives_the_defaults():
    assert parse() == Example()


def test_every_field_is_a_flag():
    flags = ["--steps", "7", "--dropout", "0.3", "--norm", "pre", "--lowercase"]
    expected = Example(steps=7, dropout=0.3, norm="pre", lowercase=True, tokenizer="my.model")
    assert parse(*flags, "--tokenizer", "my.model") == expected
    assert parse("--no-lowercase", "--tokenizer", "none") == Example()


def test_help_gives_every_reason_and_default():
    parser = argparse.ArgumentParser()
    Example.add_arguments(parser)
    text = " ".join(parser.format_help().split())
    assert "10 % as in the paper (default: 0.1)" in text
    assert "trained on the text where none is given (default: none)" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("small.json", '{"steps": 3, "tokenizer": "größe.model"}'),
        ("small.toml", 'steps = 3  # few\ntokenizer = "größe.model"\n'),
    ],
)
def test_a_settings_file_outranks_defaults_and_flags_outrank_the_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert parse(path=path) == Example(steps=3, tokenizer="größe.model")
    assert parse("--steps", "500", path=path) == Example(tokenizer="größe.model")


@dataclasses.dataclass(frozen=True)
class Derived(Example):
    layers: int = setting(2, "enough", minimum=1)
    steps: int = setting(9, "the text is short")
    norm: str = setting("pre", "steadier", choices=("pre",))


@pytest.mark.parametrize(
    ("name", "value", "rule"), [("steps", 0, "at least 1"), ("norm", "post", "one of pre")]
)
def test_a_field_stated_again_keeps_the_rules_that_it_does_not_give(name, value, rule):
    assert Derived().to_dict() == {**Example().to_dict(), "steps": 9, "norm": "pre", "layers": 2}
    with pytest.raises(UserInputError, match=f"`{name}` must be {rule}."):
        Derived(**{name: value})
    assert Example(steps=1, norm="post")


def test_help_shows_a_classs_own_settings_before_those_of_its_base():
    parser = argparse.ArgumentParser()
    Derived.add_arguments(parser)
    text = parser.format_help()
    assert text.index("--layers INT") < text.index("--steps INT") < text.index("--dropout FLOAT")
    assert "the text is short (default: 9)" in text


def test_defaults_are_those_of_the_fields():
    assert Derived.defaults() == Derived().to_dict()


@pytest.mark.parametrize("number", [0, 0.0])
def test_a_number_stays_as_a_run_has_written_it(number):
    """So that what was prepared with it is found again."""
    run = Example(dropout=number).to_dict()
    for given in (0, 0.0):
        merged = Example.from_dict(Example.merge(run, {"dropout": given}))
        assert repr(merged.dropout) == repr(number)


def test_what_a_run_wrote_is_a_settings_file(tmp_path):
    settings = Example(steps=3, dropout=0.25, lowercase=True, tokenizer="größe.model")
    write_json(tmp_path / "settings.json", settings.to_dict())
    assert parse(path=tmp_path / "settings.json") == settings


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("steps", 1.0, "an integer"),
        ("steps", True, "an integer"),
        ("steps", 0, "at least 1"),
        ("dropout", "0.1", "a number"),
        ("dropout", math.nan, "a finite number"),
        ("dropout", 1.0, "less than 1"),
        ("norm", "none", "one of post, pre"),
        ("lowercase", 1, "true or false"),
        ("tokenizer", 5, "a string"),
        ("norm", None, "a string"),
        ("steps", 2**63, "at most 9223372036854775807"),
        ("dropout", math.inf, "a finite number"),
        ("dropout", 1e30, "at most 9223372036854775807"),
        ("tokenizer", "a\0b", "a valid Unicode string without NUL"),
        ("tokenizer", "a\ud800", "a valid Unicode string without NUL"),
    ],
)
def test_wrong_value_names_setting_rule_and_value(name, value, rule):
    with pytest.raises(UserInputError) as caught:
        Example.from_dict({name: value})
    assert str(caught.value) == f"`{name}` must be {rule}. Received: {name}={value!r}"


def test_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(UserInputError, match="Unknown setting `drop_out`. Did you mean `dropout`?"):
        Example.from_dict({"drop_out": 0.1})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"[1, 2]", "must hold a JSON object. Received: .1, 2."),
        ("a.json", b"{", "is not a settings file"),
        ("a.json", b"\xff", "is not a settings file"),
        ("a.toml", b"steps = ", "is not a settings file"),
        ("a.json", b'{"step": 1}', "Did you mean `steps`"),
        ("a.json", b'{"steps": 1, "steps": 2}', "is not a settings file: `steps` occurs twice"),
        ("a.toml", b"a" + b".a" * 20_000 + b" = 1", "settings file: a line has more than 50 dots"),
        ("a.toml", b"steps = 1\nsteps = 2", "is not a settings file: Cannot overwrite a value"),
        ("a.json", b"[" * 60_000, "is not a settings file: maximum recursion"),
        ("a.toml", b"a = " + b"[" * 60_000, "is not a settings file: maximum recursion"),
        ("a.json", b'{"steps": 1' + b"0" * 5000 + b"}", "not a settings file: Exceeds the limit"),
        ("a.json", b'{"steps": 1' + b"0" * 4000 + b"}", rf"at most {2**63 - 1}. .*00\.\.\.$"),
        ("a.json", b'{"dropout": 1' + b"0" * 4000 + b"}", rf"at most {2**63 - 1}. .*000\.\.\.$"),
        ("a.json", b'{"dropout": NaN}', "a finite number. Received: dropout=nan"),
        ("a.json", b'{"dropout": 1e999}', "a finite number. Received: dropout=inf"),
        ("a.json", b'{"' + b"x" * 50_000 + b'": 1}', "Unknown setting `x{100}`"),
        ("a.json", b'{"tokenizer": "' + b"x" * 50_000 + b'\\u0000"}', r"NUL. .*xxx\.\.\.$"),
        ("a.json", b" " * (1 << 16) + b"{}", "must have at most 65,536 bytes"),
        ("a.toml", b"steps = 2020-01-01", "`steps` must be an integer. Received: .*2020"),
        ("a.toml", b"[steps]\na = 1", "`steps` must be an integer. Received: .*'a': 1"),
        ("a.json", b'{"norm": ["post"]}', "`norm` must be a string"),
    ],
)
def test_a_file_that_holds_no_settings_is_one_short_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserInputError, match=message) as raised:
        parse(path=tmp_path / name)
    assert len(str(raised.value)) < 400 + len(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_directory_or_a_device_is_no_settings_file(tmp_path):
    for path in (tmp_path, "/dev/zero", "/dev/null"):
        with pytest.raises(UserInputError):
            parse(path=path)


def test_a_missing_settings_file_is_told(tmp_path):
    with pytest.raises(UserInputError, match="Cannot read .*none.json: No such file"):
        parse(path=tmp_path / "none.json")


def test_wrong_type_on_the_command_line_is_refused():
    with pytest.raises(argparse.ArgumentError, match="must be an integer. Received: 'many'"):
        parse("--steps", "many")


def test_a_field_type_the_command_line_cannot_express_is_a_programming_error():
    @dataclasses.dataclass(frozen=True)
    class Wrong(Settings):
        sizes: tuple = setting((1, 2), "no flag can hold it")

    with pytest.raises(TypeError, match="`Wrong.sizes` must be int, float, bool or str"):
        Wrong()
