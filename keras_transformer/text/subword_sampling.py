"""Subword sampling with the `sentencepiece` library, reproducible from a seed in one process.

Version 0.2.3 of the library draws other pieces from the same seed in another process.
"""

import operator
import threading

import sentencepiece

# The library has one seed for all tokenizers of the process. A thread takes it over when it draws
# its first number, and never again. So we draw on a new thread, and keep the seed until it ends.
_SEED_IN_USE = threading.Lock()
# The library's seeds have 32 bits, and the highest of them asks for a seed from the machine.
_NUMBER_OF_SEEDS = 2**32 - 1


def sample_ids(processor, sentences, *, alpha, seed):
    """Draw one segmentation of each sentence.

    Args:
        processor: a `sentencepiece.SentencePieceProcessor`.
        sentences: list of strings.
        alpha: number in [0, 1], see `SentencePieceTokenizer.sample`.
        seed: integer >= 0.

    Returns:
        A list of lists of int, one a sentence.
    """
    _check_alpha(alpha)
    seed = _check_seed(seed)
    drawn = []

    def draw():
        try:
            # Several threads would share the sentences among them as they please.
            rows = processor.encode(
                sentences,
                out_type=int,
                enable_sampling=True,
                nbest_size=-1,
                alpha=alpha,
                num_threads=1,
            )
        except Exception as error:
            rows = error
        drawn.append(rows)

    with _SEED_IN_USE:
        sentencepiece.set_random_generator_seed(seed % _NUMBER_OF_SEEDS)
        thread = threading.Thread(target=draw, daemon=True)
        thread.start()
        thread.join()
    if isinstance(drawn[0], Exception):
        raise drawn[0]
    return drawn[0]


def _check_alpha(alpha):
    is_number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
    if not is_number or not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must be a number in [0, 1]. Received: alpha={alpha!r}")


def _check_seed(seed):
    """Return the seed, of Python's or NumPy's integers, as an int."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if isinstance(seed, bool) or number < 0:
        raise ValueError(f"`seed` must be an integer >= 0. Received: seed={seed!r}")
    return number
