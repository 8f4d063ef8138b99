"""One style for all figures, and the files to write them to."""

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = "keras_transformer.figures.house"  # matplotlib's name for `house.mplstyle`
DOTS_AN_INCH = 300  # in a PNG
_MOST_DOTS = 9000  # on the longer side: 300 MB while it is drawn


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """A context in which figures are made and written in the package's style.

    Raises:
        UserInputError: matplotlib, from the extra `plots`, is not installed.

    Example:
        >>> with figure_style():
        ...     new_figure(4, 3).subplots().spines["top"].get_visible()
        False
    """
    try:
        import matplotlib.figure
        import matplotlib.style
    except ImportError as error:
        raise UserInputError(f"A figure needs matplotlib: {pip_install('plots')}") from error
    with matplotlib.style.context(_STYLE):
        yield


def new_figure(width: float, height: float, **options: Any) -> "Figure":
    """A figure of the given size, to be made within `figure_style`.

    Args:
        width, height: the size in inches.
        **options: other arguments of `matplotlib.figure.Figure`, such as `layout`.
    """
    from matplotlib.figure import Figure  # without pyplot, which would keep every figure

    return Figure(figsize=(width, height), **options)


def figure_file(figure: "Figure", file_format: str) -> bytes:
    """The content of a figure as a file.

    Args:
        figure: the figure.
        file_format: "svg" or "pdf" for vector graphics, or "png" with 300 dots per inch, or fewer
            if a side would have more than 9,000 dots.
    """
    dots = min(DOTS_AN_INCH, _MOST_DOTS / max(figure.get_size_inches()))
    content = io.BytesIO()
    with figure_style():
        figure.savefig(content, format=file_format, dpi=dots)
    return content.getvalue()
