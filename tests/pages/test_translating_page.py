"""What docs/translating.md shows is what the program does."""

from tests.pages.page import Page


def test_the_code_runs_from_top_to_bottom(untrained_run, capsys):
    Page("docs/translating.md").run_code()
    output = capsys.readouterr().out.splitlines()
    assert output[0].endswith(", '']")
    assert output[1].startswith("['Das")
    assert len(output) == 2 + 3 + 1 + 2
