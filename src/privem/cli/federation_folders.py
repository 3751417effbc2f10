"""The folders of servers and parties: making them, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click import UsageError

from ..declaration import Declaration, declarations
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
from ..federation.party.account import account_of
from ..federation.party.rows import as_agreed, cell_bounds, code_bounds, typed
from ..federation.primitives import Identity
from ..schema import Schema
from .console import aligned
from .failures import ExitCode, failing
from .fit import read_schema
from .options import in_words


@contextmanager
def reading_folder() -> Iterator[None]:
    """Errors inside are about what the user named, or about a missing extra."""
    with failing(ExitCode.USAGE, ImportError, NotImplementedError, OSError, ValueError):
        require()
        yield


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


def set_up(
    folder: Path,
    parties: Sequence[str],
    cards: Sequence[Path],
    address: str,
    rows: int | None,
    **terms: Any,
) -> dict[str, Any]:
    """Make a federation's folders; what was agreed."""
    if len(set(parties)) != len(parties) or {"server"} & set(parties):
        raise UsageError("--party takes a different name each time, and not 'server'")
    target, said = terms["target"], ("bounds", "columns", "target", "categories", "schema")
    names, found = _columns(*(terms.pop(name) for name in said))
    terms |= {"target": target is not None, **found}
    terms["rows"] = None if rows is None else float(rows)
    with reading_folder():
        # What cannot work is refused before any file is made.
        given = [read_card(path) for path in cards]
        check_cards(given)
        split_address(address)
        known = [*(card["name"] for card in given), *map(check_name, parties)]
        trial = tuple(Card(name, "", Identity.new().public.hex()) for name in known)
        _ = Agreement(trial, seed="00" * 32, **terms).cohort
        if (folder / "server" / "federation.json").exists():
            raise ValueError(f"{str(folder)!r} holds a federation already; take another folder")
        given += [new_party(folder / name, name) for name in parties]
        made = new_server(folder / "server", given, address, names or None, **terms)
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
    bounds: Mapping[str, tuple[float, float]],
    columns: Sequence[str] | None,
    target: str | None,
    categories: Mapping[str, Sequence[str]],
    schema: Path | None,
) -> tuple[list[str], dict[str, Any]]:
    """Names of the columns, a target's last; and what the agreement says of them."""
    if schema is not None:
        if bounds or columns or target or categories:
            raise UsageError(
                "--schema names the columns; leave out --bound, --columns, --category and "
                "--target, which privem federate run takes"
            )
        with failing(ExitCode.USAGE, ValueError):
            known = typed(read_schema(schema))
        low, high = cell_bounds(as_agreed(known))
        return known.names, {"low": low, "high": high, "schema": as_agreed(known)}
    if categories:
        if bounds or columns or target:
            raise UsageError(
                "--category names the columns; leave out --bound, --columns and --target"
            )
        kinds = tuple(tuple(part) for part in categories.values())
        low, high = code_bounds(kinds)
        return list(categories), {"low": low, "high": high, "categories": kinds}
    if bounds and columns:
        raise UsageError("--bound names the columns; leave out --columns")
    names = list(columns or bounds)
    if target is not None:
        if target not in names or len(names) < 2:
            raise UsageError("--target names one of the columns that --bound or --columns name")
        names = [*(name for name in names if name != target), target]
    if not bounds:
        return names, {}
    low, high = zip(*(bounds[name] for name in names), strict=True)
    return names, {"low": low, "high": high}


def next_steps(
    folder: Path, parties: Sequence[str], terms: dict[str, Any], agreed: Mapping[str, Any]
) -> str:
    """What was set up, and the commands that come next, for people."""
    more = " --weight COLUMN" * agreed["weighted"] + " --groups COLUMN" * agreed["persons"]
    kinds = tuple(bool(agreed[name]) for name in ("target", "categories", "schema"))
    able = [
        each
        for each in declarations()
        if each.count and kinds == (each.target, each.categories, each.schema)
    ]
    model = f"-m {able[0].command}" + " -k 2" * (not able[0].schema) if any(kinds) else "-k 3"
    places = [
        folder / name if name in parties else f"FOLDER-OF-{name}" for name in terms["parties"]
    ]
    commands = [
        f"server {folder / 'server'}",
        *(f"party {place} DATA{more}" for place in places),
        f"run {folder / 'server'} {model} -o model.json",
    ]
    lines = "\n       ".join(f"privem federate {command}" for command in commands)
    names = ", ".join(terms["parties"])
    return (
        f"Federation of {names}, protection {terms['protection']}.\n\n{terms['trust']}\n\n"
        f"Next:  {lines}\n"
    )


def agreed(folder: Path, model: Declaration, wanted: str | None = None) -> dict[str, Any]:
    """What a federation says about the columns, as settings of a fit; refuses other models.

    ``wanted``: the target that was asked for, which only a schema leaves open.
    """
    with reading_folder():
        terms = Terms.load(server_folder(folder))
    target, categories = terms.agreement.target, terms.agreement.categories
    if model.schema != bool(terms.agreement.schema):
        kinds = [each.command for each in declarations() if each.schema]
        raise UsageError(
            f"--model {in_words(kinds)} and the --schema of privem federate init go together"
        )
    if model.schema:
        known = Schema.from_dict(json.loads(terms.agreement.schema))
        if wanted is not None and wanted not in known.names:
            raise UsageError(f"--target {wanted!r} is not one of {', '.join(known.names)}")
        return {"schema": known}
    if wanted is not None:
        raise UsageError("--target was agreed on in privem federate init: leave it out")
    if model.target != target:
        why = "explains a target, and this federation has none: set one up with init --target"
        raise UsageError(
            f"--model {model.command} "
            + ("has no target, and this federation has one" if target else why)
        )
    if model.categories != (categories is not None):
        kinds = [each.command for each in declarations() if each.categories]
        raise UsageError(
            f"--model {in_words(kinds)} and the --category of privem federate init go together"
        )
    names = terms.columns or ()
    if target:
        return {"target": names[-1]}
    if categories is None:
        return {}
    return {"categories": dict(zip(names, map(list, categories), strict=True))}


def last_run(folder: Path) -> Path | None:
    """The folder of the last fit."""
    found = sorted((folder / "runs").glob("[0-9][0-9][0-9][0-9]"))
    return found[-1] if found else None


def status_of(folder: Path) -> dict[str, Any]:
    """Where a server or a party stands."""
    from ..federation.flower.driver import nodes_of

    with reading_folder():
        if (folder / "card.json").exists():
            return _party_status(folder, Terms.load(folder))
        folder = _inner(folder)
        terms = Terms.load(folder)
        secret = (folder / "secret").read_bytes() if (folder / "secret").exists() else b""
        online = nodes_of(terms.address, terms.ca.encode("ascii"), secret)
        run = last_run(folder)
        fit = None if run is None else json.loads((run / "progress.json").read_bytes())
    seen = online or {}
    return {
        "address": terms.address,
        "agreement": terms.agreement.hash,
        "server": "up" if online is not None else "down",
        "protection": terms.agreement.protection,
        "parties": {name: seen.get(key.strip(), "unknown") for name, key in terms.keys.items()},
        "fit": fit,
    }


def _party_status(folder: Path, terms: Terms) -> dict[str, Any]:
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


def status_text(facts: dict[str, Any]) -> str:
    """For people."""
    where = f"{facts['address']} ({facts['protection']})"
    if "party" in facts:
        limit, names = facts["epsilon_limit"], facts["columns"]
        lines = {
            "agreement": facts["agreement"],
            "columns": "all of the file's" if names is None else ", ".join(names),
            "colluders": facts["colluders"],
            "given away": facts["given_away"],
            "own limit": "none" if limit is None else f"epsilon {limit:.6g}",
        }
        title, end = f"{facts['party']}, in the federation at {where}", facts["trust"]
    else:
        lines = {"agreement": facts["agreement"], **facts["parties"]}
        title, end = f"Server at {where}: {facts['server']}", "No fit yet."
        if (fit := facts["fit"]) is not None:
            last = f", last {fit['stage']}" if fit["stage"] else ""
            end = f"Fit {fit['run']}: {fit['state']}, {fit['rounds']} rounds done{last}"
            end += f"\n  {fit['problem']}" if fit["problem"] else ""
    return f"{aligned(title, lines)}\n{end}\n"
