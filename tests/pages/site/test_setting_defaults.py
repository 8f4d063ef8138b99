"""What the API reference shows as the default of a setting."""

import pytest

from tests.pages.page import ROOT

griffe = pytest.importorskip("griffe", reason="the extra `docs` is not installed")

MODULE = """
import dataclasses
from keras_transformer import argument_checks
from keras_transformer.settings import setting, switch

@dataclasses.dataclass(frozen=True)
class Training:
    steps: int = setting(500, "the loss is flat by then", minimum=1)
    dropout: float | None = argument_checks.setting(None, "the preset's")
    packed: str = switch("on where it helps")
    names: list[str] = dataclasses.field(default_factory=list)
    seed: int = 1
"""


def test_signatures_have_values(tmp_path):
    (tmp_path / "documented.py").write_text(MODULE)
    extensions = griffe.load_extensions(str(ROOT / "docs" / "tools" / "setting_defaults.py"))
    module = griffe.load("documented", search_paths=[tmp_path], extensions=extensions)
    parameters = module["Training"].parameters
    assert {one.name: str(one.default) for one in parameters if one.name != "self"} == {
        "steps": "500",
        "dropout": "None",
        "packed": '"auto"',
        "names": "list()",
        "seed": "1",
    }
