"""``privem federate server``, ``party`` and ``run``."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from click import UsageError

from ..core import Release, Stage
from ..data import read_file
from ..data.categories import category_rows
from ..data.header import numbered
from ..estimator.verbose import watching
from ..federation import Agreement, Federation, FederationError, Journal
from ..federation.errors import ServerAway
from ..federation.flower.folders import PartyFolder, Terms, locked
from ..files import write_secret
from ..fit import ledger_of
from ..schema import Schema
from .console import emit, emit_line, note
from .failures import ExitCode, Failure, reading_data, writing_file
from .federation_folders import last_run, reading_folder, server_folder
from .fit import Request
from .progress import FitProgress
from .summary import summary_of


def run_server(folder: Path, listen: str | None, as_json: bool = False) -> None:
    """Run the SuperLink of a server's folder."""
    from ..federation.flower.superlink import serve_link

    with reading_folder():
        folder = server_folder(folder)
        terms = Terms.load(folder)
    host, port = listen or terms.place[0], terms.place[1]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            why = f"cannot listen at {host}:{port}: {error.strerror}"
            raise Failure(ExitCode.FEDERATION, why) from error
    names = list(terms.agreement.names)
    if as_json:
        emit_line({"parties": names, "address": terms.address})
    else:
        emit(f"Server of {', '.join(names)} at {terms.address}; stop it with Ctrl-C.\n")
    near = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    near = f"[{near}]" if ":" in near else near
    serve_link(folder, f"{near}:{port}", host, port, terms.keys)


def run_party(
    folder: Path,
    data: Path,
    limits: dict[str, Any],
    ledger: str | None,
    n_jobs: int | None,
    as_json: bool = False,
    **how: Any,
) -> None:
    """Answer for a party until stopped; ``how`` to read its file: weight, groups, header."""
    from ..federation.flower.node import Node, client_app

    charged = ledger_of(ledger)

    with reading_folder():
        place = PartyFolder(folder)
    with locked(folder, "a party"):
        with reading_data():
            rows, more = _rows(place.terms, data, **how)
        with reading_folder():
            party = place.party(rows, **limits, n_jobs=n_jobs, ledger=charged, **more)
        if party.limit is None and charged is None:
            lifted = "its limit is lifted" if limits["epsilon"] == "none" else "it has no limit"
            note(
                f"{place.name}: {lifted}: it answers private questions of any epsilon, and exact "
                "ones; --epsilon sets a limit"
            )

        def keep(state: bytes) -> None:
            place.keep(state)
            if party.problem is not None:
                note(f"{place.name} refused: {party.problem}")
                party.problem = None

        def say(text: str) -> None:
            if as_json:
                emit_line({"party": place.name, "message": text})
            else:
                emit(f"{place.name}: {text}\n")

        terms = place.terms
        party.store = keep
        app = client_app(party)
        ca = terms.ca.encode("ascii")
        Node(app, terms.address, ca, place.key, folder / "node", say).serve()


def _rows(terms: Terms, data: Path, **how: Any) -> tuple[Any, dict[str, Any]]:
    """A party's rows as they were agreed on, and what its columns mean."""
    if terms.agreement.schema:
        schema = Schema.from_dict(json.loads(terms.agreement.schema))
        return data, {"schema": schema, "sample_weight": how.pop("weight", None), **how}
    if terms.agreement.categories is not None:
        known = terms.agreement.categories
        return category_rows(data, known, columns=terms.columns, **how), {"categories": known}
    if data.suffix == ".npy" and terms.columns is not None and how.get("groups") is None:
        rows = _unnamed(data, terms.columns, how.get("weight"))
    else:
        rows = read_file(data, terms.columns, **how)
    if not terms.agreement.target or terms.columns is None:
        return rows, {}
    return rows, {"y": terms.columns[-1]}


def _unnamed(data: Path, columns: tuple[str, ...], weight: str | None) -> Any:
    """Rows of a file without column names, where those agreed on are x0, x1, and so on."""
    rows: Any = read_file(data, weight=weight)
    called = tuple(numbered(rows.n_features))
    if called != columns:
        raise ValueError(
            f"{str(data)!r}: the columns of a .npy file are called {', '.join(called)}; the "
            f"federation agreed on {', '.join(columns)}: use a .csv or .parquet file"
        )
    return replace(rows, names=called)


def _set_bounds(estimator: Any, request: Request, agreement: Agreement) -> None:
    """Agreed bounds are those of a private fit; the target's come last."""
    low, high = agreement.low, agreement.high
    of_codes = agreement.categories is not None or agreement.schema
    if request.exact or low is None or high is None or of_codes:
        return
    if agreement.target:
        estimator.target_bounds = (low[-1], high[-1])
        low, high = low[:-1], high[:-1]
    estimator.bounds = (low, high)


def fit_parties(
    folder: Path, request: Request, output: Path, patience: float, new: bool, quiet: bool
) -> tuple[Any, dict[str, Any]]:
    """Fit over all parties, or go on where a fit stopped; the estimator and its summary."""
    with reading_folder():
        folder = server_folder(folder)
        terms = Terms.load(folder)
        if request.exact and terms.agreement.no_exact:
            raise ValueError(terms.agreement.no_exact)
        secret = (folder / "secret").read_bytes()
        (folder / "runs").mkdir(exist_ok=True)
    with locked(folder / "runs", "a fit"):
        run = _Run.open(folder, request, new)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                estimator = _fit(run, terms, secret, patience, quiet)
        except (FederationError, ValueError) as error:
            run.record("stopped", str(error))
            if isinstance(error, FederationError):
                raise
            raise Failure(ExitCode.USAGE, str(error)) from error
        with writing_file(output):
            estimator.save(output)
        run.record("finished")
    return estimator, _summary(estimator, terms, run, caught)


def _fit(run: _Run, terms: Terms, secret: bytes, patience: float, quiet: bool) -> Any:
    """The fitted estimator. While the server is away the fit waits, then goes on by its journal."""
    from ..federation.flower.driver import run_app, server_app

    away: float | None = None
    while True:
        estimator = run.request.estimator()
        _set_bounds(estimator, run.request, terms.agreement)
        journal = Journal(run.folder, run.folder.parent.parent / "counters")

        def fit(
            federation: Federation, estimator: Any = estimator, done: int = journal.rounds
        ) -> None:
            nonlocal away
            away = None
            run.begin(done, quiet)
            with (
                FitProgress(estimator.max_iter, quiet, run.request.exact) as progress,
                watching(estimator, progress.watch),
                watching(estimator, partial(run.step, quiet=quiet)),
            ):
                estimator.fit(federation)
            run.attendance = federation.attendance

        app = server_app(terms.agreement, terms.keys, journal, fit, patience)
        try:
            run_app(app, terms.address, terms.ca.encode("ascii"), secret)
            return estimator
        except ServerAway as problem:
            if away is None:
                away = time.monotonic()
                if not quiet:
                    note(f"{problem}; waiting for it")
            if time.monotonic() - away > patience:
                raise
            time.sleep(0.5)


def _summary(estimator: Any, terms: Terms, run: _Run, caught: list[Any]) -> dict[str, Any]:
    agreement = terms.agreement
    count, present = len(agreement.members), len(run.attendance["took part"])
    among = str(count) if present == count else f"{present} of {count}"
    return summary_of(run.request, estimator, caught, None) | {
        "data": f"{among} parties ({agreement.protection})",
        "parties": agreement.names,
        "attendance": run.attendance,
        "protection": agreement.protection,
        "rounds": run.rounds,
    }


class _Run:
    """One fit's folder: its settings, its journal, and how far it is."""

    def __init__(self, folder: Path, request: Request, seed: int) -> None:
        self.folder = folder
        self.request = replace(request, given={**request.given, "random_state": seed})
        self.rounds, self._done, self._stage = 0, 0, ""
        self.attendance: dict[str, list[str]] = {}

    @classmethod
    def open(cls, server: Path, request: Request, new: bool) -> _Run:
        """The fit that has not finished, if it is this one; else another."""
        last = last_run(server)
        asked = _plain(request)
        if last is not None and not new and (last / "settings.json").exists():
            kept = json.loads((last / "settings.json").read_bytes())
            if json.loads((last / "progress.json").read_bytes())["state"] != "finished":
                if kept["asked"] != asked:
                    raise UsageError(
                        f"fit {last.name} has not finished and has other parameters: repeat it "
                        "with the same to go on, or give it up with --new"
                    )
                return cls(last, request, kept["seed"])
        folder = server / "runs" / f"{int(last.name) + 1 if last else 1:04d}"
        folder.mkdir()
        # The same starts when the fit is continued, also where nobody asked for a seed.
        seed = request.given.get("random_state", int.from_bytes(os.urandom(4), "little"))
        run = cls(folder, request, seed)
        run.record("begun")
        body = {"asked": asked, "seed": seed}
        write_secret(folder / "settings.json", json.dumps(body).encode())
        return run

    def begin(self, done: int, quiet: bool) -> None:
        """The fit begins, or goes on: the first ``done`` rounds are from the journal."""
        self.rounds, self._done = 0, done
        if done and not quiet:
            note(f"going on after round {done} of fit {self.folder.name}")

    def step(self, stage: Stage, release: Release[Any], quiet: bool) -> None:
        """A round is over."""
        self.rounds, self._stage = self.rounds + 1, stage.name
        if self.rounds <= self._done:
            return
        self.record("running")
        if not quiet and not sys.stderr.isatty():
            note(f"round {self.rounds}: {stage.name}")

    def record(self, state: str, problem: str = "") -> None:
        """Write down how far it is, for ``privem federate status``."""
        body = {
            "run": self.folder.name,
            "state": state,
            "rounds": self.rounds,
            "stage": self._stage,
            "problem": problem,
        }
        write_secret(self.folder / "progress.json", json.dumps(body).encode())


def _plain(request: Request) -> Any:
    """What was asked for, as JSON values."""
    asked = {"model": request.model.command, "exact": request.exact, **request.given}
    return json.loads(json.dumps(asked, default=lambda schema: schema.to_dict()))
