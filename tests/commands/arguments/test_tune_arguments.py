"""Which flags of `keras-transformer tune` go together."""

import argparse

import pytest

from keras_transformer.commands.arguments.tune_arguments import (
    add_tune_arguments,
    check_files_given,
)
from keras_transformer.errors import UserInputError


def check(*arguments):
    parser = argparse.ArgumentParser()
    add_tune_arguments(parser)
    check_files_given(parser.parse_args(["run", *arguments]))


@pytest.mark.parametrize(
    "argument",
    [
        "--source=dev.en",
        "--reference=dev.de",
        "--metric=chrf",
        "--tokenize=none",
        "--alphas=0.6",
        "--beam-sizes=2",
        "--extra-lengths=9",
        "--checkpoint=best",
        "--target-language=deu",
        "--batch-size=8",
        "--max-source-length=9",
        "--json=scores.json",
    ],
)
def test_a_reset_measures_nothing(argument):
    flag = argument.partition("=")[0]
    with pytest.raises(UserInputError, match=f"`{flag}` does not go with `--reset`, which"):
        check("--reset", argument)
    check("--source=dev.en", "--reference=dev.de", argument)


def test_files_are_given_or_a_reset():
    check("--reset")
    with pytest.raises(UserInputError, match="must be given, or `--reset`"):
        check("--source=dev.en", "--json=scores.json")
