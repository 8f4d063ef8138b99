import pytest

from keras_transformer.cli.program import CommandParser
from keras_transformer.errors import UserInputError
from keras_transformer.translation_training.translation_data import add_text_arguments, text_of
from tests.translation_training.number_text import write_pairs


def texts(*arguments):
    parser = CommandParser(prog="train")
    add_text_arguments(parser)
    return text_of(parser.parse_args(arguments))


def test_files_of_every_part_with_weights(tmp_path):
    train = write_pairs(tmp_path, "train", length=2)
    more = write_pairs(tmp_path, "more", length=1)
    data = texts(
        *("--source", train[0], more[0], "--target", train[1], more[1]),
        *("--dev-source", more[0], "--dev-target", more[1]),
        *("--mix", *more, "2", "--mix", *train, "0.25"),
    )
    assert data.weights == [1.0, 2.0, 0.25]
    assert [len(list(text)) for text in data.train] == [30, 5, 25]
    assert next(iter(data.dev)) == ("one", "eins")
    assert data.test is None


@pytest.mark.parametrize("weight", ["0", "-1", "inf", "nan", "much"])
def test_a_weight_is_a_number_above_0(tmp_path, weight):
    train = write_pairs(tmp_path, "train")
    with pytest.raises(UserInputError, match=f"must be a number above 0. Received: {weight}"):
        texts("--source", train[0], "--target", train[1], "--mix", *train, weight)


def test_one_side_of_a_part_is_not_enough(tmp_path):
    train = write_pairs(tmp_path, "train")
    with pytest.raises(UserInputError, match="--test-target needs --test-source as well"):
        texts("--source", train[0], "--target", train[1], "--test-target", train[1])
