"""A run's translator and its exports, each as a function that translates sentences."""

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from keras_transformer.decoding.sentence_loop import length_penalty
from keras_transformer.evaluation import bleu, chrf
from keras_transformer.formats import ctranslate2, litert, saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.text.sentence_encoding import batches_by_length

CTRANSLATE2_COMPARED: tuple[ctranslate2.Precision, ...] = ("float32", "int8")
TIE = 1e-4  # scores this close count as equal, because rounding determines the ranking

Translate = Callable[[list[str]], list[str]]


@dataclasses.dataclass(frozen=True)
class System:
    """A translator or one of its exports.

    Args:
        runtime: name of the program that runs the model.
        precision: number format of the weights.
        search: description of the search; only systems with the same search are compared.
        path: file or directory that contains the weights; its size is measured.
        translate: function that translates a list of sentences.
        reference: translator to compare with; None for the reference itself.
    """

    runtime: str
    precision: str
    search: str
    path: Path
    translate: Translate
    reference: Translator | None = None


class Result(NamedTuple):
    """The measurements of a system."""

    system: System
    megabytes: float
    bleu: float
    chrf: float
    sentences: int
    equal: int  # translations that are identical to the reference's
    beyond_ties: int  # other translations with reference scores that differ by more than `TIE`
    sentences_per_second: float
    ratio: float  # speed relative to the reference


class Measurement:
    """Measures systems on a test set. A reference must precede the systems compared with it.

    Args:
        sources: sentences of the test set.
        references: reference translations.
        tokenize: sacrebleu tokenizer.
    """

    def __init__(self, sources: list[str], references: list[str], tokenize: str) -> None:
        self.sources, self.references, self.tokenize = sources, references, tokenize
        self.bleu_signature: str | None = None
        # Each search's reference: translations, and sentences per second.
        self._found: dict[str, tuple[list[str], float]] = {}

    def of(self, system: System) -> Result:
        """Measure a system."""
        system.translate(self.sources[:64])  # compiles the function and allocates memory
        start = time.perf_counter()
        found = system.translate(self.sources)
        speed = len(found) / (time.perf_counter() - start)
        if system.reference is None:
            self._found[system.search] = found, speed
        expected, expected_speed = self._found[system.search]
        score, self.bleu_signature = bleu(found, self.references, self.tokenize)
        different = [i for i, text in enumerate(found) if text != expected[i]]
        return Result(
            system=system,
            megabytes=size(system.path) / 1e6,
            bleu=score,
            chrf=chrf(found, self.references)[0],
            sentences=len(found),
            equal=len(found) - len(different),
            beyond_ties=self._beyond_ties(system.reference, different, found, expected),
            sentences_per_second=speed,
            ratio=speed / expected_speed,
        )

    def _beyond_ties(
        self,
        translator: Translator | None,
        different: Sequence[int],
        found: Sequence[str],
        expected: Sequence[str],
    ) -> int:
        if translator is None or not different:
            return 0
        sources = [self.sources[i] for i in different]
        scores = [
            _scores(translator, sources, [texts[i] for i in different])
            for texts in (found, expected)
        ]
        return sum(abs(score - other) > TIE for score, other in zip(*scores, strict=True))


def size(path: Path) -> int:
    """Return the size in bytes of a file, or of all files in a directory."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def systems(options: argparse.Namespace, directory: Path) -> Iterator[System]:
    """Yield every system of a run, references first. Exports are written to `directory`.

    Args:
        options: the parsed command line of `benchmarks.exports`.
        directory: an existing directory.
    """
    from keras_transformer import export

    searches = {
        f"beam {options.beam_size}, {options.alpha:g}": (options.beam_size, options.alpha),
        "beam 4, 0": (4, 0.0),
        "greedy": (1, 0.0),
    }
    translators = {}
    for search, (beam_size, alpha) in searches.items():
        translator = Translator.load(
            options.run, beam_size=beam_size, alpha=alpha, batch_size=options.batch_size
        )
        translators[search] = translator
        ((_, weights),) = translator.origins
        yield System("Keras", "float32", search, weights, translator.translate)
    search, translator = next(iter(translators.items()))
    for precision in get_args(saved_model.Precision):
        path = export.export_saved_model(
            translator, directory / f"saved_model_{precision}", precision=precision
        )
        translate = saved_model_translate(path, options)
        yield System("SavedModel", precision, search, path, translate, translator)
    for stored in get_args(litert.Precision):
        path = export.export_litert(translator, directory / f"litert_{stored}", precision=stored)
        translate = litert_translate(path, options)
        yield System("LiteRT", stored, search, path, translate, translator)
    for computed in CTRANSLATE2_COMPARED:
        path = export.export_ctranslate2(
            translator, directory / f"ctranslate2_{computed}", precision=computed
        )
        for search in list(searches)[1:]:
            translate = ctranslate2_translate(path, searches[search][0], translator, options)
            reference = translators[search]
            yield System("CTranslate2", computed, search, path, translate, reference)


def saved_model_translate(path: Path, options: argparse.Namespace) -> Translate:
    """Return a function that translates strings with a SavedModel, batched by length."""
    import tensorflow as tf

    signature = tf.saved_model.load(path).signatures["translate"]

    def translate(sentences):
        texts = [""] * len(sentences)
        lengths = [len(sentence) for sentence in sentences]
        for indices in batches_by_length(range(len(sentences)), lengths, options.batch_size):
            outputs = signature(inputs=tf.constant([sentences[i] for i in indices]))["outputs"]
            for i, text in zip(indices, outputs.numpy(), strict=True):
                texts[i] = text.decode("utf-8")
        return texts

    return translate


def litert_translate(path: Path, options: argparse.Namespace) -> Translate:
    """Return `LiteRTTranslator.translate` for an export."""
    from keras_transformer.serving import LiteRTTranslator

    return LiteRTTranslator(path, num_threads=options.threads).translate


def ctranslate2_translate(
    path: Path, beam_size: int, translator: Translator, options: argparse.Namespace
) -> Translate:
    """Return a function that translates strings with CTranslate2, without a length penalty."""
    import ctranslate2
    import sentencepiece

    engine = ctranslate2.Translator(str(path), intra_threads=options.threads)
    source = translator.source_tokenizer
    target = sentencepiece.SentencePieceProcessor(model_proto=translator.tokenizer.model_bytes)

    def translate(sentences):
        pieces = [source.pieces(ids) for ids in source.encode(sentences)]
        results = engine.translate_batch(
            pieces, beam_size=beam_size, length_penalty=0, max_batch_size=options.batch_size
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    return translate


def _scores(translator: Translator, sources: list[str], targets: list[str]) -> list[float]:
    """Score given translations with the length penalty."""
    lengths = [len(ids) + 1 for ids in translator.tokenizer.encode(targets)]
    log_probs = translator.score(sources, targets)
    return [
        log_prob / length_penalty(length, translator.alpha)
        for log_prob, length in zip(log_probs, lengths, strict=True)
    ]
