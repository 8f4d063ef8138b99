"""Exchange models with Marian: import its model, fine-tune and export it, and check the export.

All outputs are written to `--work`, and existing outputs are reused.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.marian.program import INSTALL, PYTHON, costs, marian, scores, translations
from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command

SIZES = {
    "dim_vocabs": [1000, 1000],
    "dim_emb": 64,
    "transformer_dim_ffn": 256,
    "transformer_heads": 4,
    "enc_depth": 2,
    "dec_depth": 2,
}
TRAINING = {
    "mini_batch": 64,
    "learn_rate": 0.003,
    "lr_warmup": 200,
    "workspace": 1000,
}
BATCH = 256  # pairs in the batch for comparing losses
_SEARCH: dict[str, Any] = {"alpha": 1.0}  # other options are taken from the imported model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, import, fine-tune, export and compare. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    if not PYTHON.exists():
        raise UserInputError(f"Marian's environment is missing: {INSTALL}")
    start_backend_quietly()
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val", "test_2016_flickr"):
        for side in ("en", "de"):
            _unpack(options.data, f"{name}.{side}", work)
    marians = work / "marian"
    _train(work, marians, options.epochs)
    _compare("Marian's model", work, marians, _imported(work, marians))
    ours = _fine_tuned(work, options.steps)
    exported = _exported(work, ours)
    _compare("ours", work, exported, ours)
    _continue(work, exported, ours)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.marian", description=__doc__)
    add = parser.add_argument
    add("--data", required=True, type=Path, help="Multi30k folder with plain or .gz files")
    add("--work", required=True, type=Path, help="folder for all outputs")
    add("--epochs", default=4, type=positive_int, help="training epochs in Marian (default: 4)")
    add("--steps", default=100, type=positive_int, help="fine-tuning steps (default: 100)")
    return parser


def _unpack(data: Path, name: str, work: Path) -> None:
    from keras_transformer.data.parallel_text import find_text, read_text

    if not (work / name).exists():
        lines = read_text(find_text(data, name))
        (work / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _sides(work: Path, name: str) -> list[Path]:
    return [work / f"{name}.{side}" for side in ("en", "de")]


def _vocabularies(folder: Path) -> list[Path]:
    return [folder / "vocab.spm"] * 2


def _train(work: Path, folder: Path, epochs: int) -> None:
    if (folder / "model.npz").exists():
        return
    folder.mkdir()
    tell(f"Marian trains for {epochs} epochs")
    training = marian(
        "train",
        type="transformer",
        model=folder / "model.npz",
        train_sets=_sides(work, "train"),
        vocabs=_vocabularies(folder),
        tied_embeddings_all=True,
        after_epochs=epochs,
        seed=1,
        shuffle_in_ram=True,
        disp_freq=100,
        **SIZES,
        **TRAINING,
    )
    (folder / "train.log").write_text(training.stderr, "utf-8")


def _imported(work: Path, folder: Path) -> Any:
    from keras_transformer import Translator
    from keras_transformer.interop import import_marian_run

    run = work / "imported"
    if not run.exists():
        import_marian_run(folder, run)
    return Translator.load(run, **_SEARCH)


def _fine_tuned(work: Path, steps: int) -> Any:
    from keras_transformer import Translator
    from keras_transformer.toolkit import cli

    run = work / "fine_tuned"
    if not run.exists():
        source, target = map(str, _sides(work, "train"))
        command = ["train", "--from", str(work / "imported"), "--run", str(run)]
        command += ["--source", source, "--target", target, "--steps", str(steps)]
        command += ["--warmup-steps", str(max(1, steps // 2)), "--save-every", str(steps)]
        command += ["--learning-rate-scale", "0.1", "--batch-tokens", "2000", "--bleu-every", "0"]
        if cli.main([*command, "--no-tensorboard"]):
            raise UserInputError("Fine-tuning failed.")
    return Translator.load(run, **_SEARCH)


def _exported(work: Path, translator: Any) -> Path:
    from keras_transformer.export import export_marian

    folder = work / "exported"
    if not folder.exists():
        export_marian(translator, folder, native=True)
    return folder


def _compare(title: str, work: Path, folder: Path, translator: Any) -> None:
    """Print how many translations of the test set are identical, and how much the scores differ."""
    from sacrebleu import corpus_bleu

    source, target = _sides(work, "test_2016_flickr")
    sources, targets = (path.read_text("utf-8").splitlines() for path in (source, target))
    model, vocabularies = folder / "model.npz", _vocabularies(folder)
    for beam_size in (1, 4):
        theirs = translations([model], vocabularies, source, beam_size)
        found = translator.with_search(beam_size=beam_size).translate(sources)
        equal = sum(one == other for one, other in zip(found, theirs, strict=True))
        bleu = corpus_bleu(found, [targets]).score
        print(f"{title}, beam {beam_size}: {equal} of {len(found)} strings equal, BLEU {bleu:.2f}")
    outputs = work / "outputs"  # Marian's output for the last search
    outputs.write_text("".join(f"{line}\n" for line in theirs), "utf-8")
    for name, path, lines in (("references", target, targets), ("outputs", outputs, theirs)):
        expected = scores(model, vocabularies, source, path)
        difference = np.abs(np.subtract(translator.score(sources, lines), expected))
        print(f"{title}, log-probabilities of the {name}: within {difference.max():.2g}")


def _continue(work: Path, folder: Path, translator: Any) -> None:
    """Print a batch's loss in this package and in Marian, which then trains on the batch."""
    sides = []
    for path in _sides(work, "val"):
        lines = path.read_text("utf-8").splitlines()[:BATCH]
        (work / f"batch.{path.name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        sides.append(lines)
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.encode(sides[1]))
    ours = -sum(translator.score(*sides)) / tokens
    continued = work / "continued"
    if continued.exists():
        shutil.rmtree(continued)
    shutil.copytree(folder, continued)
    found = costs(
        marian(
            "train",
            model=continued / "model.npz",
            train_sets=[work / f"batch.{path.name}" for path in _sides(work, "val")],
            vocabs=_vocabularies(continued),
            mini_batch=BATCH,
            maxi_batch=1,
            max_length=1000,
            disp_freq=1,
            after_batches=10,
            learn_rate=0.0001,
            workspace=1000,
        )
    )
    print(f"loss of {BATCH} pairs: {ours:.6f} here; Marian, each update: ", end="")
    print(", ".join(f"{cost:.6f}" for cost in found))


if __name__ == "__main__":
    sys.exit(run_command(main))
