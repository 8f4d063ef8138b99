"""Sentences and the positions that a model learns."""

import numpy as np
import pytest

from keras_transformer.data import BatchReader, plan_batches
from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.errors import UserInputError
from keras_transformer.models import build_transformer
from keras_transformer.training import TrainingRun
from keras_transformer.training.training_run import check_positions
from keras_transformer.types import SpecialTokens
from tests.training.small_training import WORK, TokenizerStub, batches, small_model


def reader(source_length, target_length):
    """The `BatchReader` of one pair, end of sentence not counted."""
    sides = []
    for length in (source_length, target_length):
        sides += [np.full(length, 5), np.array([0, length])]
    corpus = ParallelCorpus(*sides, np.array([1]), metadata={})
    return plan_batches(corpus, SpecialTokens(), batch_tokens=64, shuffle=False)


def model(positions):
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 4, "num_heads": 1}
    return build_transformer(vocabulary_size=9, positions=positions, max_length=6, **sizes)


def test_each_side_of_each_text_has_a_position_for_every_token():
    learned, fits = model("learned"), reader(5, 5)
    check_positions(learned, [fits, fits])
    for longer in (reader(6, 2), reader(2, 6)):
        for readers in ([longer, fits], [fits, longer]):
            with pytest.raises(UserInputError, match="at least 7, the tokens .* max_length=6"):
                check_positions(learned, readers)


def test_sampled_subwords_may_fill_a_batch(monkeypatch):
    monkeypatch.setattr(BatchReader, "is_sampled", True)
    with pytest.raises(UserInputError, match="Received: max_length=6, batch_tokens=64"):
        check_positions(model("learned"), [reader(5, 5)])
    check_positions(model("sinusoidal"), [reader(5, 5)])


def test_other_positions_have_no_end():
    check_positions(model("sinusoidal"), [reader(50, 50)])


def test_dev_data_of_ones_own_is_passed_over(tmp_path):
    options = {"steps": 1, "probe": False, "tensorboard": False, "show_progress": False}
    with TrainingRun(tmp_path / "run", **options) as run:
        own = next(batches())
        run.begin(small_model(), reader(5, 5), own, tokenizer=TokenizerStub(), work=WORK)
        assert run.fit_options["validation_data"] is own
