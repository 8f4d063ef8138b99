"""The rows of the comparison: the workloads, which are the same for all engines."""

import dataclasses
from typing import Any, Literal

Task = Literal["search", "training"]
Corpus = Literal["random", "multi30k"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A workload for engines.

    In decoding, each output has a forced number of tokens, followed by the end of the sentence.

    Args:
        name: name in tables and files.
        task: "search" or "training".
        preset: sizes of the model, a name in `keras_transformer.models.PRESETS`.
        vocabulary_size: number of tokens, shared by both sides.
        batch_size: sentences per batch.
        length: in decoding, the source positions of a random sentence, including EOS, and its
            output tokens; in training, the positions of each side.
        beam_size: number of hypotheses; 1 is greedy search.
        corpus: "random": a batch of random sentences of equal length; "multi30k": real sentences of
            mixed lengths, whose outputs are forced to the length of the real translation.
        sentences: number of sentences of "multi30k", which are batched by length.
        repeats: number of repetitions in decoding, or of updates in training, timed together.

    Engines that can decode several batches at the same time, with one thread each, do so.
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
        """The unit of the speed."""
        return "sentences/s" if self.task == "search" else "target tokens/s"

    @property
    def num_sentences(self) -> int:
        """The number of sentences in decoding."""
        return self.batch_size if self.corpus == "random" else self.sentences

    @property
    def num_batches(self) -> int:
        """The number of batches that are timed together in decoding."""
        return self.repeats * -(-self.num_sentences // self.batch_size)

    @property
    def units(self) -> int:
        """The number of sentences or target tokens that are timed together."""
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


# Rows for a GPU, compared with Hugging Face: large batches of a base model.
GPU_ROWS = (
    Row(name="beam4-base-128x32", batch_size=128),
    Row(name="greedy-base-128x32", batch_size=128, beam_size=1),
    next(row for row in ROWS if row.name == "beam4-base-32x32"),
)


def growth_rows() -> tuple[Row, ...]:
    """Decoding rows that vary the length, the batch size or the beam size of a central row."""
    middle: dict[str, int] = {"beam_size": 4, "batch_size": 8, "length": 32}
    points = [{"length": length} for length in (16, 32, 64, 128)]
    points += [{"batch_size": batch_size} for batch_size in (1, 64)]
    points += [{"beam_size": beam_size} for beam_size in (1, 2, 8)]
    return tuple(_growth_row(**(middle | point)) for point in points)


def _growth_row(beam_size: int, batch_size: int, length: int) -> Row:
    name = f"growth-beam{beam_size}-{batch_size}x{length}"
    return Row(name=name, beam_size=beam_size, batch_size=batch_size, length=length)
