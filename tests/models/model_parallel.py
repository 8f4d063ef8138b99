"""Trains models on one device and divided among 2 x 2, and prints as JSON how far they differ.

Run with KERAS_BACKEND=jax and four devices.
"""

import json

import keras
import numpy as np

import keras_transformer as kt

SIZES = {"vocabulary_size": 24, "num_decoder_layers": 1, "hidden_dim": 16, "intermediate_dim": 32}
SIZES |= {"num_heads": 2, "dropout": 0.0}


def random_batches(*names):
    generator = np.random.default_rng(1)

    def ids():
        return generator.integers(3, 24, (4, 6)).astype("int32")

    return [({name: ids() for name in names}, ids()) for _ in range(4)]


def train(model, optimizer, batches):
    """Some updates; returns the losses."""
    model.compile(optimizer, kt.LabelSmoothingCrossEntropy())
    return [float(model.train_on_batch(*batch)) for batch in batches]


def share(variable):
    """The shape of one device's part of a variable."""
    return list(variable.value.addressable_shards[0].data.shape)


def compare(model, new_optimizer, batches):
    """Train the model, and a copy of it that is divided; what differs, and how it is divided."""
    initial = model.get_weights()
    losses = train(model, new_optimizer(), batches)
    mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    layouts = kt.models.layout_map(model, mesh)
    divided = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")
    with divided.scope():
        copy = keras.models.clone_model(model)
        copy.set_weights(initial)
        difference = np.abs(np.subtract(train(copy, new_optimizer(), batches), losses)).max()
    weights = zip(model.get_weights(), copy.get_weights(), strict=True)
    return {
        "moved": min(
            float(np.abs(after - before).max())
            for after, before in zip(model.get_weights(), initial, strict=True)
        ),
        "losses": float(difference),
        "weights": max(float(np.abs(one - other).max()) for one, other in weights),
        "shares": {weight.path: [list(weight.shape), share(weight)] for weight in copy.weights},
        "moments": {
            weight.path: [list(weight.shape), share(weight)] for weight in copy.optimizer.variables
        },
    }


def main():
    keras.utils.set_random_seed(1)
    # Not Adam with biases: the gradient of those of keys is 0, and Adam divides rounding by itself.
    biased = kt.build_transformer(
        "tiny", **SIZES, num_encoder_layers=1, use_bias=True, use_logits_bias=True
    )
    untied = kt.build_language_model("tiny", **SIZES, tie_weights=False)
    found = {
        "transformer": compare(
            biased,
            lambda: keras.optimizers.SGD(0.5, momentum=0.9),
            random_batches("source_ids", "target_ids"),
        ),
        "language_model": compare(
            untied,
            lambda: kt.transformer_adam(hidden_dim=16, warmup_steps=4),
            random_batches("token_ids"),
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
