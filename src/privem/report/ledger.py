"""The section about the data set's ledger."""

from __future__ import annotations

from typing import Any

from ..ledger import Ledger, LedgerError
from ..meter import Statement
from .html import Html, clean, facts, name, section, table, tag

# Runs that are listed.
_RUNS = 10


def ledger_state(model: Any, ledger: Ledger | None) -> Html | None:
    """What the statement and the ledger itself know of the data set's budget."""
    statement: Statement | None = getattr(model, "privacy_", None)
    if statement is None:
        return None
    pieces: list[str] = []
    entry = statement.ledger
    if entry is None:
        pieces.append(
            tag(
                "p",
                "The fit was charged to no ledger: what else was released about the same data is "
                "not known here.",
            )
        )
    else:
        said = [("data set", name(entry.dataset)), ("entry", f"{entry.entry}")]
        pieces.append(facts([*said, ("hash of the entry", tag("code", clean(entry.head)))]))
    if ledger is not None:
        pieces += _ledger(statement, ledger)
    elif entry is not None:
        pieces.append(
            tag("p", "The ledger itself was not given to this page: its budget is not shown.")
        )
    return section("Ledger", *pieces)


def _ledger(statement: Statement, ledger: Ledger) -> list[Html]:
    try:
        ledger.verify(*([] if statement.ledger is None else [statement]))
        verified = tag(
            "p",
            "The ledger verifies, and has the entry of this model."
            if statement.ledger is not None
            else "The ledger verifies.",
        )
    except LedgerError as problem:
        verified = tag("p", clean(str(problem), 1000), class_="warning")
    try:
        runs, spent, remaining = ledger.history(), ledger.spent, ledger.remaining
    except LedgerError:  # its rows were changed to what cannot be read
        return [verified]
    rows = [
        (
            str(run.entry),
            (
                run.when[:10],
                clean(run.what.model),
                f"{run.what.epsilon:g}",
                f"{run.what.delta:g}",
                run.state,
                f"{run.part:.1%}",
            ),
        )
        for run in runs[-_RUNS:]
    ]
    delta = f"at delta {ledger.budget.delta:g}"
    state = facts(
        [
            ("ledger of", name(ledger.dataset)),
            ("budget", str(ledger.budget)),
            ("spent", f"epsilon {spent:.4g} {delta}"),
            ("one more fit may have", f"epsilon {remaining:.4g} {delta}"),
            ("runs", f"{len(runs):,}"),
        ]
    )
    columns = ["reserved", "what", "epsilon", "delta", "state", "part of the budget"]
    last = f"The last {_RUNS} of {len(runs):,} runs" if len(runs) > _RUNS else "All runs"
    return [state, verified, *([table(last, columns, rows, "entry")] if rows else [])]
