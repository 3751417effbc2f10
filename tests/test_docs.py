"""The code on the documentation's pages runs, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "name", ["README.md", "docs/models.md", "docs/adding-a-model.md", "docs/federation.md"]
)
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = python_blocks(ROOT / name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_picture_of_the_layers_names_every_package() -> None:
    text = (ROOT / "docs" / "all-of-privem.md").read_text()
    for path in (ROOT / "src" / "privem").iterdir():
        if path.name.startswith("_") or path.suffix not in ("", ".py"):
            continue
        assert re.search(rf"\b{path.stem}\b", text), path.stem
