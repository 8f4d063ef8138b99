"""Lines in and lines out, as they arrive."""

import codecs

from keras_transformer.errors import UserInputError

READ_BYTES = 1 << 16


def chunks_of_lines(stream):
    """Yield lists of the lines that have arrived.

    A chunk is what one read gives: a file comes in large pieces, which batch well, and a line typed
    by hand or by a waiting program is answered at once.

    Args:
        stream: a buffered binary stream of UTF-8 text, such as `sys.stdin.buffer`.

    Raises:
        UserInputError: a line is not UTF-8; the lines before it have been yielded.
    """
    number, pieces = 0, []
    while data := stream.read1(READ_BYTES):
        pieces.append(data)
        if b"\n" in data:  # a line may be longer than many pieces
            *complete, rest = b"".join(pieces).split(b"\n")
            pieces = [rest]
            yield from _decoded(complete, number)
            number += len(complete)
    if rest := b"".join(pieces):
        yield from _decoded([rest], number)


def write_lines(stream, lines):
    """Write lines to a binary stream, such as `sys.stdout.buffer`, and send them on at once."""
    stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    stream.flush()


def one_line(text):
    """The text without line breaks, which a model with byte pieces can produce.

    Example:
        >>> one_line("two\\nlines")
        'two lines'
    """
    return text.replace("\n", " ").replace("\r", " ")


def _decoded(lines, lines_before):
    """Yield the lines as one list of strings; at a broken line, those before it, and raise."""
    decoded = []
    if lines and not lines_before:
        lines = [lines[0].removeprefix(codecs.BOM_UTF8), *lines[1:]]
    for line in lines:
        try:
            decoded.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            if decoded:
                yield decoded
            number = lines_before + len(decoded) + 1
            raise UserInputError(
                f"Line {number} of standard input is not valid UTF-8 at byte {error.start + 1}"
            ) from error
    if decoded:
        yield decoded
