"""Overhead of a Ray cluster on this machine, compared with the same work without Ray."""

import argparse
import contextlib
import filecmp
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
import psutil

from keras_transformer.argument_checks import positive_int
from keras_transformer.toolkit.cli.program import run_command

WORDS = 50_000
REPEATED = 0.1  # share of pairs that repeat an earlier pair
MOST_TOKENS = 60
VOCABULARY_SIZE = 8000
SAMPLE_SECONDS = 0.2


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Run a measurement. `arguments` are command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    corpus = verbs.add_parser(
        "corpus", help="prepare a corpus with and without Ray; compare files, time and memory"
    )
    corpus.add_argument("--pairs", type=positive_int, default=2_000_000)
    corpus.set_defaults(verb=measure_corpus)
    lines = verbs.add_parser("lines", help="translate with and without Ray; compare lines and time")
    lines.add_argument("models", metavar="RUN", nargs="+")
    lines.add_argument("--input", type=pathlib.Path, required=True)
    lines.add_argument("--rounds", type=positive_int, default=3)
    lines.add_argument("--worker-cpus", type=positive_int, default=psutil.cpu_count() or 1)
    lines.set_defaults(verb=measure_lines)
    prepare = verbs.add_parser("prepare", help="prepare one corpus (run by `corpus`)")
    prepare.add_argument("folder", type=pathlib.Path)
    prepare.add_argument("output", type=pathlib.Path)
    prepare.add_argument("--ray", action="store_true")
    prepare.set_defaults(verb=prepare_one)
    options = parser.parse_args(arguments)
    return options.verb(options)


def measure_corpus(options: argparse.Namespace) -> int:
    """Prepare invented pairs with and without Ray. Return 1 if the files differ."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_text(folder, options.pairs)
        for way in ("one", "ray"):
            output = folder / way
            command = ["-m", "benchmarks.cluster", "prepare", str(folder), str(output)]
            seconds, memory = measured([*command, *(["--ray"] if way == "ray" else [])])
            print(f"{way}: {options.pairs:,} pairs in {seconds:.0f} s; memory by process:")
            for process, (resident, own) in sorted(memory.items(), key=lambda x: -x[1][1])[:8]:
                print(f"  {own / 1e6:6,.0f} MB, {resident / 1e6:,.0f} with shared  {process}")
        (one,), (ray,) = (
            [path for path in (folder / way).iterdir() if path.is_dir()] for way in ("one", "ray")
        )
        names = sorted(path.name for path in one.iterdir())
        equal, *_ = filecmp.cmpfiles(one, ray, names, shallow=False)
        same = one.name == ray.name and sorted(equal) == names == sorted(
            p.name for p in ray.iterdir()
        )
        size = sum((one / name).stat().st_size for name in names)
        print(f"{len(names)} files of {size / 1e6:,.0f} MB: {'equal' if same else 'DIFFERENT'}")
    return 0 if same else 1


def write_text(folder: pathlib.Path, pairs: int) -> None:
    """Write invented sentences with Zipf-distributed words to `text.en` and `text.de`."""
    generator = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    lengths = generator.integers(2, 10, WORDS)
    words = ["".join(generator.choice(letters, length)) for length in lengths]
    bounds = np.cumsum(1 / np.arange(1, WORDS + 1))
    bounds /= bounds[-1]
    with (folder / "text.en").open("w") as source, (folder / "text.de").open("w") as target:
        earlier: list[tuple[str, str]] = []
        for _ in range(pairs):
            if earlier and generator.random() < REPEATED:
                pair = earlier[generator.integers(len(earlier))]
            else:
                drawn = np.searchsorted(bounds, generator.random(generator.integers(3, 25)))
                line = [words[min(word, WORDS - 1)] for word in drawn]
                pair = " ".join(line), " ".join(word[::-1] for word in line)
                if len(earlier) < 100_000:
                    earlier.append(pair)
            source.write(pair[0] + "\n")
            target.write(pair[1] + "\n")


def prepare_one(options: argparse.Namespace) -> None:
    """Prepare the text from `write_text` with all filters."""
    from keras_transformer.data import PairFilters, ParallelFiles, prepare_corpus
    from keras_transformer.data.corpus_preparation import sift
    from keras_transformer.text import SentencePieceTokenizer, sample_lines
    from keras_transformer.toolkit.cluster import RaySifter

    text = ParallelFiles(options.folder / "text.en", options.folder / "text.de")
    lines = (line for pair in text for line in pair)
    tokenizer = SentencePieceTokenizer.train(
        sample_lines(lines, 100_000, 1), vocabulary_size=VOCABULARY_SIZE
    )
    filters = PairFilters(max_tokens=MOST_TOKENS, max_ratio=3, duplicates=True, copies=True)
    sifter = RaySifter() if options.ray else sift
    prepare_corpus(text, tokenizer, options.output, filters=filters, sift=sifter)


def measure_lines(options: argparse.Namespace) -> int:
    """Translate alternately with and without Ray. Return 1 if the lines differ."""
    program = ["-m", "keras_transformer", "translate", *options.models]
    program += ["--input", str(options.input)]
    ratios, same = [], True
    with tempfile.TemporaryDirectory() as name:
        for turn in range(options.rounds):
            plain, ray = pathlib.Path(name, f"{turn}.txt"), pathlib.Path(name, f"{turn}")
            cluster = ["--cluster", "--workers", "1", "--worker-cpus", str(options.worker_cpus)]
            seconds = timed([*program, "--output", str(plain)])
            on_ray = timed([*program, "--output", str(ray), *cluster])
            (answer,) = (path for path in ray.iterdir() if path.is_file())
            same &= filecmp.cmp(plain, answer, shallow=False)
            ratios.append(on_ray / seconds)
            print(f"{seconds:.1f} s, on Ray {on_ray:.1f} s: {ratios[-1]:.3f}", flush=True)
    print(f"median {statistics.median(ratios):.3f}, lines {'equal' if same else 'DIFFERENT'}")
    return 0 if same else 1


def timed(arguments: list[str]) -> float:
    """Run a Python program and return the time in seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True)
    return time.perf_counter() - began


def measured(arguments: list[str]) -> tuple[float, dict[str, tuple[int, int]]]:
    """Run a Python program. Return the time in seconds and the peak memory of each process.

    Memory use is in bytes, with and without memory shared with other processes.
    """
    most: dict[int, tuple[int, int]] = {}
    names: dict[int, str] = {}
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments]) as process:
        while process.poll() is None:
            for each in tree(psutil.Process(process.pid)):
                with contextlib.suppress(psutil.Error):
                    account = each.memory_info()
                    resident, own = most.get(each.pid, (0, 0))
                    most[each.pid] = (
                        max(resident, account.rss),
                        max(own, account.rss - account.shared),
                    )
                    title = " ".join(each.cmdline()).strip()
                    names[each.pid] = title if len(title) < 60 else f"...{title[-57:]}"
            time.sleep(SAMPLE_SECONDS)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, arguments)
    seconds = time.perf_counter() - began
    return seconds, {f"{pid} {names.get(pid, '')}": memory for pid, memory in most.items()}


def tree(process: psutil.Process) -> Iterator[psutil.Process]:
    """Yield a process and all its descendants."""
    with contextlib.suppress(psutil.Error):
        yield process
        yield from process.children(recursive=True)


if __name__ == "__main__":
    sys.exit(run_command(main))
