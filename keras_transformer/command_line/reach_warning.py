"""The warning of a server that other machines can reach."""

from keras_transformer.files.standard_streams import tell


def warn_of_reach(server: str) -> None:
    """Warn that others can reach a server, named by its address, and that nothing keeps them out.

    Example:
        >>> import contextlib, sys
        >>> with contextlib.redirect_stderr(sys.stdout):
        ...     warn_of_reach("port 8500")
        warning: others can reach port 8500: it has neither a password nor encryption.
    """
    tell(f"warning: others can reach {server}: it has neither a password nor encryption.")
