"""The workflows of CI: pinned actions, few permissions, and the parts that the Makefile has."""

import re

import pytest
import yaml

from tests.pages.page import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.yml"))}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}


def steps():
    return [
        step
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for step in job["steps"]
    ]


def test_every_action_is_pinned_to_one_commit_with_its_version():
    lines = [line for text in TEXTS.values() for line in text.splitlines() if "uses:" in line]
    pins = [
        re.fullmatch(r" +(?:- )?uses: (\S+)@([0-9a-f]{40}) # (v[\d.]+)", line) for line in lines
    ]
    assert [line for line, pin in zip(lines, pins, strict=True) if pin is None] == []
    actions = {pin[1] for pin in pins}
    assert len({pin.groups() for pin in pins}) == len(actions)
    assert "pypa/gh-action-pypi-publish" in actions


@pytest.mark.parametrize("name", TEXTS)
def test_a_workflow_may_read_and_a_job_says_what_more_it_may(name):
    assert WORKFLOWS[name]["permissions"] in ({}, {"contents": "read"})


def test_only_the_jobs_that_publish_may_write():
    writing = {
        (name, job): sorted(key for key, value in each["permissions"].items() if value == "write")
        for name, workflow in WORKFLOWS.items()
        for job, each in workflow["jobs"].items()
        if "write" in each.get("permissions", {}).values()
    }
    assert writing == {
        ("release.yml", "publish"): ["id-token"],
        ("release.yml", "github-release"): ["attestations", "contents", "id-token"],
        ("release.yml", "pages"): ["id-token", "pages"],
    }


def test_no_checkout_leaves_its_token_behind():
    checkouts = [step for step in steps() if "actions/checkout" in step.get("uses", "")]
    assert len(checkouts) == 6
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_nothing_is_published_that_was_not_checked():
    jobs = WORKFLOWS["release.yml"]["jobs"]
    assert jobs["publish"]["needs"] == ["check", "site"]
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["github-release"]["needs"] == jobs["pages"]["needs"] == "publish"
    commands = " ".join(step.get("run", "") for step in jobs["check"]["steps"])
    assert 'release-check ARGS="--all --tag $GITHUB_REF_NAME --outdir dist' in commands


def test_the_weekly_run_has_every_part_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (parts,) = re.findall(r"^PARTS := (.+)$", makefile, re.MULTILINE)
    matrix = WORKFLOWS["all_tests.yml"]["jobs"]["part"]["strategy"]["matrix"]
    assert matrix["part"] == [*parts.split(), "jax", "torch"]


def test_folders_that_the_workflows_test_exist():
    commands = " ".join(step.get("run", "") for step in steps())
    paths = re.findall(r"tests/[\w/.]+", commands)
    assert "tests/layers" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
