"""A SavedModel's signatures as functions of lists, and what lies in its graphs."""

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers its operations
from tensorflow.core.protobuf import saved_model_pb2


class ExportedSignatures:
    """Runs the signatures of a SavedModel.

    Args:
        path: the `Path` of a version.
    """

    def __init__(self, path):
        self._signatures = tf.saved_model.load(str(path)).signatures

    def specs(self):
        """`{name: (inputs, outputs)}`, both `{name: (dtype, shape)}`."""
        return {
            name: (
                _described(function.structured_input_signature[1]),
                _described(function.structured_outputs),
            )
            for name, function in self._signatures.items()
        }

    def run(self, name, **inputs):
        """The outputs of a signature, NumPy arrays; strings as `str`."""
        function = self._signatures[name]
        specs = function.structured_input_signature[1]
        given = {key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()}
        return {key: _array(tensor) for key, tensor in function(**given).items()}


def check_equal(exported, translator, texts, n):
    """The n best translations, and scores of some pairs, are the translator's."""
    found = exported.run("translate_nbest", inputs=texts)
    for i, expected in enumerate(translator.translate_nbest(texts, n)):
        places = slice(len(expected))
        assert found["outputs"][i, places].tolist() == [text for text, _ in expected]
        scores = [score for _, score in expected]
        np.testing.assert_allclose(found["scores"][i, places], scores, atol=1e-4)
    log_probs = exported.run("score", inputs=texts, targets=texts[::-1])["log_probs"]
    np.testing.assert_allclose(log_probs, translator.score(texts, texts[::-1]), rtol=1e-5)


def operations(path):
    """The names of all operations in a SavedModel's graphs."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((path / "saved_model.pb").read_bytes())
    found = set()
    for meta_graph in saved_model.meta_graphs:
        graph = meta_graph.graph_def
        found |= {node.op for node in graph.node}
        found |= {node.op for function in graph.library.function for node in function.node_def}
    return found


def _described(specs):
    return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}


def _array(tensor):
    array = tensor.numpy()
    if array.dtype != object:
        return array
    decode = np.vectorize(lambda text: text.decode("utf-8"), otypes=[object])  # raises on others
    return decode(array)
