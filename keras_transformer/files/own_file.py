"""Files under names that others can guess, because a later call goes on with them."""

import os
import stat

from keras_transformer.errors import UserInputError


def open_own_file(path, flags):
    """Open or make a regular file of our own, as `os.open`: nothing that somebody else put there.

    Links, special files, files of other users and files with a second name are refused.
    """
    if path.is_symlink():  # `O_NOFOLLOW` refuses it too, with a message that says little
        raise _not_ours(path)
    try:
        # Without waiting: a pipe may be there.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except IsADirectoryError as error:
        raise _not_ours(path) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise _not_ours(path)


def _not_ours(path):
    return UserInputError(
        f"{path} must be a regular file of yours, with no other name and no link: it holds what "
        "was written so far. Remove it."
    )
