"""Files of figures: their formats, and the library that draws them."""

import importlib.util
import pathlib
from collections.abc import Sequence

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

FIGURES = (".png", ".pdf", ".svg")


def check_figure(path: str, flag: str, others: Sequence[str] = ()) -> str:
    """Return the ending of the file that a flag names, in lower case.

    Args:
        path: the file.
        flag: the flag, such as `"--plot"`.
        others: endings that the flag takes besides those of figures.

    Raises:
        UserInputError: the flag does not take the ending; or it is a figure's, and matplotlib, of
            the extra `plots`, is not installed.
    """
    ending = pathlib.Path(path).suffix.lower()
    if ending not in (*others, *FIGURES):
        raise UserInputError(
            f"`{flag}` must end in one of {', '.join((*others, *FIGURES))}. Received: {flag} {path}"
        )
    if ending in FIGURES and importlib.util.find_spec("matplotlib") is None:
        raise UserInputError(f"A figure needs matplotlib: {pip_install('plots')}")
    return ending
