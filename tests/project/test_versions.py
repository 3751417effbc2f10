"""Files that name a version, of privem or of what it needs, agree with each other."""

import importlib.metadata
import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import privem


@pytest.fixture(scope="module")
def pyproject(root):
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def pinned(root):
    """The versions in constraints.txt."""
    lines = (root / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {name: Version(version) for name, version in pairs}


def requirements(pyproject, *, tools):
    """What is needed to run privem, or to develop it too; the extra `all` only names others."""
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras if name != "all")]
    if tools:
        lists += pyproject["dependency-groups"].values()
    return [Requirement(need) for needs in lists for need in needs]


def test_the_version_is_the_same_everywhere(root):
    installed = importlib.metadata.version("privem")
    assert installed == privem.__version__, "`make test` installs privem again"
    version = Version(privem.__version__)
    release = version.base_version
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == privem.__version__
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE)
    if version.is_devrelease:
        assert privem.__version__ == f"{release}.dev0"
        assert sections[0] == ("Unreleased", "")
        assert release not in dict(sections)
        assert "date-released" not in citation
    else:
        assert sections[0] == (release, str(citation["date-released"]))
    # From newest to oldest, and none twice.
    released = [Version(name) for name, _ in sections if name != "Unreleased"]
    assert released == sorted(set(released), reverse=True)
    policy = (root / "SECURITY.md").read_text("utf-8")
    series = re.findall(r"^\| (\d+\.\d+)( \(in development\))? \|", policy, re.MULTILINE)
    assert series[0][0] == f"{version.major}.{version.minor}"
    developing = not any(f"{v.major}.{v.minor}" == series[0][0] for v in released)
    assert bool(series[0][1]) == developing


def test_the_citation_is_about_this_project(root, pyproject):
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    project = pyproject["project"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["title"] == f"{project['name']}: {project['description']}"


def test_python_versions_are_those_of_the_workflow(root, pyproject):
    prefix = "Programming Language :: Python :: 3."
    minors = [
        int(line.removeprefix(prefix))
        for line in pyproject["project"]["classifiers"]
        if line.startswith(prefix)
    ]
    lowest, newest = min(minors), max(minors)
    assert pyproject["project"]["requires-python"] == f">=3.{lowest},<3.{newest + 1}"
    assert pyproject["tool"]["mypy"]["python_version"] == f"3.{lowest}"
    assert pyproject["tool"]["ruff"]["target-version"] == f"py3{lowest}"
    workflow = yaml.safe_load((root / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    every = [f"3.{minor}" for minor in minors]
    for job in ("test", "wheel"):
        assert workflow["jobs"][job]["strategy"]["matrix"]["python"] == every
    ends = workflow["jobs"]["versions"]["strategy"]["matrix"]["include"]
    assert [(end["versions"], end["python"]) for end in ends] == [
        ("lowest", f"3.{lowest}"),
        ("newest", f"3.{newest}"),
    ]


def test_every_dependency_has_a_lowest_version(pyproject):
    for need in requirements(pyproject, tools=False):
        assert ">=" in {bound.operator for bound in need.specifier}, need


def test_every_dependency_is_pinned_within_its_bounds(pyproject, pinned):
    for need in requirements(pyproject, tools=True):
        assert pinned[need.name] in need.specifier, need


def test_hooks_use_pinned_tools(root, pyproject, pinned):
    """Those of `make check` where there is one, else a package of an exact version."""
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text("utf-8"))
    tools = {Requirement(need).name for need in pyproject["dependency-groups"]["check"]}
    for repository in config["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            if hook["language"] == "system":
                tool = re.match(r"\.venv/bin/(\w+)", hook["entry"])[1]
                assert tool in tools & pinned.keys()
            else:
                assert hook["language"] == "python"
                for need in map(Requirement, hook["additional_dependencies"]):
                    assert [bound.operator for bound in need.specifier] == ["=="]


def test_badges_are_true(pyproject, root):
    words = re.findall(r"<text[^>]*>([^<]+)<", (root / "docs" / "badges.svg").read_text("utf-8"))
    badges = dict(zip(words[::2], words[1::2], strict=True))
    known = pyproject["project"]["classifiers"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(known))
    status = next(each for each in known if each.startswith("Development Status"))
    assert badges == {
        "Python": " | ".join(pythons),
        "licence": pyproject["project"]["license"],
        "status": status.rpartition(" - ")[2].lower(),
    }
