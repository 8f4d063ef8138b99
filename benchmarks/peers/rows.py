"""The rows of the comparison: the work that all engines do alike."""

import dataclasses
from typing import Any, Literal

Task = Literal["search", "training"]
Corpus = Literal["random", "multi30k"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """Work for engines.

    Each output of a search has a forced number of tokens, and the end of the sentence after them.

    Args:
        name: name in tables and files.
        task: "search" or "training".
        preset: sizes of the model, a name in `keras_transformer.models.PRESETS`.
        vocabulary_size: number of tokens, shared by both sides.
        batch_size: sentences of a batch.
        length: source positions of a random sentence, EOS counted, and its output tokens; of a
            training, positions of each side.
        beam_size: hypotheses of a search; 1 is greedy search.
        corpus: "random": a batch of random sentences of equal length; "multi30k": real sentences of
            mixed lengths, each with the length of its real translation forced on its output.
        sentences: number of sentences of "multi30k", searched in batches of similar lengths.
        repeats: times that a search is repeated, or weight updates of a training, timed together.

    Engines that can run several batches of a search at once, each with one thread, do so.
    """

    name: str
    task: Task = "search"
    preset: str = "base"
    vocabulary_size: int = 32_000
    batch_size: int = 32
    length: int = 32
    beam_size: int = 4
    corpus: Corpus = "random"
    sentences: int = 512
    repeats: int = 1

    @property
    def unit(self) -> str:
        """What the speed counts."""
        return "sentences/s" if self.task == "search" else "target tokens/s"

    @property
    def num_sentences(self) -> int:
        """Sentences of a search."""
        return self.batch_size if self.corpus == "random" else self.sentences

    @property
    def num_batches(self) -> int:
        """Batches of a search that are timed together."""
        return self.repeats * -(-self.num_sentences // self.batch_size)

    @property
    def units(self) -> int:
        """Sentences of a search, or target tokens of a training, that are timed together."""
        if self.task == "search":
            return self.repeats * self.num_sentences
        return self.repeats * self.batch_size * self.length


def _mixed(name: str, beam_size: int) -> Row:
    """Multi30k with the published model's size."""
    sizes: dict[str, Any] = {"preset": "tiny", "vocabulary_size": 10_000}
    return Row(name=name, beam_size=beam_size, corpus="multi30k", **sizes)


ROWS = (
    Row(name="beam4-tiny-32x16", preset="tiny", vocabulary_size=10_000, length=16, repeats=4),
    Row(name="beam4-base-32x32"),
    Row(name="greedy-base-32x32", beam_size=1),
    Row(name="beam4-base-1x32", batch_size=1),
    _mixed("beam4-multi30k-mixed", 4),
    _mixed("greedy-multi30k-mixed", 1),
    Row(name="train-base-64x32", task="training", batch_size=64, repeats=2),
    Row(
        name="train-tiny-256x16",
        task="training",
        preset="tiny",
        vocabulary_size=8000,
        batch_size=256,
        length=16,
        repeats=4,
    ),
)


# What a GPU is measured with, beside Hugging Face: large batches of a base model.
GPU_ROWS = (
    Row(name="beam4-base-128x32", batch_size=128),
    Row(name="greedy-base-128x32", batch_size=128, beam_size=1),
    next(row for row in ROWS if row.name == "beam4-base-32x32"),
)


def growth_rows() -> tuple[Row, ...]:
    """Searches that differ from one in the middle in their length, their batch or their beam."""
    middle: dict[str, int] = {"beam_size": 4, "batch_size": 8, "length": 32}
    points = [{"length": length} for length in (16, 32, 64, 128)]
    points += [{"batch_size": batch_size} for batch_size in (1, 64)]
    points += [{"beam_size": beam_size} for beam_size in (1, 2, 8)]
    return tuple(_growth_row(**(middle | point)) for point in points)


def _growth_row(beam_size: int, batch_size: int, length: int) -> Row:
    name = f"growth-beam{beam_size}-{batch_size}x{length}"
    return Row(name=name, beam_size=beam_size, batch_size=batch_size, length=length)
