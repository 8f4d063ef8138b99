"""docs/keras/tools.md: its examples run one after another, and do what the page says."""

import numpy as np

from tests.pages.page import Page, run_code

PAGE = Page("docs/keras/tools.md")


def test_its_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE.blocks("python"), str(PAGE.path))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == str(
        [f"encoder_layer_1/feed_forward/expand/lora_kernel_{letter}" for letter in "ab"]
    )
    assert printed[1] == "4"  # matrices: of attention two, of the feed-forward network two
    assert printed[2].startswith("embedding/token_embedding/matrix")
    assert printed[-1] == "LossScaleOptimizer"
    ids, scores = names["loaded"].generate([[7, 8, 9, 2]], extra_length=5)
    np.testing.assert_array_equal(ids, names["ids"])
    np.testing.assert_allclose(scores, names["scores"], atol=1e-5)


def test_a_filter_quantizes_only_the_layers_that_it_names():
    first, *others = PAGE.blocks("python")
    (example,) = (block for block in others if "filters=" in block)
    model = run_code([first, example], str(PAGE.path))["model"]
    quantized = {weight.path.split("/")[-2] for weight in model.weights if weight.dtype == "int8"}
    assert quantized == {"expand", "contract"}
