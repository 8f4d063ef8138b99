"""In a graph, terms in strings become the forms that they become in Python."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.text import Glossary, SentencePieceTokenizer
from keras_transformer.text.glossary import TermEncoder
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer
from keras_transformer.text.tensorflow_terms import TensorFlowTermEncoder
from keras_transformer.text.term_forms import array_of_terms
from keras_transformer.types import FIRST_TOKEN

LINES = [
    "a small house (house) stands behind the trees",
    "das große Haus, l'été 東京 house-tree",
] * 3
WORDS = [
    "house",
    "tree",
    "Haus",
    "été",
    "große",
    "das Haus",
    "東京",
    "small  house",
    "(the",
    "X",
    "a",
]


def trained(**options):
    return SentencePieceTokenizer.train(LINES, **{"vocabulary_size": 70, **options})


def with_own_ids():
    """A tokenizer whose ids are not SentencePiece's, as in imported models."""
    tokenizer = trained()
    pieces = [tokenizer.pieces([i])[0] for i in range(tokenizer.vocabulary_size)]
    special = tokenizer.special_tokens
    pieces = [piece for i, piece in enumerate(pieces) if i not in (special.pad, special.bos)]
    pieces = [*pieces[::-1], "<pad>"]
    vocabulary = PieceVocabulary(
        pieces, pad=len(pieces) - 1, eos=pieces.index("</s>"), unk=pieces.index("<unk>")
    )
    return SentencePieceTokenizer(vocabulary.within(tokenizer.model_bytes))


@pytest.fixture(
    params=[
        trained,
        lambda: trained(model_type="unigram", vocabulary_size=36),
        lambda: trained(vocabulary_size=310, byte_fallback=True, normalization="identity"),
        with_own_ids,
    ],
    ids=["bpe", "unigram", "bytes", "own ids"],
    scope="module",
)
def encoders(request):
    tokenizer = request.param()
    graph = TensorFlowSentencePieceTokenizer(tokenizer.model_bytes)
    return TermEncoder(tokenizer), TensorFlowTermEncoder(tokenizer, graph)


def forms_in(array):
    """The forms of each row: term, how often, tokens."""
    return [
        [
            (form[0], form[1], [token for token in form[FIRST_TOKEN:] if token >= 0])
            for form in row
            if form[1] > 0
        ]
        for row in array.tolist()
    ]


def test_forms_are_those_of_python(encoders):
    library, tensorflow = encoders
    generator = np.random.default_rng(0)
    sources = [f"w{number}" for number in range(20)]
    targets = {}
    for each in sources:  # X may be missing from the vocabulary
        chosen = generator.choice(WORDS, generator.integers(1, 4)).tolist()
        targets[each] = [*chosen, "house"] if "X" in chosen else chosen
    glossary = Glossary(targets)
    texts = [" ".join(generator.choice(sources, generator.integers(0, 7))) for _ in range(40)]
    lines = [
        "\n".join(" | ".join(each.targets).replace(" ", "  ") for each in glossary.find(text))
        for text in texts
    ]
    found = tensorflow.forms(tf.constant(lines)).numpy()
    assert found.dtype == "int32"
    expected = forms_in(array_of_terms([library.forms(text, glossary) for text in texts]))
    assert forms_in(found) == expected
    assert max(count for row in expected for _, count, _ in row) > 1


def test_blank_parts_are_no_terms_and_what_cannot_be_written_has_no_tokens(encoders):
    library, tensorflow = encoders
    lines = ["", " house | \n\n|\nhouse|", "house\nЖ" if library._forms("Ж") == [] else "house"]
    _, twice, unwritable = forms_in(tensorflow.forms(tf.constant(lines)).numpy())
    forms = library._forms("house")
    assert twice == [(0, 1, form) for form in forms] + [(1, 1, form) for form in forms]
    assert unwritable[: len(forms)] == [(0, 1, form) for form in forms]
    unk = library._tokenizer.special_tokens.unk
    assert all(unk in tokens for _, _, tokens in unwritable[len(forms) :])


@pytest.mark.parametrize("terms", [[], [""], ["", ""]])
def test_batches_without_terms(encoders, terms):
    found = encoders[1].forms(tf.constant(terms, tf.string)).numpy()
    assert found.shape[0] == len(terms)
    assert forms_in(found) == [[]] * len(terms)
