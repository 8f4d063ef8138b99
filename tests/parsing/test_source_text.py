"""What a model reads is the same for a treebank's words and for a user's."""

from keras_transformer.parsing import source_text


def test_brackets_are_named_as_in_the_treebank():
    words = ["(", ")", "[", "]", "{", "}", "f(x)", "dog"]
    assert source_text(words) == "-LRB- -RRB- -LSB- -RSB- -LCB- -RCB- f-LRB-x-RRB- dog"


def test_the_treebank_s_backslashes_are_left_out():
    assert source_text(["1\\/2", "S&P\\*", "a\\b"]) == source_text(["1/2", "S&P*", "a\\b"])


def test_each_word_stays_one_word():
    words = ["a\N{LOWER ONE EIGHTH BLOCK}b", "\N{LOWER ONE EIGHTH BLOCK}", "1\u00a0000"]
    assert source_text(words) == "a_b _ 1\u00a0000"
    assert source_text([]) == ""
