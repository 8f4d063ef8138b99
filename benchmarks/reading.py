"""How many target tokens per second training can read from a prepared corpus."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.wmt_lengths import wmt_lengths
from keras_transformer.data import (
    BatchPlan,
    ParallelText,
    batch_stream,
    fit_batches,
    plan_batches,
    prepare_corpus,
)
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import run_command
from keras_transformer.types import SpecialTokens

VOCABULARY_SIZE = 32_000
# The paper's batch size, and one that suits two cores.
BATCH_TOKENS = (25_000, 4_096)
ROW = "{:>12}  {:<17}  {:>17}  {:>21}  {:>8}"


class InventedText(ParallelText):
    """Pairs with lengths from `wmt_lengths`.

    Only the lengths affect the speed, so sentences are replaced with numbers.
    """

    def __init__(self, pairs: int) -> None:
        super().__init__("invented pairs")
        self._pairs = pairs

    @property
    def num_pairs(self) -> int:
        """The number of pairs."""
        return self._pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        sources, targets = wmt_lengths(self._pairs)
        return zip(map(str, sources), map(str, targets), strict=True)

    def fingerprint(self) -> str:
        """Return a string that is different for each number of pairs."""
        return f"invented {self._pairs}"


class InventedTokenizer:
    """Converts a line that contains a number to that many random ids."""

    vocabulary_size = VOCABULARY_SIZE
    fingerprint = "invented"
    special_tokens = SpecialTokens()

    def __init__(self) -> None:
        self._generator = np.random.default_rng(2)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return random ids for each line."""
        return [self._generator.integers(4, VOCABULARY_SIZE, int(line)).tolist() for line in lines]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read invented text in two ways and print a table. `arguments` are command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--data-pairs", type=int, default=500_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    options = parser.parse_args(arguments)
    start_backend_quietly()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")
    with tempfile.TemporaryDirectory() as directory:
        tokenizer = InventedTokenizer()
        corpus = prepare_corpus(InventedText(options.data_pairs), tokenizer, directory)
        mean = len(corpus.target_ids) / len(corpus)
        print(f"{len(corpus):,} pairs, {mean:.1f} target tokens each\n")
        header = ("batch tokens", "read by", "target tokens/s", "per second of CPU time", "padding")
        print(ROW.format(*header))
        for batch_tokens in BATCH_TOKENS:
            reader = plan_batches(corpus, tokenizer.special_tokens, batch_tokens=batch_tokens)
            for name, read in (("fit_batches", fit_batches), ("the plain reader", batch_stream)):
                rates = measure(read(reader), reader.plan, options.seconds)
                figures = [f"{rate:,.0f}" for rate in rates]
                share = f"{reader.plan.padding_share:.1%}"
                print(ROW.format(f"{batch_tokens:,}", name, *figures, share), flush=True)


def measure(batches: Iterable[Any], plan: BatchPlan, seconds: float) -> tuple[float, float]:
    """Read batches and measure the speed.

    Args:
        batches: batches of the plan, starting at step 0.
        plan: the plan of the batches.
        seconds: duration, excluding the first batch, which includes the startup time.

    Returns:
        Target tokens per second, and per second of CPU time. On a busy machine, the second number
        approximates the speed on an idle machine.
    """
    batches = iter(batches)
    next(batches)
    step, started, cpu_started = 1, time.perf_counter(), time.process_time()
    while step == 1 or time.perf_counter() - started < seconds:
        next(batches)
        step += 1
    elapsed, cpu_elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    tokens = sum(map(plan.target_tokens, range(1, step)))
    return tokens / elapsed, tokens / cpu_elapsed


if __name__ == "__main__":
    sys.exit(run_command(main))
