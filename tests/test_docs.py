"""The documentation is true and readable: its code runs, its links and names lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from privem.cli import app

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "privem"
# Without those that are made from docstrings when the site is built.
PAGES = [
    page
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if page.parent.name != "reference"
]
WIDTH = 120


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path, language: str) -> list[str]:
    text = page.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/index.md",
        "docs/models.md",
        "docs/tables.md",
        "docs/adding-a-model.md",
        "docs/federation.md",
        "docs/ledger.md",
        "docs/report.md",
        "docs/planning.md",
        "docs/selection.md",
        "docs/start/scikit-learn.md",
        "docs/start/hospitals.md",
    ],
)
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = fences(ROOT / name, "python")
    assert blocks
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, name, "exec"), namespace)
    if name == "README.md":
        # The example prints five means of six columns, and the statement, with six pairs of bounds.
        printed = capsys.readouterr().out
        assert printed.count("[") == 6 + 6
        assert "(1, 1e-06)-differentially private" in printed
        assert (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("table", {"stays.parquet", "schema.toml", "synthetic.parquet", "report.png"}),
        ("officer", {"demo", "budget.db", "model.json", "report.html"}),
    ],
)
def test_first_pages_can_be_followed(
    name: str, made: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python, commands and the schema in the order of the page, in an empty folder."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra ledger is not installed")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = (ROOT / "docs" / "start" / f"{name}.md").read_text("utf-8")
    blocks = re.compile(
        r"^```(python|toml)\n(.*?)^```|^    (privem [^\n]+)$", re.DOTALL | re.MULTILINE
    )
    for language, block, command in blocks.findall(re.sub(r"^    pip .*$", "", text, flags=re.M)):
        if language == "python":
            exec(compile(block, name, "exec"), namespace)
        elif language == "toml":
            (tmp_path / "schema.toml").write_text(block, "utf-8")
        else:
            words = shlex.split(re.sub(r"\s#\s.*", "", command))[1:]
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, f"{command}\n{result.stderr}"
    assert made <= {path.name for path in tmp_path.iterdir()}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        if (ROOT / "docs" / "reference") in found.resolve().parents:
            continue  # made when the site is built; tests/site looks at it
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page: Path) -> None:
    """Tables and lines with an address may be longer."""
    long = [
        f"line {number}: {len(line)} characters"
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if len(line) > WIDTH and not line.lstrip().startswith("|") and "://" not in line
    ]
    assert long == []


def test_papers_are_cited_by_author() -> None:
    """Our numbers for the papers, 000 to 004, appear in docs/papers.md only."""
    number = re.compile(r"(?<![\d.,_])00[0-4](?![\d,]*\d)")
    files = [*PAGES, *SOURCE.rglob("*.py")]
    found = [
        f"{name_of(file)}:{at}: {line.strip()}"
        for file in files
        if file != ROOT / "docs" / "papers.md"
        for at, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if number.search(line)
    ]
    assert found == []


def test_cited_works_are_listed() -> None:
    """Every "Author 2020" on a page or in the code is in the tables of docs/papers.md."""
    listed = (ROOT / "docs" / "papers.md").read_text("utf-8")
    cited = re.compile(r"([A-Z]\w+(?:(?:, [A-Z]\w+)* and [A-Z]\w+| et al\.)?) \(?((?:19|20)\d\d)\b")
    places = ("CCS", "ECAI", "AISTATS", "December", "Fall")  # a year may also follow these
    missing = set()
    for file in [*PAGES, *SOURCE.rglob("*.py")]:
        text = re.sub(r"\s+(?:#\s*)?", " ", file.read_text("utf-8"))
        for author, year in cited.findall(text):
            if author not in places and f"{author} {year}" not in listed:
                missing.add(f"{name_of(file)}: {author} {year}")
    assert missing == set()


def modules() -> dict[str, Path]:
    """Every module by its dotted path below privem."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def resolves(name: str, known: dict[str, Path]) -> bool:
    """Whether a dotted name is a module, or something that a module defines."""
    for cut in range(name.count(".") + 1):
        module, *rest = name.rsplit(".", cut) if cut else (name,)
        matches = [p for m, p in known.items() if m == module or m.endswith("." + module)]
        for path in matches:
            text = path.read_text("utf-8")
            if all(re.search(rf"\b{re.escape(part)}\b", text) for part in rest):
                return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_of_code_exist(page: Path) -> None:
    """Paths of files, and dotted names that begin with a package of ours, in backticks."""
    if page.name == "CHANGELOG.md":
        return  # it names what there was
    known = modules()
    # Packages that there were once, so that an old name does not pass for somebody else's.
    packages = {name.partition(".")[0] for name in known} | {"sources", "plans", "estimators"}
    files = {name_of(path) for path in ROOT.rglob("*") if ".git" not in path.parts}
    wrong = []
    for code in re.findall(r"`([^`\n]+)`", prose(page)):
        if re.fullmatch(r"[\w./-]+\.py|(?:tests|src|benchmarks|experiments)/[\w./-]*", code):
            path = code.rstrip("/")
            if not any(file == path or file.endswith("/" + path) for file in files):
                wrong.append(code)
        elif re.fullmatch(r"[a-z_]+(?:\.\w+)+", code):
            name = code.removeprefix("privem.")
            if name.partition(".")[0] in packages and not resolves(name, known):
                wrong.append(code)
    assert wrong == []


def drawn() -> list[str]:
    """The paths below src/privem in the diagram of docs/all-of-privem.md."""
    (tree,) = [
        block
        for block in fences(ROOT / "docs" / "all-of-privem.md", "text")
        if block.startswith("src/privem/")
    ]
    paths: list[str] = []
    folders: list[str] = []
    for line in tree.splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        names = re.match(r"\s*((?:[\w<>/.]+(?:, )?)+)", line)
        assert names, line
        folders = folders[:depth]
        for name in names[1].split(", "):
            paths.append("/".join([*folders, name.rstrip("/")]))
        if names[1].endswith("/"):
            folders.append(names[1].rstrip("/"))
    return paths


def test_the_diagram_is_true() -> None:
    """Everything drawn exists, and every module and package at the top is drawn."""
    paths = drawn()
    for path in paths:
        if "<" in path:
            folders = [f for f in (SOURCE / "models").iterdir() if (f / "declaration.py").exists()]
            assert folders
            continue
        assert (SOURCE / path).exists(), path
    top = {
        path.name
        for path in SOURCE.iterdir()
        if not path.name.startswith(("_", "py.typed")) and path.suffix in ("", ".py")
    }
    assert top - {path.partition("/")[0] for path in paths} == set()


def test_every_proof_and_report_is_in_the_index_of_evidence() -> None:
    index = (ROOT / "docs" / "evidence.md").read_text("utf-8")
    pages = [*(ROOT / "docs" / "proofs").glob("*.md"), *ROOT.glob("experiments/*/README.md")]
    links = {page: os.path.relpath(page, ROOT / "docs") for page in pages}
    assert [name_of(page) for page, link in links.items() if f"]({link})" not in index] == []
    # And in the navigation of the site.
    missing = [link for link in links.values() if f"<{link.removesuffix('.md')}>" not in index]
    assert missing == []
