"""What the package promises: its names, their documentation, its extras."""

import doctest
import importlib
import inspect
import re
import tomllib

import pytest

import privem
from privem.declaration import declarations

# The public names that are not models; those are what their folders declare.
OTHERS = {
    "BoundsNotFound",
    "Budget",
    "BudgetExceeded",
    "Ledger",
    "LedgerError",
    "ModelFileError",
    "PrivacyCompositionWarning",
    "PrivateMean",
    "Schema",
    "load",
    "plan",
    "private_mean",
    "private_scores",
    "select",
}
MODELS = sorted(each.name for each in declarations())
NAMES = {*OTHERS, *MODELS}
GPU = {"torch", "cupy"}


def test_all_is_what_is_documented(root):
    assert set(privem.__all__) == NAMES
    pages = [
        (root / "docs" / page).read_text("utf-8") for page in ("all-of-privem.md", "models.md")
    ]
    # An error is documented where it is raised.
    documented = "".join([*pages, inspect.getdoc(privem.load)])
    assert [name for name in NAMES if name not in documented] == []


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_object_is_explained_with_an_example(name):
    thing = getattr(privem, name)
    text = inspect.getdoc(thing)
    assert text
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert ">>>" in text, f"privem.{name} has no example"


PACKAGES = [
    "privem",
    *(f"privem.{p}" for p in ("audit", "data", "datasets", "federation", "report")),
]
PUBLIC = [
    (package, name)
    for package in PACKAGES
    for name in importlib.import_module(package).__all__
    if callable(getattr(importlib.import_module(package), name))
]


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_every_public_name_has_an_example_that_doctest_runs(package, name):
    """Classes and functions; an error is explained by the example of what raises it."""
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        assert inspect.getdoc(thing)
        return
    # Its own docstring: a class without one would show that of its parent.
    examples = doctest.DocTestParser().get_examples(thing.__doc__ or "")
    assert examples, f"{package}.{name} has no example"
    skipped = [each.source for each in examples if doctest.SKIP in each.options]
    assert len(skipped) < len(examples), f"doctest runs no example of {package}.{name}"
    assert any(each.want for each in examples), f"no example of {package}.{name} has an output"


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_and_method_is_documented(name):
    cls = getattr(privem, name)
    text = inspect.getdoc(cls)
    parameters = text[text.index("Parameters\n") : text.index("Attributes\n")]
    undocumented = [
        p
        for p in inspect.signature(cls).parameters
        if not re.search(rf"^[\w, ]*\b{p}\b[\w, ]* :", parameters, re.MULTILINE)
    ]
    assert undocumented == []
    bare = [
        method
        for method, function in inspect.getmembers(cls, inspect.isfunction)
        if not method.startswith("_") and function.__module__.startswith("privem")
        if not inspect.getdoc(function)
    ]
    assert bare == []


def test_all_extra_covers_every_extra_but_the_gpu_ones(root):
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    covered = set()
    for requirement in extras["all"]:
        match = re.fullmatch(r"privem\[([\w,\s-]+)\]", requirement)
        assert match, f"`all` should name extras, not {requirement!r}"
        covered |= {name.strip() for name in match[1].split(",")}

    def on_gpu(requirements):
        return any(re.match(r"[\w-]+", r)[0].partition("-")[0] in GPU for r in requirements)

    expected = {name for name, needs in extras.items() if name != "all" and not on_gpu(needs)}
    assert covered == expected


def test_type_checkers_know_every_public_name(root):
    """The lines under TYPE_CHECKING are the only list of models; folders are found without it."""
    source = (root / "src" / "privem" / "__init__.py").read_text("utf-8")
    listed = re.findall(r"^    from \.(\S+) import \(?\s*(\w+) as (\w+)", source, re.MULTILINE)
    assert {name for _, name, again in listed if name == again} == NAMES
    for module, name, _ in listed:
        assert getattr(privem, name).__module__ == f"privem.{module}"
