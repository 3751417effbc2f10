"""Who may import whom (docs/all-of-privem.md). Read from the source, so nothing is imported."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from privem.federation import protections

LEVELS = {
    "files": 0,
    "linalg": 0,
    "kernels": 0,
    "settings": 0,
    "core": 1,
    "declaration": 1,
    "families": 1.1,  # made-up records that declarations are drawn from
    "noise": 2,
    "accounting": 2,
    "data": 2,
    "schema": 2.1,  # what columns are; data/ cuts them into cells
    "blocks": 2.2,
    "parameters": 2.3,  # knows the largest number that sums are computed with
    "run": 2.3,  # also what a plan holds on to when its noise is drawn anew
    "em": 2.4,
    "meter": 2.4,  # and the statement of what it has counted
    "budget": 2.5,
    "bounds": 2.55,
    "ground": 2.6,
    "norms": 2.65,  # replaces the bounds of a ground
    "local": 2.6,
    "ledger": 3,
    "report": 3.5,  # shows models by what they say of themselves, and imports none
    "fit": 4,
    "estimator": 4,
    "models": 4,
    "federation": 4,
    "selection": 4.5,
    "sources": 5,
    "cli": 5,
    "datasets": 5,
    "demo": 5,
    "audit": 5,
    "planning": 5,
    "experiments": 5,
}
# The ground floor is one unit, and so is the top; in between siblings do not know each other.
SIBLINGS_MAY = {0, 4, 5}
# The loop knows the vocabulary and nothing else.
ONLY = {"run": {"core"}}
HEAVY = {"matplotlib", "dask", "tenseal", "flwr", "torch", "cupy", "psycopg", "opendp"}
HEAVY |= {"cryptography", "openfhe", "sqlalchemy"}


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """Absolute dotted names of everything imported, and the line; ``package`` is where we are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def _at_module_level(tree: ast.Module) -> ast.Module:
    """The statements that run on import: functions are cut away, ``if TYPE_CHECKING`` too."""

    class Cut(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return None

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_If(self, node):
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Cut().visit(tree)


def violations(path: Path, text: str) -> list[str]:
    """Everything wrong with the imports of one file; ``path`` is relative to src/."""
    module = ".".join(path.with_suffix("").parts)
    package = module.removesuffix(".__init__") if path.name == "__init__.py" else ""
    package = package or module.rpartition(".")[0]
    if module in ("privem.__init__", "privem.__main__"):
        return []
    me = path.parts[1].removesuffix(".py")
    if me not in LEVELS:
        return [f"{path}: unknown module {me!r}: give it a level in tests/test_layers.py"]
    found = []
    tree = ast.parse(text)
    for name, line in _imports(tree, package):
        top, _, rest = name.partition(".")
        where = f"{path}:{line}: {me}"
        if top == "sklearn" and any(part.startswith("_") for part in rest.split(".")):
            found.append(f"{where} imports the private {name}")
        if top != "privem":
            continue
        other = rest.partition(".")[0]
        if other in ("", "__version__") or other == me:
            continue
        if other not in LEVELS:
            if LEVELS[me] < 5:  # the top may use the public names of the package itself
                found.append(f"{where} imports privem.{other}, which has no level")
            continue
        level = LEVELS[other]
        if level > LEVELS[me]:
            found.append(f"{where} imports {other}, which is above it")
        elif level == LEVELS[me] and level not in SIBLINGS_MAY:
            found.append(f"{where} imports {other}, its sibling")
        elif other not in ONLY.get(me, {other}):
            found.append(f"{where} imports {other}; it may import {sorted(ONLY[me])} only")
    for name, line in _imports(_at_module_level(tree), package):
        if name.partition(".")[0] in HEAVY:
            found.append(f"{path}:{line}: {name} is heavy: import it inside the function using it")
    return found


def test_imports_point_down(root):
    source = root / "src"
    files = sorted((source / "privem").rglob("*.py"))
    assert len(files) > 30
    found = [v for f in files for v in violations(f.relative_to(source), f.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("privem/linalg.py", "from .core import Block", "above"),
        ("privem/linalg.py", "import privem.models.kmeans.estimator", "above"),
        ("privem/core.py", "from . import blocks", "above"),
        ("privem/core.py", "def f():\n    from privem.run import run", "above"),
        ("privem/noise/exact.py", "from ..data.sums import ArrayRows", "sibling"),
        ("privem/accounting/deep/er.py", "from ...noise import exact", "sibling"),
        ("privem/noise/__init__.py", "from ..data.sums import ArrayRows", "sibling"),
        ("privem/run.py", "from .linalg import Array", "only"),
        ("privem/blocks/region.py", "from ..models.kmeans import model", "above"),
        ("privem/novel.py", "import numpy", "unknown module 'novel'"),
        ("privem/models/kmeans/model.py", "from ...novel import thing", "no level"),
        ("privem/cli/main.py", "import matplotlib.pyplot as plt", "heavy"),
        ("privem/demo.py", "class A:\n    from torch import nn", "heavy"),
        ("privem/demo.py", "try:\n    import dask\nexcept ImportError:\n    pass", "heavy"),
        ("privem/estimator/base.py", "from sklearn.utils._param_validation import X", "private"),
        ("privem/estimator/base.py", "from sklearn.utils import _safe_indexing", "private"),
        ("privem/estimator/base.py", "import sklearn.cluster._kmeans", "private"),
    ],
)
def test_a_planted_violation_is_caught(path, text, complaint):
    assert any(complaint in v for v in violations(Path(path), text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("privem/models/kmeans/model.py", "from ..core import Block\nfrom .moments import Frame"),
        ("privem/models/kmeans/model.py", "from privem.models import moments"),
        (
            "privem/models/gaussian_mixture/plan.py",
            "from ..noise.exact import Exact\nfrom ..models import kmeans",
        ),
        ("privem/kernels/whitened.py", "from ..linalg import Array"),
        ("privem/cli/main.py", "from .. import GaussianMixture, __version__"),
        ("privem/demo.py", "def f():\n    import matplotlib"),
        ("privem/demo.py", "if TYPE_CHECKING:\n    from torch import Tensor"),
        ("privem/estimator/base.py", "from sklearn.utils.validation import validate_data"),
    ],
)
def test_what_is_allowed_passes(path, text):
    assert violations(Path(path), text) == []


def kinds_of_rows(source: Path) -> set[str]:
    """The classes of rows that data/ knows."""
    files = (source / "privem" / "data").rglob("*.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    classes = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return {name for name in classes if name.endswith("Rows")}


def questions(text: str, kinds: set[str], names: set[str]) -> list[int]:
    """Lines that ask what kind of rows something is, or that compare a protection's name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                inner = {part.id for part in ast.walk(asked) if isinstance(part, ast.Name)}
                wrong = bool(inner & kinds)
            case ast.MatchClass(cls=ast.Name(id=name)):
                wrong = name in kinds
            case ast.Compare() | ast.MatchValue():
                texts = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
                wrong = any(part.value in names for part in texts if isinstance(part.value, str))
            case _:
                continue
        if wrong:
            found.append(node.lineno if hasattr(node, "lineno") else node.cls.lineno)
    return found


def test_nobody_asks_what_kind_of_rows_or_which_protection(root):
    """But data/, and the protections themselves."""
    source, known = root / "src", protections.names()
    kinds = kinds_of_rows(source)
    assert {"ArrayRows", "ScanRows", "DeviceRows", "ClusterRows"} <= kinds
    names = set(known) - {"plain"}  # an English word; nobody else has the others
    found = []
    for path in (source / "privem").rglob("*.py"):
        of_data = "data" in path.relative_to(source).parts[:-1]
        of_protections = "protections" in path.parts
        text = path.read_text("utf-8")
        asked = set() if of_data else kinds
        lines = questions(text, asked, set() if of_protections else names)
        found += [f"{path.relative_to(source)}:{line}" for line in lines]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, ArrayRows)",
        "isinstance(x, int | data.sums.ArrayRows | ArrayRows)",
        "match x:\n    case ArrayRows(): pass",
        "x.protection == 'masked'",
        "x in ('masked', 'b')",
        "match x:\n    case 'masked': pass",
    ],
)
def test_a_planted_question_is_found(text):
    assert questions(text, {"ArrayRows"}, {"masked"})


def test_no_file_is_long(root):
    files = (root / "src").rglob("*.py")
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in files}
    assert len(lengths) > 200
    assert [path for path, length in lengths.items() if length > 400] == []
