"""Operations counted from the architecture, against formulas and a compiler's own count."""

import pytest

from keras_transformer.data import BatchPlan
from keras_transformer.models import build_transformer
from keras_transformer.training.step_work import StepWork
from keras_transformer.training.transformer_flops import TransformerFlops

SIZES = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 8,
    "intermediate_dim": 32,
    "num_heads": 2,
    "key_dim": 3,
    "value_dim": 5,
}


def test_one_layer_by_hand():
    flops = TransformerFlops(build_transformer(vocabulary_size=10, **SIZES))
    source, target = 7, 4
    projections = 2 * 8 * 2 * (3 + 3 + 5 + 5)  # queries, keys, values, output; 2 heads
    feed_forward = 2 * (8 * 32 + 32 * 8)
    encoder = source * (projections + feed_forward) + source * source * 2 * 2 * (3 + 5)
    decoder = target * (projections + feed_forward) + target * target * 2 * 2 * (3 + 5)
    cross = target * 2 * 8 * 2 * (3 + 5) + source * 2 * 8 * 2 * (3 + 5)
    cross += target * source * 2 * 2 * (3 + 5)
    logits = target * 2 * 8 * 10
    assert flops.forward([source], [target]) == encoder + decoder + cross + logits
    assert flops.training([source], [target]) == 3 * (encoder + decoder + cross + logits)


def test_sentences_add_up_and_a_separate_source_vocabulary_costs_nothing():
    flops = TransformerFlops(build_transformer(vocabulary_size=10, **SIZES))
    separate = TransformerFlops(
        build_transformer(vocabulary_size=10, source_vocabulary_size=50, **SIZES)
    )
    both = flops.training([3, 9], [5, 2])
    assert both == flops.training([3], [5]) + flops.training([9], [2])
    assert both == separate.training([3, 9], [5, 2])


def test_the_work_of_a_plan_counts_no_padding():
    model = build_transformer(vocabulary_size=10, **SIZES)
    plan = BatchPlan([3, 5, 9], [4, 4, 8], batch_tokens=10, seed=1, shuffle=False)
    work = StepWork.of(plan, model, peak_flops=2e9)
    flops = TransformerFlops(model)
    assert plan.steps_per_epoch == 2
    assert work.flops(0) == flops.training([3, 5], [4, 4])
    assert work.total("flops", range(4)) == 2 * flops.training([3, 5, 9], [4, 4, 8])
    assert work.total("target_tokens", range(2)) == 16
    assert work.padding_share(0) == pytest.approx(2 / 18)
    assert work.peak_flops == 2e9


def test_what_is_not_known_has_no_total():
    assert StepWork(target_tokens=lambda step: 1).total("flops", range(3)) is None
