"""``privem ledger``: the commands and their options, and what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..declaration import counted
from ..settings import FILE as SETTINGS_FILE
from ..settings import current_settings
from . import options
from .failures import Commands, check_output, writing_file

if TYPE_CHECKING:
    from ..ledger import Ledger, Record

VARIABLE = "PRIVEM_LEDGER"
where = click.argument("where", metavar="LEDGER", envvar=VARIABLE)


def opened(where: str, budget: Mapping[str, Any] | None = None) -> Ledger:
    """The ledger of this name; a name or a budget that cannot be one is bad usage."""
    from ..ledger import Budget, Ledger

    try:
        return Ledger(where, budget=None if budget is None else Budget(**budget))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@click.group(cls=Commands)
def ledger() -> None:
    """Keep the budget of a data set over all fits.

    A ledger is named by a file (SQLite), or by a PostgreSQL URL, and by the data set:
    budget.db#cohort-2026. Where the environment variable PRIVEM_LEDGER or the file privem.toml
    names one, it may be left out, and fit, synth and score spend from it.
    """


@ledger.command()
@where
@options.option("--epsilon", "Of all releases together.", float, required=True)
@options.option("--delta", "Probability with which privacy may fail.", float, default=1e-6)
@options.option(
    "--neighbours",
    "The change that privacy hides.",
    click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
)
@options.option(
    "--unit",
    "What is added, removed or replaced. Fits for a budget of persons need --groups.",
    click.Choice(["record", "person"]),
    default="record",
)
@options.as_json
def init(where: str, as_json: bool, **budget: Any) -> None:
    """Begin a data set with its budget, which cannot be changed later.

    LEDGER names the data set too: budget.db#cohort-2026. The file is made if there is none.
    """
    from ..ledger.connections import place_and_name

    path, name = place_and_name(where)
    if not (path and name):
        raise click.UsageError(
            f"name a file and the data set, as in {path or 'budget.db'}#{name or 'cohort-2026'}"
        )
    with opened(where, budget) as made:
        _show(made, as_json)


@ledger.command()
@where
@options.as_json
def show(where: str, as_json: bool) -> None:
    """Show what is spent of a budget, and what is left."""
    with opened(where) as found:
        _show(found, as_json)


@ledger.command()
@where
@options.as_json
def history(where: str, as_json: bool) -> None:
    """List all runs: when, what, what became of them, and who.

    Epsilon is what a run asked for; charged, the part of the data set's budget that it has cost.

    A run is pending from its reservation to its end; one that was killed stays so. Released runs
    are charged what they released, void ones nothing, pending and abandoned ones all they reserved.
    """
    from .console import emit_json, show

    with opened(where) as found:
        runs = found.history()
        name = found.dataset
    if as_json:
        emit_json({"dataset": name, "runs": [run.to_dict() for run in runs]})
        return
    show(_table(runs) if runs else f"Nothing has been spent on {_plain(name)}.")


@ledger.command()
@click.argument("files", metavar="[LEDGER] [MODEL]...", nargs=-1)
@options.as_json
def verify(files: tuple[str, ...], as_json: bool) -> None:
    """Check that nothing in a ledger was changed, and that models have their entries.

    MODEL is a file that privem fit wrote; its name ends in .json. Rows that were cut off, or an
    older copy that was restored, are found by the models whose entries are missing then.
    """
    import os

    from .console import emit_either
    from .model_files import open_model

    models = list(files)
    named = models.pop(0) if models and not models[0].endswith(".json") else None
    where = named or os.environ.get(VARIABLE) or current_settings().ledger
    if not where:
        raise click.UsageError(
            f"name the ledger before the models, in {VARIABLE} or in {SETTINGS_FILE}"
        )
    fitted = [open_model(Path(path)) for path in models]
    for path, model in zip(models, fitted, strict=True):
        if not hasattr(model, "privacy_"):
            raise click.UsageError(f"{path!r} was fitted exactly: no ledger has an entry for it")
    with opened(where) as found:
        checked = found.verify(*(model.privacy_ for model in fitted))
        facts = {"dataset": found.dataset, "entries": checked.entries, "head": checked.head}
    summary = facts | {"pending": list(checked.pending), "models": models}
    with_models = f" and {counted(len(models), 'model')}" if models else ""
    emit_either(
        as_json,
        summary,
        f"{_plain(found.dataset)}: {counted(checked.entries, 'row')}{with_models} verified; head "
        f"{checked.head}\n"
        + (f"pending: {', '.join(map(str, checked.pending))}\n" if checked.pending else ""),
    )


@ledger.command()
@where
@options.option(
    "--output -o", "Where to write. Default: standard output.", options.PATH, metavar="FILE"
)
@options.as_json
def export(where: str, output: Path | None, as_json: bool) -> None:
    """Write every row with its hash, one JSON object a line.

    A row is the text "body"; its hash is the SHA-256 of that text, which names the hash of the row
    before. So anybody can check the chain without privem. With --json, all rows are one object or,
    if they are written to a file, how many there are.
    """
    from ..files import write_whole
    from .console import emit, emit_either, emit_json

    if output is not None:
        check_output(output)
    with opened(where) as found:
        rows, name = list(found.rows()), found.dataset
    lines = [f"{json.dumps(row)}\n" for row in rows]
    if output is None:
        if as_json:
            emit_json({"dataset": name, "output": None, "rows": len(rows), "entries": rows})
        else:
            emit("".join(lines))
        return
    with writing_file(output), write_whole(output) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    summary = {"dataset": name, "output": str(output), "rows": len(rows)}
    emit_either(as_json, summary, f"Wrote {len(lines):,} rows to {output}\n")


@ledger.command()
@click.argument("where", metavar="LEDGER")
@click.argument("entries", metavar="ENTRY...", type=int, nargs=-1, required=True)
@options.as_json
def abandon(where: str, entries: tuple[int, ...], as_json: bool) -> None:
    """Mark pending entries of runs that have died.

    What they reserved stays spent: nobody knows what they had released. Make sure that they are
    dead: a run that goes on can give nothing back any more.
    """
    from .console import emit_either

    with opened(where) as found:
        for entry in entries:
            found.abandon(entry)
        name = found.dataset
    said = "".join(f"entry {entry}: abandoned\n" for entry in entries)
    emit_either(as_json, {"dataset": name, "abandoned": list(entries)}, said)


def _plain(text: str) -> str:
    """What others have written, without what would move a terminal's cursor over other lines."""
    from ..report.html import clean

    return clean(text)


def _show(found: Ledger, as_json: bool) -> None:
    from .console import aligned, emit_either

    states = [run.state for run in found.history()]
    counts = {name: states.count(name) for name in ("released", "pending", "void", "abandoned")}
    summary = {
        "dataset": found.dataset,
        "ledger": found.where,
        "budget": found.budget.to_dict(),
        "spent": found.spent,
        "remaining": found.remaining,
        "runs": counts,
    }
    delta = f"at delta {found.budget.delta:g}"
    facts = {
        "ledger": found.where,
        "budget": found.budget,
        "spent": f"epsilon {found.spent:.4g} {delta}",
        "one more fit may have": f"epsilon {found.remaining:.4g} {delta}",
        "runs": ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none",
    }
    emit_either(as_json, summary, f"{aligned(_plain(found.dataset), facts)}\n")


def _table(runs: list[Record]) -> Any:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    # A column of its own for delta only where it says something.
    several = len({run.what.delta for run in runs}) > 1
    deltas = ["delta"] * several
    names = ("no", "when (UTC)", "what", "epsilon", *deltas, "state", "charged", "who")
    for name in names:
        text = name in ("when (UTC)", "what", "who")
        made.add_column(
            name,
            justify="left" if text else "right",
            overflow="fold",
            no_wrap=name not in ("what", "who"),
            min_width={"what": 15, "who": 9}.get(name),
        )
    for run in runs:
        when, what = run.when[:16].replace("T", " "), run.what
        asked = (f"{what.epsilon:g}", *([f"{what.delta:g}"] * several))
        cost, who = (*asked, run.state, f"{run.part:.1%}"), _plain(run.who)
        made.add_row(str(run.entry), when, _plain(what.model), *cost, who)
    return made
