"""Figures that docs/training.md and docs/recipes.md quote from the code."""

import re

import pytest

from keras_transformer.models import PRESETS
from keras_transformer.training import step_sums
from keras_transformer.training.translation.data import TextSize, by_text
from recipes.adapt.settings import AdaptSettings
from recipes.distilled.settings import DistilledSettings
from recipes.multi30k_en_de.settings import Multi30kSettings
from recipes.table3.settings import Table3Settings
from recipes.wmt14_en_de.settings import WMT14EnDeSettings
from recipes.wmt14_en_fr.settings import WMT14EnFrSettings
from recipes.wsj_parsing.settings import ParsingSettings
from tests.pages.page import Page

TRAINING = Page("docs/training.md").text
RECIPES = Page("docs/recipes.md").text


def number(text):
    return int(text.replace(",", ""))


def rows(text, start):
    """The cells of a table's rows whose first cell begins with `start`."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_blocks_of_logits():
    (found,) = re.findall(r"at most (\d+) MiB, or (\d+) MiB on GPUs and TPUs", TRAINING)
    sizes = step_sums.BLOCK_BYTES, step_sums.BLOCK_BYTES_OF_ACCELERATORS
    assert [number(each) << 20 for each in found] == list(sizes)


def test_sizes_of_vocabularies():
    (row,) = rows(TRAINING, "`--vocabulary-size`")
    found = re.findall(r"([\d,]+)(?: subwords)? for ([\d,]+) pairs", row[2])
    found += re.findall(r"([\d,]+) for ([\d,]+),", row[2])
    assert len(found) == 3
    for size, pairs in found:
        text = TextSize(number(pairs), characters=100, words=10**6, target_tokens=10.0)
        assert by_text(text)["vocabulary_size"] == pytest.approx(number(size), rel=0.1)


def test_presets_by_the_number_of_pairs():
    (row,) = rows(TRAINING, "`--preset`")
    assert row[2].startswith("`tiny` below 10,000, `small` below a million (with")
    names = {
        pairs: by_text(TextSize(pairs, characters=100, words=10**6, target_tokens=10.0))["preset"]
        for pairs in (9999, 10_000, 999_999, 1_000_000)
    }
    assert list(names.values()) == ["tiny", "small", "small", "base"]


def test_table_of_presets():
    table = RECIPES.partition("## Presets")[2]
    found = [row for row in rows(table, "`") if row[0].strip("`") in PRESETS]
    assert [row[0] for row in found] == ["`tiny`", "`small`", "`base`", "`big`"]
    for name, layers, sizes, updates, tokens, _ in found:
        preset = PRESETS[name.strip("`")]
        assert layers == f"{preset.num_encoder_layers} + {preset.num_decoder_layers}"
        widths = preset.hidden_dim, preset.intermediate_dim, preset.num_heads
        assert tuple(map(number, sizes.split(", "))) == widths
        assert (number(updates), number(tokens)) == (preset.training_steps, preset.batch_tokens)


def test_cooldowns_of_the_recipes():
    sentence = (
        "The `multi30k_en_de` and `distilled` recipes use a cooldown of 0.3, and `adapt` uses 0.4."
    )
    assert sentence in TRAINING
    assert (Multi30kSettings.cooldown, DistilledSettings.cooldown) == (0.3, 0.3)
    assert AdaptSettings.cooldown == 0.4
    without = (Table3Settings, WMT14EnDeSettings, WMT14EnFrSettings, ParsingSettings)
    assert [settings.cooldown for settings in without] == [0, 0, 0, 0]
