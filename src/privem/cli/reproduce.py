"""``privem reproduce``: finds the checkout's experiments, and has their runner do the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from . import options
from .failures import Command, ExitCode, Failure


def _checkout() -> Path:
    """The folder above src/ that this code is from, or the current one."""
    places = [Path(__file__).resolve().parents[3]]
    with suppress(FileNotFoundError):  # the current folder was removed
        places.append(Path.cwd())
    for place in places:
        if (place / "experiments" / "reproduction" / "__init__.py").is_file():
            return place
    raise Failure(
        ExitCode.USAGE,
        "the papers' experiments are not part of the installed package: privem reproduce needs a "
        "checkout of privem's source (clone the repository that this version is from, run "
        "`make demo` in it, then .venv/bin/privem reproduce list), or to be run in its folder",
    )


@click.command(cls=Command)
@click.argument("name")
@options.option("--quick", "Fewer settings and repetitions: a look in minutes.", is_flag=True)
@options.option(
    "--out",
    "Folder for results and finished work; a run that was stopped goes on from there.",
    options.PATH,
    default="reproduction",
    metavar="DIR",
)
@options.option("--jobs", "Processes. Default: one for each core.", click.IntRange(1))
@options.option(
    "--publish",
    "Write docs/reproduction.md and the reports of the checkout anew, from the full runs; with "
    '"list", from what is published.',
    is_flag=True,
)
@options.as_json
def reproduce(
    name: str, quick: bool, out: Path, jobs: int | None, publish: bool, as_json: bool
) -> None:
    """Run the figures and tables of the papers again.

    NAME is a claim, such as park2017-fig2, a paper, such as park2017, or "all"; "list" shows what
    there is. Needs a checkout of privem's source.

    Each writes its results (.json) and picture (.png) to --out, and a verdict on every statement
    of the paper: holds, holds repaired, or does not hold. What is finished is not run again. Noise
    is from a seed, so that the same comes out again: nothing here protects anybody.
    """
    if publish and quick:
        raise click.UsageError("--publish is for full runs: no --quick")
    root = _checkout()
    sys.path.insert(0, str(root / "experiments"))
    reproduction: Any = import_module("reproduction")
    papers = reproduction.find_papers(root / "experiments")
    claims = [(paper, key) for paper in papers for key in paper.expected["claims"]]
    if name == "list":
        _list(claims, as_json)
        if publish:
            reproduction.publish([], papers, root)
        return
    chosen = [
        (paper, key) for paper, key in claims if name in ("all", paper.name, f"{paper.name}-{key}")
    ]
    if not chosen:
        raise click.UsageError(f"no claim is named {name!r}: privem reproduce list shows them")
    outcomes = _run(reproduction, chosen, out, quick, jobs, as_json)
    if publish:
        made = [Path(each.files["results"]) for each in outcomes if each.status == "done"]
        reproduction.publish(made, papers, root)
    if any(outcome.status == "failed" for outcome in outcomes):
        raise click.exceptions.Exit(int(ExitCode.UNEXPECTED))


def _list(claims: Sequence[tuple[Any, str]], as_json: bool) -> None:
    from .console import emit_either

    found = [
        {
            "id": f"{paper.name}-{key}",
            "paper": paper.expected["paper"],
            "title": paper.expected["claims"][key]["title"],
        }
        for paper, key in claims
    ]
    wide = max(len(each["id"]) for each in found)
    lines = (f"{each['id']:<{wide}}  {each['paper']}: {each['title']}\n" for each in found)
    emit_either(as_json, {"claims": found}, "".join(lines))


def _run(
    reproduction: Any,
    chosen: Sequence[tuple[Any, str]],
    out: Path,
    quick: bool,
    jobs: int | None,
    as_json: bool,
) -> list[Any]:
    from .console import emit, emit_json
    from .failures import writing_file
    from .progress import FitProgress

    outcomes: list[Any] = []
    bars: list[FitProgress] = []

    def watch(said: str, done: int, total: int) -> None:
        said = f"claim {len(bars)} of {len(chosen)}, {said}: {done} of {total}"
        bars[-1].step(said, 100 * done // max(total, 1))

    with writing_file(out):
        running = reproduction.reproduce(chosen, out, quick, jobs, watch)
        for _ in chosen:
            # A bar of its own: while one is shown, standard output is not what it was.
            bars.append(FitProgress(100, quiet=False, timed=True))
            with bars[-1]:
                outcomes.append(next(running))
            if not as_json:
                emit(_described(outcomes[-1]))
        running.close()  # ends the processes
    if as_json:
        emit_json({"claims": [outcome.to_dict() for outcome in outcomes]})
    return outcomes


def _described(outcome: Any) -> str:
    quick = " (quick: preliminary)" if outcome.quick else ""
    lines = [f"{outcome.id}: {outcome.title}{quick}"]
    if outcome.status != "done":
        lines.append(f"  {outcome.status}: {outcome.reason}")
    for name, found in outcome.findings.items():
        lines.append(f"  {found.verdict}: {name}: {found.ours}. {found.reason}")
    lines += [f"  {path}" for path in outcome.files.values()]
    return "\n".join(lines) + "\n\n"
