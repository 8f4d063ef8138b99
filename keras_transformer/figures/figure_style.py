"""One style for all figures, and the files that they become."""

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = "keras_transformer.figures.house"  # `house.mplstyle`, as matplotlib names it
DOTS_AN_INCH = 300  # of a PNG
_MOST_DOTS = 9000  # of its longer side: 300 MB while it is drawn


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """The context in which to make, and to write, a figure in the package's style.

    Raises:
        UserInputError: matplotlib, of the extra `plots`, is not installed.

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
    """A figure of some inches, to be made within `figure_style`.

    Args:
        width, height: in inches.
        **options: further arguments of `matplotlib.figure.Figure`, such as `layout`.
    """
    from matplotlib.figure import Figure  # without pyplot, which would keep every figure

    return Figure(figsize=(width, height), **options)


def figure_file(figure: "Figure", file_format: str) -> bytes:
    """The content of a figure's file.

    Args:
        figure: the figure.
        file_format: "svg" and "pdf", which are vectors, or "png" of 300 dots an inch; of fewer
            where a side would have more than 9,000.
    """
    dots = min(DOTS_AN_INCH, _MOST_DOTS / max(figure.get_size_inches()))
    content = io.BytesIO()
    with figure_style():
        figure.savefig(content, format=file_format, dpi=dots)
    return content.getvalue()
