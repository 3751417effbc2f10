"""``privem federate``: the commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..federation import protections
from . import options
from .config import from_file
from .failures import Commands, check_output
from .option_values import read_limit, reading

# The settings of privem fit that a federation knows.
_SETTINGS = (
    *("components", "covariance_type", "noise_variance", "method", "max_iter", "tol"),
    *("random_state", "epsilon", "delta", "neighbours", "n_iter", "target", "ledger"),
)


@click.group(cls=Commands)
def federate() -> None:
    """Fit one model over several parties, each with its own process and its own rows.

    Start with init. Then start a server, start a party for each data holder, and run a fit.
    """


@federate.command()
@options.folder
@options.option("--name", "What the federation calls the party.", required=True)
@options.as_json
def key(folder: Path, name: str, as_json: bool) -> None:
    """Make a party's keys, on its own machine.

    FOLDER is the party's. Send only the card.json in it to whoever sets up the federation.
    """
    from .console import emit_either
    from .federation_folders import make_keys

    make_keys(folder, name)
    card = folder / "card.json"
    said = f"Keys of {name} are in {folder}; {card} is public, the rest is secret.\n"
    emit_either(as_json, {"name": name, "folder": str(folder), "card": str(card)}, said)


@federate.command()
@options.folder
@options.option(
    "--party parties",
    "A party whose keys to make here, to try things out; may be repeated.",
    multiple=True,
    metavar="NAME",
)
@options.option(
    "--card cards",
    "The card of a party that has its own keys; may be repeated.",
    options.PATH,
    multiple=True,
    metavar="FILE",
)
@options.option(
    "--protection",
    "What hides a party's sums from the server.",
    click.Choice(protections.names()),
    default="masked",
)
@options.option(
    "--address", "Where parties find the server.", default="127.0.0.1:9092", metavar="HOST:PORT"
)
@options.offer(
    "bounds",
    "Public limits of a column, for every column that is fitted. Masked exact fits need them; "
    "private fits without them estimate them.",
)
@options.columns
@options.offer("target", "Which of the columns a regression explains.")
@options.offer(
    "categories",
    "The categories of a column, for every column, instead of --bound: for models of categories.",
)
@options.offer(
    "schema",
    "What the columns are, instead of --bound: a .toml or .json file, for mixed tables. Numbers "
    "are declared as int or float, as no table is at hand.",
)
@options.option("--rows", "Public bound on the number of records.", click.IntRange(1))
@options.option("--dropouts", "How many parties may be missing.", click.IntRange(0), default=0)
@options.option(
    "--colluders",
    "How many parties may work with the server, or use what they know of their own noise. "
    "Default: one, if noise is shared.",
    click.IntRange(0),
)
@options.option(
    "--minimum", "The fewest parties whose sum may be opened.", click.IntRange(1), default=3
)
@options.option("--weighted", "Records have weights (party --weight).", is_flag=True)
@options.option(
    "--persons",
    "Private fits protect persons with all their records (party --groups).",
    is_flag=True,
)
@options.as_json
def init(
    folder: Path, parties: tuple[str, ...], cards: tuple[Path, ...], as_json: bool, **agreed: Any
) -> None:
    """Set up a federation: what all parties agree on, and the server's certificate.

    FOLDER gets a folder for the server and the file federation.json, which is public. Every party
    puts a copy of that file into its own folder.

    Each party makes its keys with privem federate key and sends its card, which --card takes. To
    try things out on one machine, --party makes a ready folder for a party here, keys included:
    whoever does that knows all keys.
    """
    from .console import emit_either
    from .federation_folders import next_steps, set_up

    terms = set_up(folder, parties, cards, **agreed)
    emit_either(as_json, terms, next_steps(folder, parties, terms, agreed))


@federate.command()
@options.folder
@options.option(
    "--listen", "Where to listen. Default: the host that was agreed on.", metavar="HOST"
)
@options.as_json_lines
def server(folder: Path, listen: str | None, as_json: bool) -> None:
    """Carry messages between the parties and the fit, until stopped (a Flower SuperLink).

    FOLDER is the server's. Connections use TLS, and only the agreed parties are let in.
    """
    from .federation_run import run_server

    run_server(folder, listen, as_json)


@federate.command()
@options.folder
@options.data
@options.option(
    "--epsilon",
    "The most this party gives away, over all fits; exact fits are then refused. It stays set "
    "until it is changed, or lifted by none. Default: as it was; none at first.",
    metavar="FLOAT|none",
    callback=reading(read_limit),
)
@options.option(
    "--delta", "Probability with which privacy may fail. Default: as it was; 1e-6 at first.", float
)
@options.option(
    "--despite-exact-answers",
    "Set --epsilon although exact answers were given, which it does not cover.",
    is_flag=True,
)
@options.offer(
    "ledger",
    "The ledger of the rows' data set, which every fit is charged to as well; exact fits are then "
    "refused.",
)
@options.offer("weight", "A column that says how much a row counts.")
@options.offer("groups", "A column that says which person a row belongs to.")
@options.header
@options.offer("n_jobs", "Threads; -1 uses every core.")
@options.as_json_lines
def party(
    folder: Path,
    data: Path,
    n_jobs: int | None,
    ledger: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Answer for the rows of one party, until stopped.

    FOLDER is the party's. DATA is a .csv, .parquet or .npy file, or a folder of them. FOLDER keeps
    what was answered: if the process stops or is killed, start it again and it goes on.
    """
    from .federation_run import run_party

    limits = {name: asked.pop(name) for name in ("epsilon", "delta", "despite_exact_answers")}
    run_party(folder, data, limits, ledger, n_jobs, as_json, **asked)


@federate.command(cls=options.ModelCommand, only=_SETTINGS)
@options.folder
@options.model_output
@options.model
@options.exact
@options.option(
    "--patience",
    "Seconds after which a silent party counts as dropped out.",
    click.FloatRange(1),
    default=60.0,
)
@options.option("--new", "Give up an unfinished fit and begin another.", is_flag=True)
@options.as_json
@options.quiet
def run(
    folder: Path,
    output: Path,
    patience: float,
    new: bool,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Fit a model over all parties and save it.

    FOLDER is the server's. If the fit stops in the middle, run the same command again: it goes on
    after the last finished round, and nothing is asked or paid for twice. The target of a
    regression, categories and a schema were agreed on in privem federate init.
    """
    from .federation_folders import agreed
    from .federation_run import fit_parties
    from .fit import Request
    from .summary import report_fit

    given = asked | agreed(folder, asked["model"], asked["target"])
    request = Request.of(**given, spare=from_file())
    if request.several is not None:
        raise click.UsageError("a federation takes one number of --components")
    request.estimator()  # Complains about parameters before anybody is asked.
    estimator, summary = fit_parties(folder, request, check_output(output), patience, new, quiet)
    report_fit(request.model, estimator, summary | {"output": str(output)}, as_json, quiet)


@federate.command()
@options.folder
@options.as_json
def status(folder: Path, as_json: bool) -> None:
    """Show the state of a server or of a party.

    FOLDER is the server's (is it up, who is there, how far is the fit) or a party's (what it has
    given away so far).
    """
    from .console import emit_either
    from .federation_folders import status_of, status_text

    facts = status_of(folder)
    emit_either(as_json, facts, status_text(facts))
