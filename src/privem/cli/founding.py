"""``privem federate key``, ``init`` and ``status``: folders, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..federation import Party
from ..federation.agreement import Agreement, Card
from ..federation.flower import require
from ..federation.flower.folders import (
    Terms,
    check_name,
    new_party,
    new_server,
    read_card,
    split_address,
)
from ..federation.masked import Identity
from ..federation.trust import trust
from .failures import ExitCode, Failure
from .options import limits_of

__all__ = ["found", "last_run", "make_keys", "reading_folder", "show_status", "standing"]


@contextmanager
def reading_folder() -> Iterator[None]:
    """Errors inside are about what the user named, or about a missing extra."""
    try:
        require()
        yield
    except ImportError as error:
        raise Failure(ExitCode.USAGE, str(error)) from error
    except OSError as error:
        where = f": {str(error.filename)!r}" if error.filename else ""
        raise Failure(ExitCode.USAGE, f"{error.strerror or error}{where}") from error
    except ValueError as error:
        raise Failure(ExitCode.USAGE, str(error)) from error


def make_keys(folder: Path, name: str) -> None:
    """A party's keys."""
    with reading_folder():
        new_party(folder, name)


def found(
    folder: Path,
    parties: Sequence[str],
    cards: Sequence[Path],
    address: str,
    bounds: Sequence[str],
    columns: str | None,
    **terms: Any,
) -> dict[str, Any]:
    """Make a federation's folders; what was agreed."""
    if bounds and columns:
        raise click.UsageError("--bound names the columns; leave out --columns")
    if len(set(parties)) != len(parties) or {"server"} & set(parties):
        raise click.UsageError("--party takes a different name each time, and not 'server'")
    limits = limits_of(bounds)
    names = list(limits)
    if columns:
        names = [name.strip() for name in columns.split(",")]
    low, high = map(tuple, zip(*limits.values(), strict=True)) if limits else (None, None)
    with reading_folder():
        # What cannot work is refused before any file is made.
        given = [read_card(path) for path in cards]
        split_address(address)
        known = [*(card["name"] for card in given), *map(check_name, parties)]
        trial = tuple(Card(name, "", Identity.new().public.hex()) for name in known)
        _ = Agreement(trial, low=low, high=high, seed="00" * 32, **terms).cohort
        if (folder / "server" / "federation.json").exists():
            raise ValueError(f"{str(folder)!r} holds a federation already; take another folder")
        given += [new_party(folder / name, name) for name in parties]
        made = new_server(
            folder / "server", given, address, names or None, low=low, high=high, **terms
        )
        made.save(folder)
        for name in parties:
            made.save(folder / name)
    agreement = made.agreement
    return {
        "folder": str(folder),
        "address": address,
        "parties": agreement.names,
        "protection": agreement.protection,
        "columns": made.columns,
        "cohort": agreement.cohort,
        "agreement": agreement.hash,
        "trust": trust(agreement, None),
    }


def last_run(folder: Path) -> Path | None:
    """The folder of the last fit."""
    found = sorted((folder / "runs").glob("[0-9][0-9][0-9][0-9]"))
    return found[-1] if found else None


def standing(folder: Path) -> dict[str, Any]:
    """Where a server or a party stands."""
    from ..federation.flower.driver import nodes_of

    with reading_folder():
        terms = Terms.load(folder)
        if (folder / "card.json").exists():
            return _party_standing(folder, terms)
        online = nodes_of(terms.address, terms.ca.encode("ascii"))
        run = last_run(folder)
        fit = None if run is None else json.loads((run / "progress.json").read_bytes())
    parties = {
        name: "unknown" if online is None else online.get(key.strip(), "unknown")
        for name, key in terms.keys.items()
    }
    return {
        "address": terms.address,
        "agreement": terms.agreement.hash,
        "server": "up" if online is not None else "down",
        "protection": terms.agreement.protection,
        "parties": parties,
        "fit": fit,
    }


def _party_standing(folder: Path, terms: Terms) -> dict[str, Any]:
    party = Party(np.zeros((0, 1)), read_card(folder / "card.json")["name"])
    party.restore((folder / "state").read_bytes())
    return {
        "party": party.name,
        "address": terms.address,
        "agreement": terms.agreement.hash,
        "protection": terms.agreement.protection,
        "epsilon_spent": party.spent,
        "epsilon_limit": party._budget.limit,
        "delta": party._budget.delta,
    }


def show_status(facts: dict[str, Any]) -> str:
    """For people."""
    if "party" in facts:
        limit = facts["epsilon_limit"]
        return (
            f"{facts['party']}, in the federation at {facts['address']} ({facts['protection']})\n"
            f"  agreement              {facts['agreement']}\n"
            f"  given away             epsilon {facts['epsilon_spent']:.6g} at delta "
            f"{facts['delta']:.3g}\n"
            f"  own limit              {'none' if limit is None else f'epsilon {limit:.6g}'}\n"
        )
    lines = [f"Server at {facts['address']} ({facts['protection']}): {facts['server']}"]
    lines += [f"  {'agreement':<22} {facts['agreement']}"]
    lines += [f"  {name:<22} {state}" for name, state in facts["parties"].items()]
    fit = facts["fit"]
    if fit is None:
        lines.append("No fit yet.")
    else:
        where = f", last {fit['stage']}" if fit["stage"] else ""
        lines.append(f"Fit {fit['run']}: {fit['state']}, {fit['rounds']} rounds done{where}")
        if fit["problem"]:
            lines.append(f"  {fit['problem']}")
    return "\n".join(lines) + "\n"
