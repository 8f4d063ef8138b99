"""A trial: the weights as a preset, translated greedily."""

from keras_transformer.formats.format import Format

FORMATS = (
    Format(
        name="plain",
        kind="Plain model",
        help="a preset whose reader searches greedily, as a trial",
        writer="plain.writer:export_plain",
        precisions=("float32",),
        files=("model.weights.h5", "tokenizer.model"),
        runtime="plain.reader:check_runtime",
        reader="plain.reader:open_export",
        lacks=("sample", "n_best", "tab_prefix"),
        has_search=True,
    ),
)
