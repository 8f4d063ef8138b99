"""What errors must say."""


def is_one_line(error, *parts):
    """Whether the message of a caught exception is one line that has some parts."""
    text = str(error.value)
    return len(text.splitlines()) == 1 and text.isprintable() and all(map(text.__contains__, parts))


def chain_text(error):
    """The texts of a caught exception and of all that led to it."""
    texts, one = [], error.value
    while one is not None:
        texts += [str(one), repr(one)]
        one = one.__cause__ or one.__context__
    return " ".join(texts)
