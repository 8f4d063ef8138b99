"""Every block of code in the documentation is run by a test, or listed here with the reason."""

import re

import pytest

from tests.pages.page import ROOT, Page

PAGES = ["README.md", "CONTRIBUTING.md"] + [
    str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md"))
]
# The test that runs the Python blocks of a page.
RUN_PYTHON = {
    "README.md": "tests/pages/test_readme.py",
    "docs/app.md": "tests/app/test_guide.py",
    "docs/attention.md": "tests/pages/test_code_of_pages.py",
    "docs/ctranslate2.md": "tests/pages/test_ctranslate2_page.py",
    "docs/data.md": "tests/pages/test_data_page.py",
    "docs/evalb.md": "tests/pages/test_evalb_page.py",
    "docs/tutorials/get_started.md": "tests/pages/tutorials/test_get_started.py",
    "docs/keras/coming_from_keras_hub.md": "tests/pages/keras/names/test_names_of_others.py",
    "docs/keras/coming_from_pipeline.md": "tests/pages/keras/test_coming_from_pipeline.py",
    "docs/keras/tools.md": "tests/pages/keras/test_keras_tools_page.py",
    "docs/layers.md": "tests/pages/test_layers_page.py",
    "docs/litert.md": "tests/pages/test_litert_page.py",
    "docs/models.md": "tests/runs/test_shipped_models.py",
    "docs/opus_mt.md": "tests/interop/test_opus_mt_page.py",
    "docs/parsing.md": "tests/pages/test_parsing_page.py",
    "docs/scaling.md": "tests/pages/test_scaling_page.py",
    "docs/serving.md": "tests/pages/test_serving_page.py",
    "docs/text.md": "tests/pages/test_code_of_pages.py",
    "docs/the_paper.md": "tests/pages/the_paper/test_the_paper_page.py",
    "docs/training.md": "tests/training/test_own_script.py",
    "docs/translating.md": "tests/pages/test_code_of_pages.py",
    "docs/tutorials/docker_compose.md": "tests/pages/tutorials/test_docker_compose.py",
    "docs/tutorials/language_pair.md": "tests/pages/tutorials/test_language_pair.py",
    "docs/tutorials/terms.md": "tests/pages/tutorials/test_terms_and_web_page.py",
    "docs/tutorials/text_classifier.md": "tests/pages/tutorials/test_text_classifier.py",
    "docs/tutorials/web_page.md": "tests/pages/tutorials/test_terms_and_web_page.py",
}
# The test that runs the shell blocks of a page, but for the commands below.
RUN_SHELL = {
    "docs/app.md": "tests/app/test_guide.py",
    "docs/evalb.md": "tests/pages/test_evalb_page.py",
    "docs/scaling.md": "tests/pages/test_scaling_page.py",
    "docs/serving.md": "tests/pages/test_serving_page.py",
    "docs/tutorials/docker_compose.md": "tests/pages/tutorials/test_docker_compose.py",
    "docs/tutorials/fine_tune.md": "tests/pages/tutorials/test_fine_tune.py",
    "docs/tutorials/get_started.md": "tests/pages/tutorials/test_get_started.py",
    "docs/tutorials/language_pair.md": "tests/pages/tutorials/test_language_pair.py",
    "docs/tutorials/terms.md": "tests/pages/tutorials/test_terms_and_web_page.py",
    "docs/tutorials/web_page.md": "tests/pages/tutorials/test_terms_and_web_page.py",
}
# How a command or a block begins, and why no test runs it as it stands.
NOT_RUN = {
    ". .venv/bin/activate": "would change the environment of the tests",
    ".venv/bin/python -m pytest": "runs tests",
    "cd ": "enters the clone, where the tests are",
    "cp --recursive": "makes an Android project, which needs the Android SDK",
    "cp exports/en_de_litert/": "copies into that project",
    "curl --location": "downloads: the tests write files of the same form",
    "docker ": "no Docker here: tests/deploy and test_serving_page.py compare its arguments",
    "echo ": "a sentence for `keras-transformer translate`: see there",
    "export KERAS_BACKEND": "would change the backend: `make test-jax` and `test-torch` do",
    "from keras_transformer.layers.positions": "names alone: test_api_pages.py imports them",
    "git clone": "downloads",
    "gradle ": "no Android SDK here: test_android_app.py compiles what it can",
    "keras-transformer ": "reads the reader's runs and texts: test_every_page.py parses it, and "
    "tests/smoke runs each verb",
    "kubectl ": "no cluster here: tests/deploy/test_kubernetes.py checks what it applies",
    "mkdir ": "a folder of the Android project",
    "make ": "installs, or runs tests and benchmarks: test_every_page.py knows each target",
    "pip ": "installs: tests/distribution does, without the network",
    "printf ": "sentences for `keras-transformer translate`: see there",
    "python -m recipes.": "trains for hours: test_every_page.py parses it, tests/recipes trains",
    "sbatch ": "no Slurm here: tests/deploy/test_slurm.py runs the script",
}
# Pages of results have commands as they were typed for the measurements.
MEASURED = ("docs/results.md", "docs/lab/")


def blocks(page, language):
    return [] if page.startswith(MEASURED) else Page(page).blocks(language)


def commands(page):
    """The lines of a page's shell blocks, without comments and leading variables."""
    found = []
    for block in blocks(page, "sh"):
        lines = block.replace("\\\n", " ").splitlines()
        stripped = (re.sub(r"^((?!export)\w+=\S+\s+)+", "", line.strip()) for line in lines)
        found += [line for line in stripped if line and not line.startswith("#")]
    return found


def is_listed(text):
    return any(text.startswith(start) for start in NOT_RUN)


@pytest.mark.parametrize("page", PAGES)
def test_python_is_run_or_listed(page):
    others = [block for block in blocks(page, "python") if not is_listed(block)]
    assert others == [] or page in RUN_PYTHON


@pytest.mark.parametrize("page", PAGES)
def test_shell_is_run_or_listed(page):
    others = [command for command in commands(page) if not is_listed(command)]
    assert others == [] or page in RUN_SHELL, others


@pytest.mark.parametrize(
    ("page", "test", "language"),
    [(page, test, "python") for page, test in RUN_PYTHON.items()]
    + [(page, test, "sh") for page, test in RUN_SHELL.items()],
)
def test_what_is_said_to_run_a_page_reads_it(page, test, language):
    text = (ROOT / test).read_text("utf-8")
    assert f'Page("{page}")' in text
    assert blocks(page, language)
    reads = {"python": r"run_(code|examples)\(", "sh": r"commands\("}
    assert re.search(rf'{reads[language]}|blocks\("{language}"\)', text)


def test_nothing_is_listed_in_vain():
    texts = [text for page in PAGES for text in [*commands(page), *blocks(page, "python")]]
    assert [start for start in NOT_RUN if not any(text.startswith(start) for text in texts)] == []
