"""What a server says, as a line that a terminal can show."""

from keras_transformer.toolkit.serving.connection import MESSAGE_LENGTH, one_line


def test_bytes_of_another_protocol_are_no_control_characters():
    assert one_line("\x00\x04\x1b[31mü\ufffd") == "\ufffd\ufffd\ufffd[31mü\ufffd"


def test_a_long_message_is_cut():
    assert one_line("x" * 10 * MESSAGE_LENGTH) == "x" * MESSAGE_LENGTH + "..."
