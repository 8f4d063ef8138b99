"""Word alignments in Pharaoh format, and the combination of both directions."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from keras_transformer.errors import UserInputError
from keras_transformer.text.text_lines import text_lines
from keras_transformer.types import PathLike

Parsed = TypeVar("Parsed")
Link = tuple[int, int]  # indices of a source word and of a target word, from 0
_PHARAOH = re.compile(r"(\d{1,9})-(\d{1,9})")
_NEIGHBORS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]


def pharaoh(links: Collection[Link]) -> str:
    """Return links in Pharaoh format, such as `"0-0 2-1"`."""
    return " ".join(f"{source}-{target}" for source, target in links)


def parse_pharaoh(line: str) -> list[Link]:
    """Return the links of a line in Pharaoh format.

    Raises:
        UserInputError: the line contains anything other than pairs such as `3-0`.
    """
    matches = [(_PHARAOH.fullmatch(text), text) for text in line.split()]
    for match, text in matches:
        if match is None:
            raise UserInputError(
                "An alignment must consist of pairs of word numbers, such as `0-0 2-1`. "
                f"Received: {text[:80]!r}"
            )
    return [(int(match[1]), int(match[2])) for match, _ in matches if match is not None]


def read_pharaoh(path: PathLike, parse: Callable[[str], Parsed]) -> Iterator[Parsed]:
    """Yield each line of a file, parsed by `parse_pharaoh` or by a function that calls it.

    Raises:
        UserInputError: the file is missing or contains anything else; the message names the line.
    """
    for number, line in enumerate(text_lines(path), start=1):
        try:
            yield parse(line)
        except UserInputError as error:
            raise UserInputError(f"{path}, line {number:,}: {error}") from error


def symmetrize(forward: Collection[Link], backward: Collection[Link]) -> list[Link]:
    """Combine the alignments of a pair in both directions with the heuristic "grow-diag".

    The result contains the links of both directions. Links of one direction are added as long as
    they touch a link of the result, also diagonally, and align a word that has no link yet.

    Args:
        forward: links from an aligner of sources with targets.
        backward: links from an aligner of the opposite direction, as `(source, target)`, too.

    Returns:
        The links in ascending order.

    Example:
        >>> symmetrize([(0, 0), (1, 1), (3, 5)], [(0, 0), (1, 1), (1, 2)])
        [(0, 0), (1, 1), (1, 2)]

    Reference: Koehn et al., "Edinburgh System Description for the 2005 IWSLT Speech Translation
        Evaluation", 2005.
    """
    union, found = {*forward, *backward}, {*forward} & {*backward}
    sources, targets = {source for source, _ in found}, {target for _, target in found}
    new = sorted(found)
    while new:
        source, target = new.pop(0)
        for down, right in _NEIGHBORS:
            link = (source + down, target + right)
            is_free = link[0] not in sources or link[1] not in targets
            if link in union and link not in found and is_free:
                found.add(link)
                sources.add(link[0])
                targets.add(link[1])
                new.append(link)
    return sorted(found)
