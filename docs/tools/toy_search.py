"""Beam search on a toy model, step by step, for Figure 10 in docs/the_paper.md."""

from typing import Any, NamedTuple

import numpy as np

# A bigram model: {last word: {next word: probability}}.
BIGRAMS = {
    "<s>": {"a": 0.55, "the": 0.45},
    "a": {"dog": 0.4, "cat": 0.35, "old": 0.25},
    "the": {"dog": 0.9, "cat": 0.1},
    "dog": {"barks": 0.8, "</s>": 0.15, "sleeps": 0.05},
    "cat": {"sleeps": 0.6, "</s>": 0.4},
    "old": {"dog": 0.6, "cat": 0.4},
    "barks": {"</s>": 1.0},
    "sleeps": {"</s>": 1.0},
}
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "a", "the", "old", "dog", "cat", "barks", "sleeps"]
BEAMS, ALPHA, LIMIT = 2, 0.6, 5
LEAST = 1e-6  # hypotheses with lower probabilities are omitted


class Candidate(NamedTuple):
    """An extension considered in a search step."""

    word: str
    parent: int  # index of the parent in the previous beam
    log_prob: float
    score: float | None  # None if it has not ended
    place: int | None  # index in the beam after this step; None if dropped


def toy_step(tokens, index, state):
    """Return the logits of `BIGRAMS`, with the signature that the search functions require."""
    from keras import ops

    table = np.full((len(WORDS), len(WORDS)), 1e-9, "float32")
    for last, following in BIGRAMS.items():
        for word, probability in following.items():
            table[WORDS.index(last), WORDS.index(word)] = probability
    return ops.take(ops.log(ops.convert_to_tensor(table)), tokens, axis=0), state


def search_arguments() -> dict[str, Any]:
    """Return the arguments shared by beam search and greedy search."""
    from keras_transformer import SpecialTokens

    special_tokens = SpecialTokens(pad=0, bos=1, eos=2, unk=3)
    return {
        "batch_size": 1,
        "limits": [LIMIT],
        "special_tokens": special_tokens,
        "max_length": LIMIT,
    }


def searched() -> list[list[Candidate]]:
    """Return the candidates of each step, using the functions that `beam_search` calls."""
    from keras import ops

    from keras_transformer.decoding.beam_search import (
        after_step,
        expand,
        keep_live,
        merge_finished,
        should_continue,
        start,
    )
    from keras_transformer.decoding.next_tokens import OutputRules

    special = search_arguments()["special_tokens"]
    limits = ops.convert_to_tensor([LIMIT], "int32")
    beams, steps = start((), 1, BEAMS, LIMIT, special), []
    while bool(should_continue(beams, limits, ALPHA, BEAMS)[0]):
        logits, _ = toy_step(beams.tokens, beams.index, ())
        found = expand(beams, logits, OutputRules(limits, special))
        live = keep_live(found, BEAMS, special)
        finished = merge_finished(beams, found, beams.index + 1, ALPHA, special, "gnmt", 2 * BEAMS)
        beams = after_step(beams, live, *finished, ())
        steps.append(_candidates(found, live, int(beams.index)))
    return steps


def _candidates(found: Any, live: Any, length: int) -> list[Candidate]:
    """Return the candidates of a step, each with its index among the live hypotheses."""
    from keras_transformer.decoding import length_penalty

    places = {tuple(ids): place for place, ids in enumerate(_rows(live.ids))}
    candidates = []
    for token, ids, log_prob, parent in zip(*map(_rows, found), strict=True):
        if log_prob < np.log(LEAST):
            continue
        has_ended = WORDS[token] == "</s>"
        score = log_prob / length_penalty(length, ALPHA) if has_ended else None
        place = None if has_ended else places.get(tuple(ids))
        candidates.append(Candidate(WORDS[token], parent, log_prob, score, place))
    return candidates


def _rows(values: Any) -> list[Any]:
    """Return the values for the batch's only sentence."""
    return np.array(values)[0].tolist()


def search_results() -> dict[str, tuple[str, float]]:
    """Return the best output and its log-probability for "beam" and "greedy" search."""
    from keras_transformer.decoding import beam_search, greedy_search, length_penalty

    arguments = search_arguments()
    ids, scores = beam_search(toy_step, (), beam_size=BEAMS, alpha=ALPHA, **arguments)
    beam = [WORDS[token] for token in np.array(ids)[0, 0] if WORDS[token] != "<pad>"]
    log_prob = float(scores[0, 0]) * length_penalty(len(beam), ALPHA)
    found = {"beam": (" ".join(beam[:-1]), log_prob)}
    ids, log_probs = greedy_search(toy_step, (), **arguments)
    greedy = [
        WORDS[token] for token in np.array(ids).ravel() if WORDS[token] not in ("<pad>", "</s>")
    ]
    return found | {"greedy": (" ".join(greedy), float(np.array(log_probs).ravel()[0]))}
