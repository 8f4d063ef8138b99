import importlib.resources
import io
import re
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from keras_transformer.errors import UserInputError
from keras_transformer.inference.attention_figure import COLORS
from keras_transformer.interpretation import AttentionMaps, attention_figure

ODD_TOKENS = [
    "$x_1$",
    "▁日本語",
    "▁שלום",
    "🎉",
    "▁",
    "\n",
    "\x00",
    "a\u2028b",
    "w" * 500,
    "\\frac{",
]


def lines(figure):
    """The `(x above, x below, opacity)` of the lines of each head, and its color."""
    from matplotlib.colors import to_hex

    for collection in figure.axes[0].collections:
        assert isinstance(collection, LineCollection)
        segments, colors = np.array(collection.get_segments()), collection.get_colors()
        assert (segments[:, :, 1] == [1, 0]).all()
        yield np.column_stack([segments[:, :, 0], colors[:, 3]]), to_hex(colors[0])


def test_lines_go_from_each_query_to_its_keys(maps):
    first, second = lines(attention_figure(maps, "cross", 0))
    shift = 0.035  # half of what keeps two heads apart
    expected = [[place - shift, place - shift, 1] for place in range(4)]
    np.testing.assert_allclose(first[0], expected, atol=1e-6)
    expected = [[0, 0, 0.2], [0, 3, 0.8], [1, 0, 0.2], [1, 3, 0.8]]
    expected += [[2, 1, 0.2], [2, 3, 0.8], [3, 2, 0.2], [3, 3, 0.8]]
    np.testing.assert_allclose(second[0] - [shift, shift, 0], expected, atol=1e-6)
    assert (first[1], second[1]) == COLORS[:2]


def test_chosen_heads_keep_their_color_and_number(maps):
    figure = attention_figure(maps, "cross", 0, heads=[1])
    ((found, color),) = lines(figure)
    assert (len(found), color) == (8, COLORS[1])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["2"]


def test_heads_have_the_colors_of_the_page_on_white():
    folder = importlib.resources.files("keras_transformer.inference") / "page"
    style = folder.joinpath("attention.css").read_text("utf-8")
    found = dict(re.findall(r"--kt-head-(\d+): light-dark\((#\w+),", style))
    assert [found[str(head)] for head in range(len(found))] == list(COLORS)


@pytest.mark.parametrize(
    ("kind", "above", "below"),
    [
        ("encoder", "the red house </s>", "the red house </s>"),
        ("decoder", "das rote Haus </s>", "<s> das rote Haus"),
        ("cross", "das rote Haus </s>", "the red house </s>"),
    ],
)
def test_tokens_stand_above_and_below(maps, kind, above, below):
    axes = attention_figure(maps, kind, 1).axes[0]
    assert [text.get_text() for text in axes.texts] == [*above.split(), *below.split()]
    *matrices, bar = attention_figure(maps, kind, 1, style="matrix").axes
    assert bar.get_ylabel() == "attention weight"
    for axes in matrices:
        assert [label.get_text() for label in axes.get_yticklabels()] == above.split()
        assert [label.get_text() for label in axes.get_xticklabels()] == below.split()


def test_a_matrix_for_each_head_has_its_weights(maps):
    figure = attention_figure(maps, "cross", 0, style="matrix")
    *matrices, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in matrices] == ["Head 1", "Head 2"]
    assert [axes.get_ylabel() for axes in matrices] == ["query: output", ""]
    assert [axes.get_xlabel() for axes in matrices] == ["key: source", "key: source"]
    for axes, weights in zip(matrices, maps.cross[0], strict=True):
        (image,) = axes.images
        assert (image.get_interpolation(), image.get_cmap().name) == ("nearest", "viridis")
        np.testing.assert_array_equal(image.get_array(), weights)
        assert image.get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("heads", "finding"),
    [
        (None, "Sharpest head: 1 (entropy 0.00 nats)"),
        ([1], "Head 2 (entropy 0.50 nats)"),  # of 0.2 and 0.8
    ],
)
@pytest.mark.parametrize("style", ["lines", "matrix"])
def test_the_heading_names_the_sharpest_head(maps, heads, finding, style):
    figure = attention_figure(maps, "cross", 0, heads=heads, style=style)
    (heading,) = [text.get_text() for text in figure.texts if "\n" in text.get_text()]
    assert heading.splitlines() == ["Cross-attention, layer 1", finding]


@pytest.mark.filterwarnings("ignore:.*Glyph")
@pytest.mark.parametrize("style", ["lines", "matrix"])
@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_any_token_can_be_drawn(style, form):
    weights = np.full((1, 1, len(ODD_TOKENS), len(ODD_TOKENS)), 0.1, "float32")
    maps = AttentionMaps(ODD_TOKENS, ODD_TOKENS, ODD_TOKENS, weights, weights, weights)
    file = io.BytesIO()
    attention_figure(maps, "encoder", 0, style=style).savefig(file, format=form, dpi=50)
    assert file.tell() > 1000


@pytest.mark.parametrize("style", ["lines", "matrix"])
def test_long_sentences_stay_within_what_can_be_drawn(style):
    weights = np.zeros((1, 1, 300, 300), "float32")
    weights[:, :, :, 0] = 1
    tokens = ["▁a"] * 300
    maps = AttentionMaps(tokens, tokens, tokens, weights, weights, weights)
    width, height = attention_figure(maps, "cross", 0, style=style).get_size_inches()
    assert max(width, height) < 65


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "self"}, "`kind` must be one of"),
        ({"layer": 2}, "`layer` must be less than 2. Received: layer=2"),
        ({"layer": -1}, "`layer` must be an integer >= 0"),
        ({"heads": [0, 2]}, "`heads` must be less than 2. Received: heads=2"),
        ({"heads": []}, "`heads` must contain at least one head"),
        ({"style": "circle"}, "`style` must be one of"),
    ],
)
def test_wrong_arguments_are_named(maps, arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_figure(maps, **{"kind": "cross", "layer": 0, **arguments})


def test_without_matplotlib_it_says_what_to_install(maps, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserInputError, match=r"needs matplotlib: pip install .*\[plots\]'"):
        attention_figure(maps, "cross", 0)
