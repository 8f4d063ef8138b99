"""Web pages that translate offline with Bergamot's WebAssembly engine."""

from pathlib import Path

from keras_transformer.formats.format import Flag, Format
from keras_transformer.formats.marian import CALIBRATION

LOOK = Path(__file__).with_name("look")  # style sheets, which the web app shares
FORMATS = (
    Format(
        name="page",
        help="a web page that translates offline, in one HTML file",
        writer="page.writer:export_page",
        directory="output file, such as translate.html",
        output="FILE",
        has_search=True,
        flags=(
            CALIBRATION,
            Flag(
                "--notice",
                "notice",
                "a text about the origin and license of the model, shown below the page",
                metavar="FILE",
            ),
            Flag(
                "--split",
                "split",
                "write the model and the engine to a folder next to the page, for web servers",
            ),
        ),
    ),
)
