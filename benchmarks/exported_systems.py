"""A run's translator and its exports, each as something that translates a list of sentences."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keras_transformer.decoding.length_penalty import length_penalty
from keras_transformer.evaluation import bleu, chrf
from keras_transformer.inference.translator import Translator
from keras_transformer.text.sentence_batches import batches_by_length

TIE = 1e-4  # scores this close are equal: rounding decides which translation comes first


@dataclasses.dataclass(frozen=True)
class System:
    """Something that translates.

    Args:
        runtime: what runs it.
        precision: number format of the weights.
        search: which search, in words; systems of the same are compared.
        path: file or directory of the weights, whose size counts.
        translate: function of a list of strings, to a list of strings.
        reference: the `Translator` it must agree with; None: it is that one.
    """

    runtime: str
    precision: str
    search: str
    path: Path
    translate: Callable
    reference: Translator | None = None


class Result(NamedTuple):
    """What was measured of a system."""

    system: System
    megabytes: float
    bleu: float
    chrf: float
    sentences: int
    equal: int  # translations equal to the reference's
    beyond_ties: int  # others whose score by the reference differs from its own by more than a tie
    sentences_per_second: float
    ratio: float  # of the speed to that of the reference


class Measurement:
    """Measures systems on one test set; a reference must come before what is compared with it.

    Args:
        sources, references: lists of strings.
        tokenize: sacrebleu's tokenizer.
    """

    def __init__(self, sources, references, tokenize):
        self.sources, self.references, self.tokenize = sources, references, tokenize
        self.bleu_signature = None
        self._found = {}  # search -> (translations, sentences a second) of its reference

    def of(self, system):
        """The `Result` of a `System`."""
        system.translate(self.sources[:64])  # what is compiled or allocated once
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

    def _beyond_ties(self, translator, different, found, expected):
        if not different:
            return 0
        sources = [self.sources[i] for i in different]
        scores = [
            _scores(translator, sources, [texts[i] for i in different])
            for texts in (found, expected)
        ]
        return sum(abs(score - other) > TIE for score, other in zip(*scores, strict=True))


def size(path):
    """Bytes of a file, or of all files of a directory."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def systems(options, directory):
    """Yield every `System` of a run, references first, exported into `directory` one by one.

    Args:
        options: the parsed command line of `benchmarks.exports`.
        directory: a `Path`.
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
    for precision in ("float32", "bfloat16"):
        path = export.export_saved_model(
            translator, directory / f"saved_model_{precision}", precision=precision
        )
        translate = saved_model_translate(path, options)
        yield System("SavedModel", precision, search, path, translate, translator)
    for precision in ("float32", "float16", "int8"):
        path = export.export_litert(
            translator, directory / f"litert_{precision}", precision=precision
        )
        translate = litert_translate(path, options)
        yield System("LiteRT", precision, search, path, translate, translator)
    for precision in ("float32", "int8"):
        path = export.export_ctranslate2(
            translator, directory / f"ctranslate2_{precision}", precision=precision
        )
        for search in list(searches)[1:]:
            translate = ctranslate2_translate(path, searches[search][0], translator, options)
            reference = translators[search]
            yield System("CTranslate2", precision, search, path, translate, reference)


def saved_model_translate(path, options):
    """A SavedModel's `translate` for lists of strings, in batches of similar lengths."""
    import tensorflow as tf

    signature = tf.saved_model.load(path).signatures["translate"]

    def translate(sentences):
        texts = [None] * len(sentences)
        lengths = [len(sentence) for sentence in sentences]
        for indices in batches_by_length(range(len(sentences)), lengths, options.batch_size):
            outputs = signature(inputs=tf.constant([sentences[i] for i in indices]))["outputs"]
            for i, text in zip(indices, outputs.numpy(), strict=True):
                texts[i] = text.decode("utf-8")
        return texts

    return translate


def litert_translate(path, options):
    """`LiteRTTranslator.translate` of an export."""
    from keras_transformer.serving import LiteRTTranslator

    return LiteRTTranslator(path, num_threads=options.threads).translate


def ctranslate2_translate(path, beam_size, translator, options):
    """CTranslate2's translation of lists of strings, without a length penalty."""
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


def _scores(translator, sources, targets):
    """The penalised scores of given translations."""
    lengths = [len(ids) + 1 for ids in translator.tokenizer.encode(targets)]
    log_probs = translator.score(sources, targets)
    return [
        log_prob / length_penalty(length, translator.alpha)
        for log_prob, length in zip(log_probs, lengths, strict=True)
    ]
