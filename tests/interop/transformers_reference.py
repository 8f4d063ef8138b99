"""Runs in the peers' environment: a model of Hugging Face with random weights, and its answers.

Usage: python transformers_reference.py REQUEST.json. The request names the folder with config.json,
how the weights are drawn, and the arrays to read and to write.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers


class EndAtTheLimit(transformers.LogitsProcessor):
    """At the limit allows the end alone, which keeps its probability."""

    def __init__(self, max_length, eos):
        self.max_length = max_length
        self.eos = eos

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] < self.max_length - 1:
            return scores
        return torch.full_like(scores, -torch.inf).index_copy_(
            1, torch.tensor([self.eos]), scores[:, [self.eos]]
        )


class AcceptsEveryEnd(transformers.MarianMTModel):
    """An output may end as any of the 2 * num_beams best candidates, not only of the first half."""

    def _update_finished_beams(self, *, top_num_beam_mask, **arguments):
        mask = torch.ones_like(top_num_beam_mask)
        return super()._update_finished_beams(top_num_beam_mask=mask, **arguments)


def draw(model, scale, end_bias, shift):
    """Random weights: larger ones, norms that differ, biases everywhere.

    `shift` is added to the logits of all tokens but padding.
    """
    config, generator = model.config, torch.Generator().manual_seed(0)

    def normal(tensor, mean, deviation):
        tensor.copy_(torch.empty_like(tensor).normal_(mean, deviation, generator=generator))

    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" in name:
                continue
            if name.endswith("layer_norm.weight"):
                normal(value, 1, 0.2)
            elif name.endswith("bias"):
                normal(value, 0, 0.1)
            else:
                normal(value, 0, scale / config.d_model**0.5)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[config.pad_token_id] = 0
        if config.share_encoder_decoder_embeddings:
            for side in (model.model.encoder, model.model.decoder):
                side.embed_tokens.weight.copy_(model.model.shared.weight)
        normal(model.final_logits_bias, 0, 0.5)
        model.final_logits_bias += shift
        model.final_logits_bias[0, config.eos_token_id] += end_bias
        model.final_logits_bias[0, config.pad_token_id] = 0


def generate(model, rows, extra_length, **options):
    """The best outputs of rows, each with its own limit; one call for each length."""
    pad = model.config.pad_token_id
    lengths = [len(row) for row in rows]
    found = [None] * len(rows)
    for length in sorted(set(lengths)):
        places = [place for place, other in enumerate(lengths) if other == length]
        limit = length - 1 + extra_length + 1  # the end of the source does not count, ours does
        processors = transformers.LogitsProcessorList()
        if "forced_eos_token_id" in options:
            processors.append(EndAtTheLimit(limit + 1, model.config.eos_token_id))
        ids = model.generate(
            torch.tensor([rows[place] for place in places]),
            num_beams=4,
            length_penalty=1.0,
            max_new_tokens=limit,
            max_length=None,
            bad_words_ids=[[pad]],
            logits_processor=processors,
            **options,
        )
        for place, row in zip(places, ids[:, 1:].tolist(), strict=True):
            found[place] = [token for token in row if token != pad]
    return found


def main(request):
    transformers.logging.set_verbosity_error()
    folder = Path(request["folder"])
    config = transformers.MarianConfig.from_pretrained(folder)
    config.torch_dtype = "float32"
    model = AcceptsEveryEnd(config).eval()
    draw(model, request["scale"], request["end_bias"], request["shift"])
    model.save_pretrained(folder)
    if request.get("bin_folder"):
        torch.save(model.state_dict(), Path(request["bin_folder"]) / "pytorch_model.bin")
    arrays = np.load(request["inputs"])
    source = torch.from_numpy(arrays["source"]).long()
    with torch.no_grad():
        found = model(
            source,
            attention_mask=(source != config.pad_token_id).long(),
            decoder_input_ids=torch.from_numpy(arrays["target"]).long(),
        )
        np.savez(request["outputs"], logits=found.logits.numpy())
        rows = request.get("rows")
        if rows:
            extra_length = request["extra_length"]
            plain = transformers.MarianMTModel(config).eval()
            plain.load_state_dict(model.state_dict())
            # Renormalizing would take the probability from the end at the limit.
            model.final_logits_bias[0, config.pad_token_id] = -1e9
            searches = {
                # As the files of released models say.
                "plain": generate(plain, rows, extra_length, renormalize_logits=True),
                "any_end": generate(
                    model, rows, extra_length, early_stopping="never", forced_eos_token_id=None
                ),
            }
            Path(request["searches"]).write_text(json.dumps(searches))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
