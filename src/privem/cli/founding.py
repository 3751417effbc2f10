"""``privem federate key``, ``init`` and ``status``: folders, and what they say."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..federation.agreement import Agreement, Card
from ..federation.flower import require
from ..federation.flower.folders import (
    Terms,
    check_cards,
    check_name,
    new_party,
    new_server,
    read_card,
    split_address,
)
from ..federation.party.party import account_of
from ..federation.party.rows import code_bounds
from ..federation.primitives import Identity
from .failures import ExitCode, Failure, UsageError
from .kinds import FACTS, Kind
from .options import categories_of, limits_of

__all__ = [
    "agreed",
    "found",
    "last_run",
    "make_keys",
    "reading_folder",
    "server_folder",
    "show_status",
    "standing",
]


@contextmanager
def reading_folder() -> Iterator[None]:
    """Errors inside are about what the user named, or about a missing extra."""
    try:
        require()
        yield
    except (ImportError, NotImplementedError) as error:
        raise Failure(ExitCode.USAGE, str(error)) from error
    except OSError as error:
        where = f": {str(error.filename)!r}" if error.filename else ""
        raise Failure(ExitCode.USAGE, f"{error.strerror or error}{where}") from error
    except ValueError as error:
        raise Failure(ExitCode.USAGE, str(error)) from error


def server_folder(folder: Path) -> Path:
    """The server's folder, also where its federation's was named; raises ValueError or OSError."""
    place = _inner(folder)
    Terms.load(place)
    if not (place / "tls.key").exists():
        raise ValueError(f"{str(folder)!r} is not the folder of a server")
    return place


def _inner(folder: Path) -> Path:
    inner = folder / "server"
    return inner if (inner / "tls.key").exists() else folder


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
    target: str | None = None,
    categories: Sequence[str] = (),
    **terms: Any,
) -> dict[str, Any]:
    """Make a federation's folders; what was agreed."""
    if len(set(parties)) != len(parties) or {"server"} & set(parties):
        raise UsageError("--party takes a different name each time, and not 'server'")
    names, low, high, kinds = _columns(bounds, columns, target, categories)
    terms |= {"target": target is not None, "categories": kinds}
    with reading_folder():
        # What cannot work is refused before any file is made.
        given = [read_card(path) for path in cards]
        check_cards(given)
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
        "target": target,
        "cohort": agreement.cohort,
        "agreement": agreement.hash,
        "trust": agreement.trust(),
    }


def _columns(
    bounds: Sequence[str], columns: str | None, target: str | None, categories: Sequence[str]
) -> tuple[list[str], Any, Any, Any]:
    """Names of the columns, a target's last; their bounds; and their categories."""
    if categories:
        if bounds or columns or target:
            raise UsageError(
                "--category names the columns; leave out --bound, --columns and --target"
            )
        known = categories_of(categories)
        kinds = tuple(tuple(part) for part in known.values())
        return list(known), *code_bounds(kinds), kinds
    if bounds and columns:
        raise UsageError("--bound names the columns; leave out --columns")
    limits = limits_of(bounds)
    names = [name.strip() for name in columns.split(",")] if columns else list(limits)
    if target is not None:
        if target not in names or len(names) < 2:
            raise UsageError("--target names one of the columns that --bound or --columns name")
        names = [*(name for name in names if name != target), target]
    if not limits:
        return names, None, None, None
    low, high = map(tuple, zip(*(limits[name] for name in names), strict=True))
    return names, low, high, None


def agreed(folder: Path, model: Kind) -> dict[str, Any]:
    """What a federation says about the columns, as options of a fit; refuses other models."""
    with reading_folder():
        terms = Terms.load(server_folder(folder))
    target, categories = terms.agreement.target, terms.agreement.categories
    if FACTS[model].target != target:
        why = "explains a target, and this federation has none: found one with init --target"
        raise UsageError(
            f"--model {model} " + ("has no target, and this federation has one" if target else why)
        )
    if (model is Kind.categorical) != (categories is not None):
        raise UsageError(
            "--model categorical and the --category of privem federate init go together"
        )
    names = terms.columns or ()
    if target:
        return {"target": names[-1]}
    if categories is None:
        return {}
    return {"categories": tuple(map(_option, names, categories))}


def _option(name: str, categories: Sequence[Any]) -> str:
    """As ``--category`` takes it."""
    line = io.StringIO()
    csv.writer(line).writerow(categories)
    return f"{name}={line.getvalue().strip()}"


def last_run(folder: Path) -> Path | None:
    """The folder of the last fit."""
    found = sorted((folder / "runs").glob("[0-9][0-9][0-9][0-9]"))
    return found[-1] if found else None


def standing(folder: Path) -> dict[str, Any]:
    """Where a server or a party stands."""
    from ..federation.flower.driver import nodes_of

    with reading_folder():
        if (folder / "card.json").exists():
            return _party_standing(folder, Terms.load(folder))
        folder = _inner(folder)
        terms = Terms.load(folder)
        secret = (folder / "secret").read_bytes() if (folder / "secret").exists() else b""
        online = nodes_of(terms.address, terms.ca.encode("ascii"), secret)
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
    account = account_of((folder / "state").read_bytes())
    return {
        "party": read_card(folder / "card.json")["name"],
        "address": terms.address,
        "agreement": terms.agreement.hash,
        "protection": terms.agreement.protection,
        "columns": terms.columns,
        "colluders": terms.agreement.colluders,
        "trust": terms.agreement.trust(),
        "given_away": account.account,
        "exact_answers": account.exact,
        "epsilon_spent": None if account.exact else account.epsilon,
        "epsilon_limit": account.limit,
        "delta": account.delta,
    }


def show_status(facts: dict[str, Any]) -> str:
    """For people."""
    if "party" in facts:
        limit, names = facts["epsilon_limit"], facts["columns"]
        columns = "all of the file's" if names is None else ", ".join(names)
        return (
            f"{facts['party']}, in the federation at {facts['address']} ({facts['protection']})\n"
            f"  agreement              {facts['agreement']}\n"
            f"  columns                {columns}\n"
            f"  colluders              {facts['colluders']}\n"
            f"  given away             {facts['given_away']}\n"
            f"  own limit              {'none' if limit is None else f'epsilon {limit:.6g}'}\n"
            f"{facts['trust']}\n"
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
