"""How fast `Translator` is beside CTranslate2.

A student beside its teacher, both in int8:

    python -m benchmarks.translator_speed en_de TEACHER_EXPORT --text FILE --cores 2 --rounds 5

The same model with the same beam size and alpha in float32:

    python -m benchmarks.translator_speed PRESET EXPORT --text FILE --cores 2 --rounds 5 \\
        --precision float32 --options '{"beam_size": 4, "alpha": 0.6}' \\
        --peer-options '{"beam_size": 4, "length_penalty": 0.6}'

The two programs take turns, each in a process of its own on the given number of cores, with one
thread per operation or batch. Each translates sentences one at a time and then the whole text, a
line per sentence.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_SINGLE, WARM_UP = 200, 256  # sentences
NAMES = {"single": "one at a time", "whole": "the whole text"}

Translate = Callable[[list[str]], list[str]]


def own(args: argparse.Namespace) -> tuple[Translate, Translate]:
    """Return functions that translate one sentence and the whole text."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
    from keras_transformer import Translator

    options: dict[str, Any] = {"precision": args.precision, **args.options}
    translator = Translator.from_preset(args.preset, **options)
    return translator.translate, translator.translate


def peer(args: argparse.Namespace) -> tuple[Translate, Translate]:
    """As `own`, with CTranslate2."""
    import ctranslate2
    import sentencepiece

    model_file = str(Path(args.export) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=model_file)
    options = {"beam_size": 4, "max_batch_size": 1024, "batch_type": "tokens", **args.peer_options}

    def translate_with(at_once: int) -> Translate:
        engine = ctranslate2.Translator(
            args.export, compute_type=args.precision, inter_threads=at_once, intra_threads=1
        )

        def translate(texts: list[str]) -> list[str]:
            results = engine.translate_batch(processor.encode(texts, out_type=str), **options)
            return [processor.decode(each.hypotheses[0]) for each in results]

        return translate

    return translate_with(1), translate_with(args.cores)


KINDS = {"own": own, "peer": peer}


def measure(kind: str, args: argparse.Namespace) -> dict[str, float]:
    """Return sentences per second by the keys of `NAMES`, on the first `args.cores` cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    translate_one, translate_all = KINDS[kind](args)
    lines = args.text.read_text(encoding="utf-8").splitlines()
    single = lines[:: max(1, len(lines) // MOST_SINGLE)][:MOST_SINGLE]
    for line in single[:10]:
        translate_one([line])
    translate_all(lines[:WARM_UP])

    start = time.perf_counter()
    for line in single:
        translate_one([line])
    middle = time.perf_counter()
    translate_all(lines)
    end = time.perf_counter()
    return {"single": len(single) / (middle - start), "whole": len(lines) / (end - middle)}


def main() -> None:
    """Measure in turns and print the medians and the ratio of each round."""
    parser = argparse.ArgumentParser(description="Compare a translator with CTranslate2.")
    parser.add_argument("preset", help="name or path of a preset")
    parser.add_argument("export", help="export in CTranslate2's format")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=["int8", "float32"], default="int8")
    parser.add_argument("--options", type=json.loads, default={}, help="of `Translator`, JSON")
    parser.add_argument(
        "--peer-options", type=json.loads, default={}, help="of CTranslate2's translate_batch, JSON"
    )
    parser.add_argument("--only", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args)))
        return

    speeds: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind, found in speeds.items():
            command = [sys.executable, "-m", "benchmarks.translator_speed", *sys.argv[1:]]
            done = subprocess.run([*command, "--only", kind], stdout=subprocess.PIPE, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    for key, name in NAMES.items():
        own_speeds, peer_speeds = ([one[key] for one in found] for found in speeds.values())
        ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(own_speeds, peer_speeds, strict=True))
        first, second = statistics.median(own_speeds), statistics.median(peer_speeds)
        print(
            f"{name}, {args.cores} cores: {first:.0f} and {second:.0f} sentences/s, "
            f"ratio {first / second:.2f} (by round: {ratios})",
            flush=True,
        )


if __name__ == "__main__":
    main()
