"""What a command prints that refuses its command line or its files."""


def refusal(ended):
    """The one line on stderr of a refused command, from its (exit code, stdout, stderr)."""
    code, out, err = ended
    err = err.decode() if isinstance(err, bytes) else err
    assert (code, len(out), err.count("\n")) == (2, 0, 1), err
    return err
