"""Export a translator as a web page that translates offline with Bergamot's engine."""

import base64
import gzip
import html
import lzma
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from keras_transformer.errors import UserInputError
from keras_transformer.files import (
    check_new_directory,
    find_output,
    tell,
    write_bytes,
    write_output,
)
from keras_transformer.formats.guarded_generator import exported_search
from keras_transformer.formats.marian.bergamot_writer import bergamot_model, export_bergamot
from keras_transformer.formats.marian.configurations import write_yaml
from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.formats.page import LOOK
from keras_transformer.formats.page.single_file import json_in_html, source_of
from keras_transformer.installation import __version__
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.runs.shipped_models import shipped_folder
from keras_transformer.search_options import (
    SearchKeywords,
    SearchOptions,
    takes_search_options,
)
from keras_transformer.types import PathLike

_SITE = LOOK.with_name("site")
_SCRIPT = "bergamot-translator-worker.js"
_INSTEAD = "`export saved-model` and `export litert` support it."
_LENGTH_FACTOR = 3  # an output has at most this many times the tokens of its source, as in Marian


@takes_search_options(None)
def export_page(
    translator: TranslationModel,
    path: PathLike,
    *,
    calibration: Iterable[str] | None = None,
    notice: Iterable[str] | None = None,
    split: bool = False,
    **options: Unpack[SearchKeywords],
) -> Path:
    """Export a translator as a web page that translates in the browser, without a server.

    The page contains the model in int8, its tokenizers, its shortlist and Bergamot's WebAssembly
    engine, which runs in a worker. It also works when it is opened as a local file, and its content
    security policy blocks all connections. Sentences are translated one at a time, while the user
    types, and words that belong together are highlighted.

    Args:
        translator: translator with a single model, on any backend. Bergamot's engine must support
            the model in int8, as for `export_bergamot`. If the translator has a shortlist, the page
            searches only among its candidates.
        path: output file, such as `translate.html`.
        calibration: a few hundred representative sentences, as for `export_bergamot`.
        notice: paragraphs about the origin and license of the model, as plain text. They are shown
            below the page.
        split: whether to write the model and the engine to a folder next to the page, named like
            `translate_files`, which must be empty or must not exist. Such a page needs a web
            server, but can be opened without loading everything first from other pages.
        **options: fields of `SearchOptions`. Defaults come from the translator. The engine supports
            `beam_size`, with `alpha`, `length_penalty="power"` and `ending="marian"` if it is not
            1; longer sentences than `max_source_length` are split.

    Returns:
        The path of the page.

    Raises:
        ValueError: an option is invalid.
        UserInputError: the engine is not installed, the engine does not support the model or an
            option, `calibration` has no sentences, or the folder for `split` is not empty.
        CannotWrite: the disk is full, or the operating system reports another error.

    Example:

    ```python
    translator = Translator.load("runs/enpt", shortlist=True)
    export_page(translator, "translate.html", calibration=sentences)
    ```

    Reference: https://github.com/browsermt/bergamot-translator
    """
    search = exported_search(translator, **{**options, "num_results": 1})
    _check_supported(translator, search)
    if calibration is None:
        raise UserInputError(
            "`calibration` (`--calibration FILE`) must be sentences, because the page's model is "
            "in int8. Received: None"
        )
    output = find_output(path, "path").path
    folder = output.with_name(f"{output.stem}_files")
    if split:
        check_new_directory(folder)
    parts = _parts(translator, calibration)
    packed = {name: gzip.compress(content, mtime=0) for name, content in parts.items()}
    sizes = (f"{name} {len(parts[name]):,} ({len(packed[name]):,})" for name in parts)
    tell(f"Bytes, and compressed: {', '.join(sizes)}.")
    if split:
        write_checked_directory(folder, lambda partial: _write_parts(partial, packed))
    write_output(output, _page(translator, search, packed, notice, folder if split else None))
    return Path(path)


def _check_supported(translator: TranslationModel, search: SearchOptions) -> None:
    """Refuse a model or a search that the engine does not support."""
    try:
        model = bergamot_model(translator, "int8")
    except UserInputError as error:
        raise UserInputError(
            f"{error} The page's engine cannot run this model. {_INSTEAD}"
        ) from error
    if model.options.normalize_first and model.options.decoder_unit == "attention":
        raise UserInputError(
            "Bergamot's engine does not normalize keys and values of a pre-norm decoder. "
            f"Received: normalize_first=True. {_INSTEAD}"
        )
    required: dict[str, Any] = {
        name: getattr(SearchOptions, name)
        for name in ("min_length", "no_repeat_ngram", "repetition_penalty")
    }
    if search.beam_size > 1:
        required |= {"length_penalty": "power", "ending": "marian"}
    for name, value in required.items():
        if getattr(search, name) != value:
            raise UserInputError(
                f"The page's engine needs `{name}={value!r}`"
                + (" or `beam_size=1`" if isinstance(value, str) else "")
                + f". Received: {getattr(search, name)!r}. {_INSTEAD}"
            )


def _parts(translator: TranslationModel, calibration: Iterable[str]) -> dict[str, bytes]:
    """Return the files of the engine and of the model, by the name of their elements."""
    engine = shipped_folder("bergamot") / _SCRIPT
    parts = {
        "worker": (_SITE / "worker.js").read_bytes(),
        "engine": engine.read_bytes(),
        "wasm": lzma.decompress(engine.with_suffix(".wasm.xz").read_bytes()),
    }
    with tempfile.TemporaryDirectory() as folder:
        exported = export_bergamot(
            translator, Path(folder, "page"), precision="int8", calibration=calibration
        )
        (parts["model"],) = (path.read_bytes() for path in exported.glob("model.*"))
        vocabularies = [path.read_bytes() for path in sorted(exported.glob("*vocab.*"))]
    parts |= zip(("vocabulary", "target_vocabulary"), vocabularies, strict=False)
    if translator.shortlist is not None:
        parts["shortlist"] = translator.shortlist.marian_bytes()
    return parts


def _write_parts(directory: Path, packed: Mapping[str, bytes]) -> None:
    for name, content in packed.items():
        write_bytes(directory / f"{name}.gz", content)


def _page(
    translator: TranslationModel,
    search: SearchOptions,
    packed: Mapping[str, bytes],
    notice: Iterable[str] | None,
    folder: Path | None,
) -> str:
    """Return the HTML. Its parts are in this folder, or in the page if it is None."""
    runs = [run for run, _ in translator.origins]
    record = runs[0].record() if runs else None
    source = record.source_language if record else None
    target = record.target_language if record else None
    name = runs[0].path.name if runs else "Translation"
    weights = sum(model.count_params() for model in translator.models)
    notices = [
        f"Model: {name}, {weights:,} weights, exported with keras_transformer {__version__}.",
        *(notice or ()),
    ]
    style = "".join(
        path.read_text("utf-8")
        for path in (LOOK / "theme.css", LOOK / "panels.css", _SITE / "page.css")
    )
    script = (_SITE / "page.js").read_text("utf-8")
    connections = "'none'" if folder is None else "'self'"
    policy = (
        f"default-src 'none'; connect-src {connections}; script-src {source_of(script)} "
        f"'wasm-unsafe-eval'; style-src {source_of(style)}; worker-src blob:; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {
        "policy": policy,
        "title": html.escape(f"{source} to {target}" if source and target else name),
        "source": f' lang="{source}"' if source else "",
        "target": f' lang="{target}"' if target else "",
        "style": style,
        "script": script,
        "notice": "\n".join(f"<p>{html.escape(line)}</p>" for line in notices if line.strip()),
        "settings": json_in_html(
            {"source": source, "target": target, "config": _config(search).decode()}
        ),
        "parts": "\n".join(_element(name, content, folder) for name, content in packed.items()),
    }
    template = (_SITE / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _element(name: str, content: bytes, folder: Path | None) -> str:
    """Return the element of a part."""
    start = f'<script type="text/plain" id="{name}"'
    if folder is not None:
        url = html.escape(f"{folder.name}/{name}.gz")
        return f'{start} data-url="{url}"></script>'
    return f"{start}>{base64.b64encode(content).decode('ascii')}</script>"


def _config(search: SearchOptions) -> bytes:
    """Return the engine's options."""
    return write_yaml(
        {
            "beam-size": search.beam_size,
            "normalize": search.alpha,
            "word-penalty": 0,
            "skip-cost": search.beam_size == 1,
            "gemm-precision": "int8shiftAlphaAll",
            "alignment": "soft",
            "ssplit-mode": "sentence",
            "max-length-break": search.max_source_length,
            "max-length-factor": _LENGTH_FACTOR,
            "mini-batch-words": _LENGTH_FACTOR * search.max_source_length,  # at least a sentence
            "workspace": 128,
            "cpu-threads": 0,
            "quiet": True,
            "quiet-translation": True,
        }
    )
