"""Runs in the peers' environment: a folder in `MarianMTModel` and `MarianTokenizer`.

Usage: python transformers_translator.py FOLDER SENTENCES.json ANSWERS.json
"""

import json
import sys
from pathlib import Path

import torch
import transformers


def main(folder, sentences, answers):
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    sentences = json.loads(Path(sentences).read_text())
    ids, texts, logits = [], [], []
    for sentence in sentences:
        inputs = tokenizer([sentence], return_tensors="pt")
        with torch.no_grad():
            output = model.generate(**inputs, max_new_tokens=inputs["input_ids"].shape[1] + 4)
            logits.append(model(**inputs, decoder_input_ids=output).logits[0].tolist())
        ids.append({"source": inputs["input_ids"][0].tolist(), "target": output[0].tolist()})
        texts.append(tokenizer.decode(output[0], skip_special_tokens=True))
    Path(answers).write_text(json.dumps({"ids": ids, "texts": texts, "logits": logits}))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(*sys.argv[1:])
