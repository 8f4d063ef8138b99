"""LiteRT exports that several tests read, and what their models say of themselves."""

import copy

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from keras_transformer.files import file_lock
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences

# So short that inputs are cut, and that a search over nonsense ends soon.
LIMITS = {"max_source_length": 40, "extra_length": 8}


def translator_of(run):
    """The translator that `litert_export` exports."""
    return Translator.load(run, extra_length=LIMITS["extra_length"])


def litert_export(run, precision):
    """The path of the export of a trained run, made by whichever process comes first."""
    path = run.parent / f"litert_{precision}"
    return _exported_once(path, lambda: translator_of(run), precision=precision, **LIMITS)


def unusual_translator():
    """Two models of all options, a vocabulary for each side, padded, every rule of the search."""
    source_tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)
    tokenizer = SentencePieceTokenizer.train(sentences(50, seed=1), vocabulary_size=50)
    sizes = {
        "vocabulary_size": 56,
        "source_vocabulary_size": 64,
        "positions": "learned",
        "max_length": 24,
    }
    words = {
        "positions": "words",
        "source_word_starts": source_tokenizer.word_starts,
        "target_word_starts": (tokenizer.special_tokens.bos, *tokenizer.word_starts),
    }
    other = {"activation": "gelu", "layer_norm_epsilon": 1e-3, "final_norm": True}
    other |= {"tie_weights": False}
    models = [build(tokenizer, **sizes), build(tokenizer, **sizes | words | other)]
    generator = np.random.default_rng(0)
    for model in models:  # the same in every process, whatever Keras has drawn before
        model.set_weights([generator.normal(0, 0.6, w.shape) for w in model.get_weights()])
    return Translator(
        models,
        tokenizer,
        source_tokenizer=source_tokenizer,
        beam_size=3,
        alpha=1.0,
        extra_length=6,
        min_length=3,
        no_repeat_ngram=2,
    )


def unusual_export(directory):
    """The path of the export of `unusual_translator`, made by whichever process comes first."""
    return _exported_once(directory / "litert_unusual", unusual_translator)


def _exported_once(path, make_translator, **options):
    with file_lock(path.with_suffix(".lock")):
        if not path.is_dir():
            export_litert(make_translator(), path, **options)
    return path


def signature(path, name):
    """A signature of an export, as a function of arrays by name."""
    interpreter = Interpreter(str(path / "model.tflite"), num_threads=1)
    return interpreter.get_signature_runner(name)


def returning_ids(translator):
    """The same translator, whose translations are lists of token ids in place of strings."""
    translator = copy.copy(translator)
    translator.tokenizer = _Undecoded(translator.tokenizer)
    return translator


class _Undecoded:
    """A tokenizer that decodes ids to ids, without the special ones that decoding leaves out."""

    def __init__(self, tokenizer):
        self.special_tokens = tokenizer.special_tokens

    def decode(self, rows):
        tokens = self.special_tokens
        left_out = (tokens.pad, tokens.bos, tokens.eos)
        return [[int(token) for token in row if token not in left_out] for row in rows]


def read_model(path):
    """The model of an export, as objects of the file format."""
    model_bytes = (path / "model.tflite").read_bytes()
    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(model_bytes, 0))


def operations(path):
    """The names of all operations of an export's model."""
    names = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    return {names[code.builtinCode] for code in read_model(path).operatorCodes}


def padded(rows):
    """Rows of ids as `input_ids` and `input_lengths` take them, not filled with the padding id."""
    ids = np.full((len(rows), max(1, *map(len, rows))), 7, "int32")
    for array, row in zip(ids, rows, strict=True):
        array[: len(row)] = row
    return {"input_ids": ids, "input_lengths": np.array([len(row) for row in rows], "int32")}
