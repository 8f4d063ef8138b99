"""Files that a later call continues, under names that others can guess."""

import os
import stat
from pathlib import Path

from keras_transformer.errors import UserInputError


def open_own_file(path: Path, flags: int) -> int:
    """Open or make a regular file as `os.open` does, unless somebody else may have put it there.

    Links, special files, files of other users and files with a second name are refused.
    """
    if path.is_symlink():  # `O_NOFOLLOW` refuses it too, with a message that says little
        raise _not_ours(path)
    try:
        # Without blocking: it may be a pipe.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except IsADirectoryError as error:
        raise _not_ours(path) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise _not_ours(path)


def _not_ours(path: Path) -> UserInputError:
    return UserInputError(
        f"{path} must be a regular file of yours, with no other name and no link: it holds what "
        "was written so far. Remove it."
    )
