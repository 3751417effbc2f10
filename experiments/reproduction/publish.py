"""Results of full runs, into the papers' folders, their READMEs and docs/reproduction.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privem.files import write_whole

from .claims import FAILS, HOLDS, REPAIRED, Paper
from .store import text

PAGE = Path("docs", "reproduction.md")
HEAD = f"""# What holds of the five papers

Every claim, figure and table of the [papers](papers.md) that privem builds on, and what came out
here. `privem reproduce list` shows them, `privem reproduce NAME` runs one again, from a checkout.

- **{HOLDS}**: as the paper says.
- **{REPAIRED}**: not as printed; with the paper's method repaired, as [errata](errata.md) explains.
- **{FAILS}**: we find otherwise.
- **not run**: the data cannot be had here, or nothing is published yet.

Our numbers are medians, with the lowest and the highest in brackets, and in square brackets how
many repetitions they rest on; a number without is a calculation. Noise is from a seed, so that the
same comes out again: no model made here carries a promise. This page is made by
`privem reproduce NAME --publish` from the results in the papers' folders.

Privacy against utility, for every k-means and mixture that could be run, is in two tables of the
report on Park et al. 2017: [peers](../experiments/park2017/README.md#peers) and
[recipes](../experiments/park2017/README.md#recipes).
"""


def publish(results: Sequence[Path], papers: Sequence[Paper], root: Path) -> list[Path]:
    """Take over results of full runs, and write everything that shows them; what was written."""
    written = []
    by_name = {paper.name: paper for paper in papers}
    for path in results:
        found = json.loads(path.read_text("utf-8"))
        if found["quick"]:
            raise ValueError(f"{path} is of a quick run, which is not published")
        del found["rows"]  # Thousands of numbers, which the picture shows.
        name, _, key = found["id"].partition("-")
        folder = by_name[name].folder / "results"
        folder.mkdir(exist_ok=True)
        found["files"] = {"results": f"{key}.json"}
        picture = path.with_suffix(".png")
        if picture.exists():
            found["files"]["picture"] = f"{key}.png"
            written.append(_write(folder / f"{key}.png", picture.read_bytes()))
        written.append(_write(folder / f"{key}.json", text(found).encode()))
    for paper in papers:
        readme = paper.folder / "README.md"
        if readme.exists():
            before = readme.read_text("utf-8")
            written.append(_write(readme, filled(before, paper).encode()))
    return [*written, _write(root / PAGE, page(papers).encode())]


def _write(path: Path, content: bytes) -> Path:
    with write_whole(path) as temporary:
        temporary.write_bytes(content)
    return path


def published(paper: Paper, key: str) -> dict[str, Any] | None:
    """The published result of a claim, if there is one."""
    path = paper.folder / "results" / f"{key}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def page(papers: Sequence[Paper]) -> str:
    """docs/reproduction.md."""
    parts = [HEAD]
    for paper in papers:
        about = paper.expected
        parts.append(f"## {about['paper']}\n\n*{about['title']}*")
        parts.append(f"[The report](../experiments/{paper.name}/README.md).\n")
        rows = [row for key in about["claims"] for row in _lines(paper, key, named=True)]
        parts.append("| claim | the paper says | its number | ours | verdict | reason |")
        parts.append("|---|---|---|---|---|---|")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def filled(readme: str, paper: Paper) -> str:
    """A README with the newest pictures and verdicts between its marks."""

    def section(match: re.Match[str]) -> str:
        key, found = match[1], published(paper, match[1])
        told = paper.expected["claims"][key]
        lines = [f"<!-- {key} -->"]
        if found is not None and "picture" in found["files"]:
            lines += [f"![{told['title']}](results/{found['files']['picture']})", ""]
        lines += [
            "| the paper says | its number | ours | verdict | reason |",
            "|---|---|---|---|---|",
        ]
        lines += _lines(paper, key, named=False)
        if found is not None:
            lines += _table(found.get("table", []))
            lines += ["", _fine_print(found)]
        return "\n".join([*lines, "<!-- end -->"])

    names = "|".join(map(re.escape, paper.expected["claims"]))
    return re.sub(rf"<!-- ({names}) -->\n.*?<!-- end -->", section, readme, flags=re.DOTALL)


def _table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text, of which the first is the head, after an empty line."""
    if not lines:
        return []
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return ["", head, "|" + "---|" * len(lines[0]), *rest]


def _fine_print(found: dict[str, Any]) -> str:
    minutes = found["seconds"] / 60
    took = f"{minutes:.0f} minutes" if minutes >= 2 else f"{found['seconds']:.0f} seconds"
    return f"`privem reproduce {found['id']}`: {took} of one core. In square brackets: repetitions."


def _lines(paper: Paper, key: str, named: bool) -> Iterator[str]:
    """A row for each statement of a claim."""
    told, found = paper.expected["claims"][key], published(paper, key)
    for name, statement in told["statements"].items():
        cells = [statement["says"], statement.get("paper", "")]
        finding = None if found is None else found["findings"].get(name)
        if finding is None:
            later = "a statement that is newer than the last run"
            cells += ["", "not run", told.get("missing", "") if found is None else later]
        else:
            count = finding["repetitions"]
            ours = finding["ours"] + (f" [{count}]" if count else "")
            cells += [ours, f"**{finding['verdict']}**", finding["reason"]]
        shown = [" ".join(str(cell).replace("|", "\\|").split()) for cell in cells]
        yield f"| {' | '.join([f'`{paper.name}-{key}`', *shown] if named else shown)} |"
