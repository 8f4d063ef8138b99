"""Operations counted from the architecture, against formulas and a compiler's own count."""

import pytest
import tensorflow as tf

from keras_transformer.data import BatchPlan
from keras_transformer.evaluation.step_work import StepWork, TransformerFlops
from keras_transformer.models import build_transformer

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


def test_restricted_attention_counts_as_many_pairs_as_it_sees():
    options = {"vocabulary_size": 10, **SIZES}
    full = TransformerFlops(build_transformer(**options))
    windowed = TransformerFlops(build_transformer(**options, attention_window=5))
    a_pair = 2 * 2 * (3 + 5)
    # Sources of 7 and 3 tokens, targets of 4 and 9; attention to the source is not restricted.
    saved = a_pair * ((7 * 7 + 9 * 9) - (7 * 5 + 9 * 5))
    assert full.forward([7, 3], [4, 9]) - windowed.forward([7, 3], [4, 9]) == saved


def test_a_recurrent_unit_has_two_matrices_and_no_pairs():
    options = {"vocabulary_size": 10, **SIZES}
    with_attention = TransformerFlops(build_transformer(**options))
    with_unit = TransformerFlops(build_transformer(**options, decoder_unit="ssru"))
    target = 4
    attention = target * 2 * 8 * 2 * (3 + 3 + 5 + 5) + target * target * 2 * 2 * (3 + 5)
    saved = attention - target * 2 * (2 * 8 * 8)
    assert with_attention.forward([7], [target]) - with_unit.forward([7], [target]) == saved


@pytest.mark.parametrize("heads", [{}, {"key_dim": 16, "value_dim": 48}])
def test_tensorflow_counts_the_same_in_its_graphs(heads):
    """Its profiler counts softmax, norms, ReLU and losses besides: 1 % here."""
    model = build_transformer(
        vocabulary_size=400, hidden_dim=128, intermediate_dim=512, num_heads=4,
        num_encoder_layers=1, num_decoder_layers=2, dropout=0.0, **heads,
    )  # fmt: skip

    def forward(source_ids, target_ids):
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        return tf.reduce_sum(model(inputs, training=True))

    def training(source_ids, target_ids):
        with tf.GradientTape() as tape:
            loss = forward(source_ids, target_ids)
        return tape.gradient(loss, model.trainable_variables)

    flops = TransformerFlops(model)
    lengths = [24] * 4, [16] * 4
    assert flops.forward(*lengths) == pytest.approx(profiled(forward, *lengths), rel=0.03)
    assert flops.training(*lengths) == pytest.approx(profiled(training, *lengths), rel=0.03)


def profiled(function, source_lengths, target_lengths):
    """The operations that TensorFlow's profiler counts in the graph of a batch without padding."""
    shapes = (
        tf.TensorSpec((len(lengths), lengths[0]), "int32")
        for lengths in (source_lengths, target_lengths)
    )
    graph = tf.function(function).get_concrete_function(*shapes).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    return tf.compat.v1.profiler.profile(
        graph, options={**options, "output": "none"}
    ).total_float_ops


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
    assert len(set(map(work.shape_to_compile, range(4)))) == 1
    few = BatchPlan([3, 5, 9], [4, 4, 8], batch_tokens=10, seed=1, shuffle=False, shapes=2)
    work = StepWork.of(few, model)
    assert set(map(work.shape_to_compile, range(few.steps_per_epoch))) == set(few.shapes)


def test_what_is_not_known_has_no_total():
    assert StepWork(target_tokens=lambda step: 1).total("flops", range(3)) is None
