"""privem reproduce: a toy paper, run whole and quickly, again, after a kill, with failing cells."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from privem.cli import app
from privem.cli import reproduce as command

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = {
    "paper": "Toy 2020",
    "title": "On Means",
    "claims": {
        "fig1": {
            "title": "A mean against n",
            "statements": {"near": {"says": "the mean is near | zero", "paper": "0"}},
        },
        "table1": {"title": "A sum", "statements": {"sum": {"says": "one and one", "paper": "2"}}},
    },
}
RUN = """
import os
import time
from pathlib import Path

import numpy as np

from privem import GaussianMixture
from privem.datasets import DataNotFound
from reproduction import FAILS, HOLDS, Claim, Finding, Rows, grid, spread
from reproduction.pictures import legend, line, panels

VERSION = 1
CALLS = Path(__file__).with_name("calls")


def mean(n: int, repetition: int) -> dict:
    with CALLS.open("a") as file:
        file.write(f"{n} {repetition}\\n")
    mood = os.environ.get("TOY", "")
    if mood == "fail" and repetition == 3:
        raise ArithmeticError("no luck")
    if mood == "die" and repetition == 3:
        os._exit(9)
    if mood == "absent":
        raise DataNotFound("no toy.csv here")
    if mood == "slow" and repetition == 3:
        time.sleep(3600)
    X = np.random.default_rng(repetition).normal(size=(n, 1))
    model = GaussianMixture(1, bounds=9.0).fit(X)
    assert not hasattr(model, "privacy_")
    return {"mean": np.abs(model.means_[0, 0]), "spent": model.spent_}


def near(rows: Rows) -> dict:
    found = rows.of("mean")
    return {"near": Finding(HOLDS, spread(found), "it is.", len(found))}


def picture(rows: Rows):
    figure, (axes,) = panels(["toy"])
    line(axes, rows, "n", "mean", "privem")
    axes.set(xlabel="records", ylabel="mean")
    legend(figure, [axes])
    return figure


def two(rows: Rows) -> dict:
    return {"sum": Finding(HOLDS, str(rows[0]["sum"]), "arithmetic.", None)}


def add(a: int, b: int) -> dict:
    return {"sum": a + b}


def means(quick: bool) -> list:
    return grid(mean, n=[200] if quick else [200, 400], repetition=range(4 if quick else 10))


def table(rows: Rows) -> list:
    return [["n", "mean"], *([str(n), spread(part.of("mean"))] for n, part in rows.groups("n"))]


CLAIMS = {
    "fig1": Claim(means, near, picture, table),
    "table1": Claim(lambda quick: grid(add, a=1, b=1), two),
}
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A checkout with one toy paper, which the command finds."""
    pytest.importorskip("matplotlib")
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "reproduction").symlink_to(ROOT / "experiments" / "reproduction")
    (tmp_path / "docs").mkdir()
    paper = folder / "toy2020"
    paper.mkdir()
    (paper / "expected.json").write_text(json.dumps(EXPECTED))
    (paper / "run.py").write_text(RUN)
    (paper / "README.md").write_text("# Toy\n\n<!-- fig1 -->\n<!-- end -->\n\nThe end.\n")
    monkeypatch.setattr(command, "_checkout", lambda: tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("TOY", raising=False)
    # Bytecode is told from newer text by seconds and size: an edit of one digit may not count.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    monkeypatch.chdir(tmp_path)
    yield paper
    forget()


def forget():
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("toy2020", "reproduction"):
            del sys.modules[name]


def run(*words, code=0):
    result = CliRunner().invoke(app, ["reproduce", *map(str, words)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def found(*words, code=0):
    return json.loads(run(*words, "--json", "--jobs", 1, code=code).stdout)["claims"]


def calls(paper):
    path = paper / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_claims_are_listed_without_their_code(toy):
    (toy / "run.py").write_text("raise AssertionError")
    assert run("list").stdout.splitlines() == [
        "toy2020-fig1    Toy 2020: A mean against n",
        "toy2020-table1  Toy 2020: A sum",
    ]
    assert [each["id"] for each in found("list")] == ["toy2020-fig1", "toy2020-table1"]


@pytest.mark.parametrize("name", ["toy2020-fig2", "toy", "fig1", "reproduction"])
def test_a_wrong_name_is_an_error(toy, name):
    assert "reproduce list shows them" in run(name, code=2).output


def test_a_quick_run_gives_results_a_picture_and_a_verdict(toy, tmp_path):
    (fig, table) = found("toy2020", "--quick", "--out", "o")
    assert fig["status"] == table["status"] == "done"
    assert (fig["cells"], fig["quick"]) == (4, True)
    assert fig["findings"]["near"]["verdict"] == "holds"
    assert fig["findings"]["near"]["repetitions"] == 4
    kept = json.loads(Path(fig["files"]["results"]).read_text())
    assert [row["repetition"] for row in kept["rows"]] == [0, 1, 2, 3]
    assert all(0.9 < row["spent"] <= 1 for row in kept["rows"])
    assert Path(fig["files"]["picture"]).read_bytes().startswith(b"\x89PNG")
    said = run("toy2020-table1", "--out", "o").stdout
    assert said.startswith("toy2020-table1: A sum\n  holds: sum: 2. arithmetic.\n")


def test_what_is_finished_is_not_run_again_and_comes_out_the_same(toy):
    (first,) = found("toy2020-fig1", "--quick", "--out", "o")
    assert calls(toy) == 4
    (again,) = found("toy2020-fig1", "--quick", "--out", "o")
    assert calls(toy) == 4
    assert again == first
    (other,) = found("toy2020-fig1", "--quick", "--out", "p")
    assert calls(toy) == 8
    assert other["findings"] == first["findings"]
    # The whole run needs the cells of the quick one, and others.
    found("toy2020-fig1", "--out", "o")
    assert calls(toy) == 8 + 16


def test_other_code_of_a_cell_or_another_version_runs_it_again(toy):
    found("toy2020-fig1", "--quick", "--out", "o")
    text = (toy / "run.py").read_text()
    for changed, count in (
        (text.replace('"it is."', '"so it is."'), 4),
        (text.replace("VERSION = 1", "VERSION = 2"), 8),
        (text.replace("bounds=9.0", "bounds=8.00"), 12),
    ):
        (toy / "run.py").write_text(changed)
        forget()
        found("toy2020-fig1", "--quick", "--out", "o")
        assert calls(toy) == count


def test_a_cell_that_fails_stops_no_other(toy, monkeypatch):
    monkeypatch.setenv("TOY", "fail")
    fig, table = found("all", "--quick", "--out", "o", code=1)
    assert fig["status"] == "failed"
    assert "no luck" in fig["reason"]
    assert "'repetition': 3" in fig["reason"]
    assert table["status"] == "done"
    assert calls(toy) == 4
    monkeypatch.delenv("TOY")
    assert found("all", "--quick", "--out", "o")[0]["status"] == "done"
    assert calls(toy) == 5


def test_missing_data_are_no_failure(toy, monkeypatch):
    monkeypatch.setenv("TOY", "absent")
    (fig,) = found("toy2020-fig1", "--quick", "--out", "o")
    assert (fig["status"], fig["reason"]) == ("not run", "no toy.csv here")


def test_verdicts_of_full_runs_need_ten_repetitions_and_every_statement(toy):
    text = (toy / "run.py").read_text()
    (toy / "run.py").write_text(text.replace("4 if quick else 10", "4"))
    (fig,) = found("toy2020-fig1", "--out", "o", code=1)
    assert "8 repetitions are too few" in fig["reason"]
    (toy / "run.py").write_text(text.replace('return {"near"', 'return {"far"'))
    forget()
    (fig,) = found("toy2020-fig1", "--out", "o", code=1)
    assert "has the statements ['near'], the verdicts are about ['far']" in fig["reason"]


def test_a_quick_run_may_leave_statements_out_and_a_full_one_may_not(toy):
    text = (toy / "run.py").read_text()
    (toy / "run.py").write_text(text.replace('return {"near": ', "return {} and {'near': "))
    forget()
    (fig,) = found("toy2020-fig1", "--quick", "--out", "o")
    assert (fig["status"], fig["findings"]) == ("done", {})
    (fig,) = found("toy2020-fig1", "--out", "o", code=1)
    assert "the verdicts are about []" in fig["reason"]


def test_publishing_writes_page_report_and_results(toy, tmp_path):
    assert "full runs" in run("all", "--quick", "--publish", code=2).output
    run("toy2020-fig1", "--out", "o", "--jobs", 1, "--publish")
    page = (tmp_path / "docs" / "reproduction.md").read_text()
    assert "| `toy2020-fig1` | the mean is near \\| zero | 0 | 0.0" in page
    assert "| `toy2020-table1` | one and one | 2 |  | not run |  |" in page
    report = (toy / "README.md").read_text()
    assert "![A mean against n](results/fig1.png)" in report
    assert re.search(
        r"\| 0 \| 0\.\d+ \(0\.\d+ to 0\.\d+\) \[20\] \| \*\*holds\*\* \| it is\. \|", report
    )
    assert re.search(
        r"\n\n\| n \| mean \|\n\|---\|---\|\n\| 200 \| [^|]+ \|\n\| 400 \| [^|]+ \|\n\n", report
    )
    assert report.endswith("<!-- end -->\n\nThe end.\n")
    kept = json.loads((toy / "results" / "fig1.json").read_text())
    assert "rows" not in kept
    assert kept["files"] == {"picture": "fig1.png", "results": "fig1.json"}
    # Another claim's row stays when one is published.
    run("toy2020-table1", "--out", "o", "--publish")
    both = (tmp_path / "docs" / "reproduction.md").read_text()
    assert both.count("**holds**") == page.count("**holds**") + 1
    assert (toy / "README.md").read_text() == report
    # From what is published, the pages can be made again.
    (tmp_path / "docs" / "reproduction.md").unlink()
    run("list", "--publish")
    assert (tmp_path / "docs" / "reproduction.md").read_text() == both


def test_a_statement_that_is_newer_than_the_published_run_is_not_run(toy, tmp_path):
    run("toy2020-table1", "--out", "o", "--publish")
    expected = json.loads((toy / "expected.json").read_text())
    statements = expected["claims"]["table1"]["statements"]
    statements["zero"] = {"says": "no and none", "paper": "0"}
    (toy / "expected.json").write_text(json.dumps(expected))
    forget()
    run("list", "--publish")
    page = (tmp_path / "docs" / "reproduction.md").read_text()
    assert "| one and one | 2 | 2 | **holds** |" in page
    assert "| no and none | 0 |  | not run | a statement that is newer than the last run |" in page


def test_what_failed_is_not_published(toy, tmp_path, monkeypatch):
    run("toy2020-fig1", "--out", "o", "--jobs", 1)
    text = (toy / "run.py").read_text()
    (toy / "run.py").write_text(text.replace("VERSION = 1", "VERSION = 2"))
    forget()
    monkeypatch.setenv("TOY", "fail")
    run("all", "--out", "o", "--jobs", 1, "--publish", code=1)
    assert [path.name for path in (toy / "results").iterdir()] == ["table1.json"]


def program(toy, **mood):
    """The command in a process of its own, in the toy's checkout."""
    code = (
        "from pathlib import Path\nfrom privem.cli import main, reproduce\n"
        f"reproduce._checkout = lambda: Path({str(toy.parents[1])!r})\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    path = toy.parents[1] / "program.py"
    path.write_text(code)
    words = [sys.executable, str(path), "reproduce", "toy2020-fig1", "--quick", "--jobs", "2"]
    where = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [*words, "--json", "--out", "o"],
        env=os.environ | mood | {"PYTHONPATH": where},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_goes_on_and_leaves_no_process(toy, how):
    process = program(toy, TOY="slow")
    for _ in range(6000):
        if len([*(toy.parents[1] / "o").glob("cells/*.json")]) == 3 and calls(toy) == 4:
            break
        time.sleep(0.1)
    else:
        process.kill()
        raise AssertionError("three cells were not finished")
    process.send_signal(how)
    process.communicate(timeout=600)
    for _ in range(3000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError("a process was left behind")
    assert found("toy2020-fig1", "--quick", "--out", "o")[0]["status"] == "done"
    # What was finished is not run again; what was not may have been begun again before the end.
    begun = [line.split()[1] for line in (toy / "calls").read_text().splitlines()]
    assert [begun.count(repetition) for repetition in "012"] == [1, 1, 1]
    assert begun.count("3") >= 2


def test_processes_find_what_one_process_finds_and_a_dead_one_is_said(toy):
    process = program(toy, TOY="die")
    (fig,) = json.loads(process.communicate(timeout=600)[0])["claims"]
    assert process.returncode == 1
    assert "was killed" in fig["reason"]
    process = program(toy)
    (many,) = json.loads(process.communicate(timeout=600)[0])["claims"]
    (one,) = found("toy2020-fig1", "--quick", "--out", "p")
    assert many["findings"] == one["findings"]


def test_a_wheel_says_where_to_get_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a/b/c/site-packages/x/cli/r.py"))
    monkeypatch.chdir(tmp_path)
    result = run("list", code=2)
    assert "checkout of privem's source" in " ".join(result.output.split())
    assert "make demo" in result.output
    # In the folder of a checkout it is found.
    monkeypatch.chdir(ROOT)
    assert command._checkout() == ROOT


# What is published.


def reproduction():
    """The package beside the papers' folders, which is not installed."""
    folder = str(ROOT / "experiments")
    sys.path.insert(0, folder)
    try:
        return import_module("reproduction")
    finally:
        sys.path.remove(folder)


def papers():
    return reproduction().find_papers(ROOT / "experiments")


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_folders_of_papers_are_whole(paper):
    assert set(paper.module.CLAIMS) == set(paper.expected["claims"])
    for key, claim in paper.expected["claims"].items():
        assert paper.module.CLAIMS[key].cells(True), key
        assert claim["statements"], key
        assert f"<!-- {key} -->" in (paper.folder / "README.md").read_text("utf-8")
    for picture in paper.folder.rglob("*.png"):
        assert picture.stat().st_size < 100_000, picture
        assert picture.stem in paper.expected["claims"], picture


def test_pages_show_the_published_results():
    publish = import_module(reproduction().publish.__module__)
    page = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    assert page == publish.page(papers()), "run privem reproduce NAME --publish"
    for paper in papers():
        readme = (paper.folder / "README.md").read_text("utf-8")
        assert readme == publish.filled(readme, paper)
