"""Hugging Face's Marian model with the sizes of a preset and random weights."""

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.workers.search_inputs import BOS, EOS, FIRST_TOKEN, PAD


def build_marian(sizes: Mapping[str, Any], vocabulary_size: int) -> Any:
    """Return a `MarianMTModel` in float32."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocabulary_size,
        decoder_vocab_size=vocabulary_size,
        d_model=sizes["hidden_dim"],
        encoder_layers=sizes["num_encoder_layers"],
        decoder_layers=sizes["num_decoder_layers"],
        encoder_attention_heads=sizes["num_heads"],
        decoder_attention_heads=sizes["num_heads"],
        encoder_ffn_dim=sizes["intermediate_dim"],
        decoder_ffn_dim=sizes["intermediate_dim"],
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        max_position_embeddings=1024,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def convert(directory: str, precision: str, vocabulary_size: int, sizes: Mapping[str, Any]) -> None:
    """Convert the model to CTranslate2's format with CTranslate2's converter.

    Args:
        directory: output directory.
        precision: number format of the weights.
        vocabulary_size, sizes: see `build_marian`.
    """
    from ctranslate2.converters.transformers import MarianMTLoader

    pieces = ["<pad>", "<s>", "</s>", "<unk>"]
    pieces += [f"t{token}" for token in range(FIRST_TOKEN, vocabulary_size)]
    # The converter treats the last token as padding and drops it.
    spec = MarianMTLoader().get_model_spec(build_marian(sizes, vocabulary_size + 1))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = pieces[1:4]
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize(None if precision == "float32" else precision)
    os.makedirs(directory)
    spec.save(directory)


def main() -> None:
    """Convert a model. The command line contains the arguments of `convert` as JSON."""
    parser = argparse.ArgumentParser(description="Write a random Marian model for CTranslate2.")
    parser.add_argument("request", help="arguments of `convert` as JSON")
    convert(**json.loads(parser.parse_args().request))


if __name__ == "__main__":
    main()
