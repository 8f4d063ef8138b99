"""Models that answer at once what an equal model has answered before.

What a verb reads, checks and writes stays as it is. What it computes in between, which takes
seconds, is a function of the model, its tokenizers and its options: it is computed once for each
of these, and which they were is written down, so that other weights show.
"""

import contextlib
import hashlib
import shutil
from unittest import mock

import keras
import numpy as np

from keras_transformer.formats.litert import writer as litert
from keras_transformer.formats.saved_model import writer as saved_model
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from keras_transformer.toolkit.app import server
from keras_transformer.training import training_run
from tests.fuzz.verb_calls import Computes

ANSWERS = {
    Translator: (
        "translate", "translate_nbest", "translate_with_alphas", "sample", "score", "align"
    ),
    Parser: ("parse_with_scores",),
}  # fmt: skip


class RememberedAnswers:
    """Takes the place of what models compute.

    Args:
        directory: a `pathlib.Path` where to keep SavedModels.
        computes: whether a model that has not been asked before is; else that raises `Computes`.

    `used` is the set of the models, by digest, that have been asked for anything.
    """

    def __init__(self, directory, computes=True):
        self.used = set()
        self._computes = computes
        self._answers = {}
        self._directory = directory

    @contextlib.contextmanager
    def in_place(self):
        """A context in which models answer so."""
        with contextlib.ExitStack() as stack:

            def replace(owner, name, function):
                stack.enter_context(mock.patch.object(owner, name, function))

            for owner, names in ANSWERS.items():
                for name in names:
                    replace(owner, name, self._remembering(getattr(owner, name)))
            replace(litert, "_convert", self._remembering(litert._convert, num_arguments=3))
            replace(saved_model, "_save", self._saving(saved_model._save))
            replace(saved_model, "_write_warmup", lambda *_: None)
            replace(server, "serve", lambda *_: None)  # until Ctrl-C
            replace(training_run, "probe", lambda *_, **__: "not measured")
            replace(training_run, "FitCallbacks", self._begin_to_fit)
            yield

    def _remembering(self, function, num_arguments=None):
        def answer(owner, *arguments, **options):
            given = repr((arguments[: num_arguments and num_arguments - 1], options))
            key = (function.__qualname__, self._digest(owner), given)
            if key not in self._answers:
                self._check_computes(key)
                self._answers[key] = function(owner, *arguments, **options)
            return self._answers[key]

        return answer

    def _saving(self, function):
        def save(translator, path, *arguments):
            digest = self._digest(translator)
            kept = self._directory / hashlib.sha256(f"{digest} {arguments}".encode()).hexdigest()
            if not kept.is_dir():
                self._check_computes(digest)
                function(translator, kept, *arguments)
            shutil.copytree(kept, path, dirs_exist_ok=True)

        return save

    def _check_computes(self, key):
        if not self._computes:
            raise Computes(key)

    def _begin_to_fit(self, run, model, work, data_fingerprint, *_):
        state = run.state
        values = [*model.weights, *(model.optimizer.variables if state is not None else ())]
        told = (run.settings, data_fingerprint, state and (state.step, state.progress))
        raise Computes(_digest_of(map(keras.ops.convert_to_numpy, values), told))

    def _digest(self, owner):
        models = owner.models if isinstance(owner, Translator) else [owner.model]
        options = {
            name: value
            for name, value in vars(owner).items()
            if isinstance(value, (int, float, str, dict)) or value is None
        }
        tokenizers = (owner.tokenizer.fingerprint, owner.source_tokenizer.fingerprint)
        values = [value for model in models for value in model.get_weights()]
        digest = _digest_of(values, (sorted(options.items()), owner.search_options, tokenizers))
        self.used.add(digest)
        return digest


def _digest_of(arrays, told):
    digest = hashlib.sha256(repr(told).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
