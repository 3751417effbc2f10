"""No list of models stands anywhere but in their folders: a new one is found by its declaration."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from privem.declaration import declarations

NAMES = {each.name for each in declarations()}
COMMANDS = {each.command for each in declarations()}
MANY = 3


def mentioned(node: ast.AST) -> set[str]:
    """The models that a piece of code names: classes, their imports, their names as strings."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found |= {name} & NAMES
            case ast.Constant(value=str(text)):
                found |= {text} & (NAMES | COMMANDS)
    return found


def lists(text: str) -> Iterator[tuple[int, set[str]]]:
    """Collections, branches and imports that name several models; annotations for types apart."""
    tree = ast.parse(text)
    checked_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    kinds = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Match, ast.If, ast.ImportFrom, ast.Import)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and node not in checked_only:
            names = mentioned(node)
            if len(names) >= MANY:
                yield node.lineno, names


def test_nobody_lists_models(root: Path) -> None:
    source = root / "src" / "privem"
    places = [p for p in source.rglob("*.py") if p.relative_to(source).parts[0] != "models"]
    places += [*(root / "tests" / "contracts").rglob("*.py"), root / "tests" / "examples.py"]
    assert len(places) > 50
    found = [
        f"{path.relative_to(root)}:{line}: {sorted(names)}"
        for path in places
        for line, names in lists(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "ALL = [KMeans, FactorAnalysis, GaussianMixture]",
        'KINDS = {"gmm": 1, "kmeans": 2, "fa": 3}',
        "from privem import KMeans, FactorAnalysis, GaussianMixture",
        "match a:\n  case 'KMeans': 1\n  case 'FactorAnalysis': 2\n  case 'SymmetricMixture': 3",
        "if a is KMeans: 1\nelif a is FactorAnalysis: 2\nelif a is GaussianMixture: 3",
    ],
)
def test_a_planted_list_is_found(text: str) -> None:
    assert list(lists(text))


@pytest.mark.parametrize(
    "text",
    [
        "from privem import KMeans, GaussianMixture",
        "if TYPE_CHECKING:\n    from a import KMeans, FactorAnalysis, GaussianMixture",
        'WORDS = "KMeans, FactorAnalysis and GaussianMixture"',
    ],
)
def test_what_is_no_list_passes(text: str) -> None:
    assert not list(lists(text))
