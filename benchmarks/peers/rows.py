"""The rows of the comparison: workloads that are the same for all engines."""

import dataclasses
from typing import Any, Literal

Task = Literal["search", "training"]
Corpus = Literal["random", "multi30k"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A workload for engines.

    In decoding, the number of tokens in each output is forced, not counting EOS.

    Args:
        name: name in tables and files.
        task: "search" or "training".
        preset: model size, a name in `keras_transformer.models.PRESETS`.
        vocabulary_size: number of tokens in the shared vocabulary.
        batch_size: sentences per batch.
        length: in decoding, the number of source positions in a random sentence, including EOS,
            and of output tokens; in training, the number of positions on each side.
        beam_size: number of hypotheses; 1 for greedy search.
        corpus: "random" for a batch of random sentences of equal length, or "multi30k" for real
            sentences of mixed lengths, with outputs forced to the length of the real translation.
        sentences: number of sentences from "multi30k", which are batched by length.
        repeats: number of decoding repetitions or training updates that are timed together.

    Engines decode several batches in parallel, with one thread each, if they can.
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
        """The unit of speed."""
        return "sentences/s" if self.task == "search" else "target tokens/s"

    @property
    def num_sentences(self) -> int:
        """The number of sentences to decode."""
        return self.batch_size if self.corpus == "random" else self.sentences

    @property
    def num_batches(self) -> int:
        """The number of decoding batches that are timed together."""
        return self.repeats * -(-self.num_sentences // self.batch_size)

    @property
    def units(self) -> int:
        """The number of sentences or target tokens that are timed together."""
        if self.task == "search":
            return self.repeats * self.num_sentences
        return self.repeats * self.batch_size * self.length


def _mixed(name: str, beam_size: int) -> Row:
    """Return a Multi30k row with the size of the published model."""
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


# Rows for comparing large batches of a base model with Hugging Face on a GPU.
GPU_ROWS = (
    Row(name="beam4-base-128x32", batch_size=128),
    Row(name="greedy-base-128x32", batch_size=128, beam_size=1),
    next(row for row in ROWS if row.name == "beam4-base-32x32"),
)


def growth_rows() -> tuple[Row, ...]:
    """Return decoding rows that vary the length, batch size or beam size of a central row."""
    middle: dict[str, int] = {"beam_size": 4, "batch_size": 8, "length": 32}
    points = [{"length": length} for length in (16, 32, 64, 128)]
    points += [{"batch_size": batch_size} for batch_size in (1, 64)]
    points += [{"beam_size": beam_size} for beam_size in (1, 2, 8)]
    return tuple(_growth_row(**(middle | point)) for point in points)


def _growth_row(beam_size: int, batch_size: int, length: int) -> Row:
    name = f"growth-beam{beam_size}-{batch_size}x{length}"
    return Row(name=name, beam_size=beam_size, batch_size=batch_size, length=length)
