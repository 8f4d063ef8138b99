"""The logits of a Marian model, computed by NumPy in float64 from Hugging Face's tensors.

Marian's own models also have the options "decoder_unit", "tied_layers", "normalize_before" and
"add_final_layer_norm".
"""

import math

import numpy as np

ACTIVATIONS = {
    "swish": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


def logits(tensors, config, source_ids, target_ids):
    """The logits (batch, target length, vocabulary) of padded rows of ids."""
    model = _Model(tensors, config)
    source_ids, target_ids = np.array(source_ids), np.array(target_ids)
    is_token = source_ids != config["pad_token_id"]
    memory = model.encode(source_ids, is_token[:, None, None])
    return model.decode(target_ids, memory, is_token[:, None, None])


def check_logits(imported, tensors, config, source, target):
    """Compare the logits of an imported model for one pair, rows of ids."""
    inputs = {"source_ids": np.array([source]), "target_ids": np.array([target])}
    expected = logits(tensors, config, [source], [target])
    np.testing.assert_allclose(np.asarray(imported.model(inputs)), expected, atol=1e-4)


def log_probs(values):
    """Log-softmax over the last axis."""
    values = values - values.max(-1, keepdims=True)
    return values - np.log(np.exp(values).sum(-1, keepdims=True))


def score(tensors, config, source, target):
    """The log-probability of one target, ids without any special token, and its end.

    Marian's vocabulary has no padding and no token to start with.
    """
    eos, start = config["eos_token_id"], config["decoder_start_token_id"]
    values = logits(tensors, config, [[*source, eos]], [[start, *target]])
    values[..., [config["pad_token_id"], start]] = -np.inf
    found = log_probs(values)[0]
    return sum(found[place, token] for place, token in enumerate([*target, eos]))


def sinusoids(length, hidden_dim, is_native=False):
    """Sines in the first half of the vectors, cosines in the second.

    Marian itself spaces the frequencies differently.
    """
    pairs = hidden_dim // 2
    frequencies = 10_000.0 ** (-np.arange(pairs) / (pairs - 1 if is_native else pairs))
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class _Model:
    def __init__(self, tensors, config):
        self.tensors = {name: value.astype("float64") for name, value in tensors.items()}
        self.config = config
        self.is_native = config.get("is_native", False)
        self.epsilon = 1e-6 if self.is_native else 1e-5
        self.activation = ACTIVATIONS[config["activation_function"]]
        shared = self.tensors.get("model.shared.weight")
        self.source = self.tensors.get("model.encoder.embed_tokens.weight", shared)
        self.target = self.tensors.get("model.decoder.embed_tokens.weight", shared)
        self.head = self.tensors.get("lm_head.weight", self.target)

    def encode(self, ids, mask):
        x = self.embed(self.source, ids)
        for number in range(self.config["encoder_layers"]):
            name = f"model.encoder.layers.{number}"
            x = self.attend(f"{name}.self_attn", x, x, mask)
            x = self.feed_forward(name, x)
        return self.top("encoder", x)

    def decode(self, ids, memory, mask):
        x = self.embed(self.target, ids)
        is_past = np.tri(ids.shape[1], dtype=bool)
        depth = self.config["decoder_layers"]
        for number in self.config.get("tied_layers", range(depth)):
            name = f"model.decoder.layers.{number}"
            if self.config.get("decoder_unit") == "ssru":
                x = self.recur(f"{name}.rnn", x)
            else:
                x = self.attend(f"{name}.self_attn", x, x, is_past)
            x = self.attend(f"{name}.encoder_attn", x, memory, mask)
            x = self.feed_forward(name, x)
        logits = self.top("decoder", x) @ self.head.T
        return logits + self.tensors.get("final_logits_bias", 0)

    def top(self, side, x):
        is_there = self.config.get("add_final_layer_norm")
        return self.norm(f"model.{side}.layer_norm", x) if is_there else x

    def in_block(self, name, x, sublayer):
        """A sub-layer with its residual connection, normalized before it or at the end."""
        if self.config.get("normalize_before"):
            return x + sublayer(self.norm(f"{name}_layer_norm", x))
        return self.norm(f"{name}_layer_norm", x + sublayer(x))

    def embed(self, table, ids):
        hidden_dim = table.shape[1]
        return table[ids] * math.sqrt(hidden_dim) + sinusoids(
            ids.shape[1], hidden_dim, self.is_native
        )

    def recur(self, name, x):
        return self.in_block(name, x, lambda inputs: self.states(name, inputs))

    def states(self, name, x):
        state, outputs = np.zeros(x[:, 0].shape), []
        for position in range(x.shape[1]):
            gate = 1 / (1 + np.exp(-self.dense(f"{name}.f_proj", x[:, position])))
            candidate = x[:, position] @ self.tensors[f"{name}._proj.weight"].T
            state = gate * state + (1 - gate) * candidate
            outputs.append(np.maximum(state, 0))
        return np.stack(outputs, axis=1)

    def dense(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + self.epsilon)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def attend(self, name, x, memory, mask):
        def look(inputs):
            return self.look(name, inputs, inputs if memory is x else memory, mask)

        return self.in_block(name, x, look)

    def look(self, name, x, memory, mask):
        heads = self.config["encoder_attention_heads"]

        def split(values):  # (batch, length, hidden) -> (batch, heads, length, hidden / heads)
            batch, length, hidden_dim = values.shape
            return values.reshape(batch, length, heads, hidden_dim // heads).swapaxes(1, 2)

        q = split(self.dense(f"{name}.q_proj", x) * (x.shape[-1] // heads) ** -0.5)
        k, v = (
            split(self.dense(f"{name}.k_proj", memory)),
            split(self.dense(f"{name}.v_proj", memory)),
        )
        scores = np.where(mask, q @ k.swapaxes(-1, -2), -np.inf)
        values = (np.exp(log_probs(scores)) @ v).swapaxes(1, 2).reshape(x.shape)
        return self.dense(f"{name}.out_proj", values)

    def feed_forward(self, name, x):
        def between(inputs):
            return self.dense(f"{name}.fc2", self.activation(self.dense(f"{name}.fc1", inputs)))

        return self.in_block(f"{name}.final", x, between)
