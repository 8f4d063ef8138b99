"""BLEU and chrF of this package and JoeyNMT after the same training time."""

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.joeynmt.peer_settings import PeerSettings
from benchmarks.peers.machine import ROOT
from keras_transformer.argument_checks import number_from_zero, positive_int, positive_number
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell, write_json
from keras_transformer.installation import start_backend_quietly
from keras_transformer.settings import read_settings_file
from keras_transformer.toolkit.cli.program import CommandParser, run_command

if TYPE_CHECKING:
    from benchmarks.joeynmt.measurement import Measurement

PYTHON = ROOT / ".venv-joeynmt" / "bin" / "python"
SETTINGS = ROOT / "recipes" / "translate_text" / "one_hour.toml"
SIZES = (  # JoeyNMT's config.yaml uses the same sizes
    "preset",
    "num_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "key_dim",
    "value_dim",
)
ALPHAS = (0.0, 0.6, 1.0, 1.4)  # JoeyNMT cannot evaluate several values in one pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, score and print a table. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    minutes = sorted(set(options.measure_at or [options.minutes]))
    if minutes[-1] > options.minutes:
        raise UserInputError(
            f"--measure-at must be at most --minutes, {options.minutes:g}. "
            f"Received: {minutes[-1]:g}"
        )
    python = None if options.only == "ours" else shutil.which(options.python)
    if python is None and options.only != "ours":
        raise UserInputError(
            f"JoeyNMT's Python is missing: {options.python}. Create an environment with `make "
            ".venv-joeynmt/installed`, name another one with --python, or use --only ours"
        )
    start_backend_quietly()
    from benchmarks.joeynmt import report  # imports Keras

    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "-m", "benchmarks.joeynmt", *given])
    found = []
    for one in _measurements(options, python, minutes):
        found.append(one)
        tell(f"{one.program}, {one.minutes:g} minutes: {one.bleu:.2f} BLEU, {one.chrf:.2f} chrF")
        name = "comparison" if options.only is None else options.only
        write_json(
            options.work / f"{name}.json",
            report.record(found, command, options.threads, options.beam_size),
        )
    print("\n".join(report.lines(found)))
    print(f"\nOn dev, beam {options.beam_size}, {found[0].bleu_signature}.")
    for one in found:
        print("\n".join([f"\n{one.program}, {one.minutes:g} minutes:", *one.commands]))


def _measurements(
    options: argparse.Namespace, python: str | None, minutes: Sequence[float]
) -> "Iterator[Measurement]":
    """Yield the result of each program. Existing results are reused."""
    from benchmarks.joeynmt.ours import Ours
    from benchmarks.joeynmt.peer import Peer
    from benchmarks.joeynmt.prepare import prepare_text
    from keras_transformer.translation_training import TranslationSettings

    settings, usual = (
        TranslationSettings.from_dict(read_settings_file(path))
        for path in (options.settings, SETTINGS)
    )
    for name in SIZES:
        size, expected = getattr(settings, name), getattr(usual, name)
        if size != expected:
            raise UserInputError(
                f"`{name}` must be that of {SETTINGS.name} in --settings, because JoeyNMT's model "
                f"uses the same sizes: {expected!r}. Received: {size!r}"
            )
    work = options.work.absolute()  # the programs run in the project's folder
    text = prepare_text(options.data, work / "text", settings, options.pairs)
    if python is not None:
        peer = Peer(
            python,
            work / "joeynmt",
            text,
            PeerSettings(**{name: getattr(options, name) for name in vars(PeerSettings())}),
            settings.max_tokens,
            options.threads,
        )
        peer.train(options.minutes)
        for number in minutes:
            yield peer.measure(number, options.beam_size, options.alphas)
    if options.only != "joeynmt":
        ours = Ours(work / "ours", text, options.settings.absolute(), options.threads)
        for number in minutes:
            yield ours.measure(number, options.beam_size)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.joeynmt", description=__doc__)
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with train.en, train.de, dev.en and dev.de, plain or .gz",
    )
    add(
        "--work",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for all outputs; finished training runs are reused",
    )
    add("--minutes", type=positive_number, default=60.0, metavar="M", help="default: 60")
    add(
        "--measure-at",
        type=positive_number,
        nargs="+",
        metavar="M",
        help="training times to score, in minutes (default: the value of --minutes)",
    )
    add("--only", choices=("joeynmt", "ours"), help="run only one of the programs (default: both)")
    add(
        "--python",
        default=str(PYTHON),
        metavar="FILE",
        help="Python executable of JoeyNMT's environment (default: .venv-joeynmt/bin/python)",
    )
    add(
        "--settings",
        type=Path,
        default=SETTINGS,
        metavar="FILE",
        help="settings file for this package (default: one_hour.toml)",
    )
    add("--threads", type=positive_int, default=2, metavar="N", help="default: 2")
    add("--beam-size", type=positive_int, default=5, metavar="N", help="default: 5")
    add(
        "--pairs",
        type=positive_int,
        metavar="N",
        help="train only on the first N pairs, for a trial",
    )
    _add_peer_flags(parser)
    return parser


def _add_peer_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for JoeyNMT's settings, which can be tuned on the dev text beforehand."""
    default = PeerSettings()
    group = parser.add_argument_group("JoeyNMT's settings")

    def add(flag: str, value_type: Callable[[str], float], text: str) -> None:
        value = getattr(default, flag)
        name = f"--{flag.replace('_', '-')}"
        group.add_argument(
            name, type=value_type, default=value, metavar="N", help=f"{text} (default: {value:g})"
        )

    add("learning_rate", positive_number, "peak learning rate")
    add("warmup_steps", positive_int, "number of updates with an increasing learning rate")
    add("batch_tokens", positive_int, "tokens on the longer side of a batch, including padding")
    add("label_smoothing", number_from_zero, "probability moved from the correct token to others")
    add("dropout", number_from_zero, "dropout rate for sublayers, embeddings and attention")
    add("num_layers", positive_int, "number of layers in the encoder and in the decoder")
    add("seed", positive_int, "random seed for weights and batch order")
    add("validate_every", positive_int, "number of updates between checkpoints")
    add("dev_sentences", positive_int, "number of sentences per validation during training")
    group.add_argument(
        "--alphas",
        type=number_from_zero,
        nargs="+",
        default=list(ALPHAS),
        metavar="A",
        help="exponents of the length penalty to try on dev (default: 0 0.6 1 1.4)",
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
