"""Files around the code: workflows, templates and make targets say what is true."""

import re

import pytest
import yaml


def targets(root):
    makefile = (root / "Makefile").read_text("utf-8")
    rules = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
    assert rules == set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())
    return rules


def texts(root):
    """Pages for people, and what machines run."""
    yield from root.glob("*.md")
    for folder in ("docs", "benchmarks", "experiments", ".github"):
        yield from (root / folder).rglob("*.md")
    yield from (root / ".github").rglob("*.yml")
    yield from (root / ".ci").iterdir()
    yield root / ".pre-commit-config.yaml"


def test_every_make_target_that_is_mentioned_exists(root):
    # In code: after a backtick, a prompt's indent, a workflow's `run:`, or alone on a line.
    mention = re.compile(r"(?:`|^ {4,}|run: |^)make ([a-z][\w-]*)", re.MULTILINE)
    found = {
        name: path for path in texts(root) for name in mention.findall(path.read_text("utf-8"))
    }
    assert {"test", "check", "demo", "test-slow", "wheel-check"} <= found.keys()
    known = targets(root)
    assert {name: path for name, path in found.items() if name not in known} == {}


def test_ci_checks_tests_and_installs(root):
    lines = (root / ".ci" / "run").read_text("utf-8").splitlines()
    made = [line for line in lines if line.startswith("make ")]
    assert made == ["make check", "make test", "make wheel-check"]


def test_workflows_run_everything(root):
    flows = {
        path.stem: yaml.safe_load(path.read_text("utf-8"))
        for path in (root / ".github" / "workflows").glob("*.yml")
    }
    commands = {
        step["run"].removesuffix(" PYTHON=python")
        for flow in flows.values()
        for job in flow["jobs"].values()
        for step in job.get("steps", ())
        if "run" in step
    }
    assert {"make check", "make test", "make test-slow", "make wheel-check"} <= commands
    # YAML 1.1 reads the key `on` as a truth value.
    assert {"push", "pull_request"} <= flows["test"][True].keys()
    assert "schedule" in flows["nightly"][True]
    for flow in flows.values():
        assert flow["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in flow["jobs"].values() if "steps" in job)


@pytest.mark.parametrize("name", ["bug", "privacy-question", "new-model"])
def test_issue_forms(root, name):
    path = root / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    form = yaml.safe_load(path.read_text("utf-8"))
    assert form["name"]
    assert form["description"]
    names = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(names) == len(set(names)) > 0
    if name != "new-model":
        notice = form["body"][0]["attributes"]["value"]
        assert "SECURITY.md" in notice
        assert "Report a vulnerability" in notice
