"""``privem federate``: the commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..declaration import Declaration
from ..federation import protections
from . import options
from .failures import Commands, writing_file

# The settings of privem fit that a federation knows.
_SETTINGS = (
    *("components", "covariance_type", "noise_variance", "method", "max_iter", "tol"),
    *("random_state", "epsilon", "delta", "neighbours", "n_iter"),
)


@click.group(cls=Commands)
def federate() -> None:
    """Fit one model over several parties, each with its own process and its own rows.

    Start with init. Then start a server, start a party for each data holder, and run a fit.
    """


@federate.command()
@options.folder
@click.option("--name", required=True, help="What the federation calls the party.")
def key(folder: Path, name: str) -> None:
    """Make a party's keys, on its own machine.

    FOLDER is the party's. Send only the card.json in it to whoever sets up the federation.
    """
    from .console import emit
    from .federation_folders import make_keys

    make_keys(folder, name)
    emit(f"Keys of {name} are in {folder}; {folder / 'card.json'} is public, the rest is secret.\n")


@federate.command()
@options.folder
@click.option(
    "--party",
    "parties",
    multiple=True,
    metavar="NAME",
    help="A party whose keys to make here, to try things out; may be repeated.",
)
@click.option(
    "--card",
    "cards",
    multiple=True,
    type=options.PATH,
    metavar="FILE",
    help="The card of a party that has its own keys; may be repeated.",
)
@click.option(
    "--protection",
    type=click.Choice(protections.names()),
    default="masked",
    show_default=True,
    help="What hides a party's sums from the server.",
)
@click.option(
    "--address",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Where parties find the server.",
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
@click.option("--rows", type=click.IntRange(1), help="Public bound on the number of records.")
@click.option(
    "--dropouts",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How many parties may be missing.",
)
@click.option(
    "--colluders",
    type=click.IntRange(0),
    help="How many parties may work with the server, or use what they know of their own noise. "
    "Default: one, if noise is shared.",
)
@click.option(
    "--minimum",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="The fewest parties whose sum may be opened.",
)
@click.option("--weighted", is_flag=True, help="Records have weights (party --weight).")
@click.option(
    "--persons",
    is_flag=True,
    help="Private fits protect persons with all their records (party --groups).",
)
@options.as_json
def init(
    folder: Path,
    parties: tuple[str, ...],
    cards: tuple[Path, ...],
    address: str,
    rows: int | None,
    as_json: bool,
    **agreed: Any,
) -> None:
    """Set up a federation: what all parties agree on, and the server's certificate.

    FOLDER gets a folder for the server and the file federation.json, which is public. Every party
    puts a copy of that file into its own folder.

    Each party makes its keys with privem federate key and sends its card, which --card takes. To
    try things out on one machine, --party makes a ready folder for a party here, keys included:
    whoever does that knows all keys.
    """
    from .console import emit, emit_json
    from .federation_folders import next_steps, set_up

    terms = set_up(
        folder, parties, cards, address, rows=None if rows is None else float(rows), **agreed
    )
    if as_json:
        emit_json(terms)
    else:
        emit(next_steps(folder, parties, terms, agreed))


@federate.command()
@options.folder
@click.option(
    "--listen", metavar="HOST", help="Where to listen. Default: the host that was agreed on."
)
def server(folder: Path, listen: str | None) -> None:
    """Carry messages between the parties and the fit, until stopped (a Flower SuperLink).

    FOLDER is the server's. Connections use TLS, and only the agreed parties are let in.
    """
    from .federation_run import run_server

    run_server(folder, listen)


@federate.command()
@options.folder
@options.data
@click.option(
    "--epsilon",
    metavar="FLOAT|none",
    callback=options.reading(options.read_limit),
    help="The most this party gives away, over all fits; exact fits are then refused. It stays set "
    "until it is changed, or lifted by none. Default: as it was; none at first.",
)
@click.option(
    "--delta",
    type=float,
    help="Probability with which privacy may fail. Default: as it was; 1e-6 at first.",
)
@click.option(
    "--despite-exact-answers",
    is_flag=True,
    help="Set --epsilon although exact answers were given, which it does not cover.",
)
@options.offer("weight", "A column that says how much a row counts.")
@options.offer("groups", "A column that says which person a row belongs to.")
@options.header
@options.offer("n_jobs", "Threads; -1 uses every core.")
def party(
    folder: Path,
    data: Path,
    weight: str | None,
    groups: str | None,
    header: bool | None,
    n_jobs: int | None,
    **limits: Any,
) -> None:
    """Answer for the rows of one party, until stopped.

    FOLDER is the party's. DATA is a .csv, .parquet or .npy file, or a folder of them. FOLDER keeps
    what was answered: if the process stops or is killed, start it again and it goes on.
    """
    from .federation_run import run_party

    run_party(folder, data, limits, weight, groups, header, n_jobs)


@federate.command(cls=options.ModelCommand, only=_SETTINGS)
@options.folder
@options.model_output
@options.model
@options.exact
@click.option(
    "--patience",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    help="Seconds after which a silent party counts as dropped out.",
)
@click.option("--new", is_flag=True, help="Give up an unfinished fit and begin another.")
@options.as_json
@options.quiet
def run(
    folder: Path,
    output: Path,
    model: Declaration,
    exact: bool,
    patience: float,
    new: bool,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Fit a model over all parties and save it.

    FOLDER is the server's. If the fit stops in the middle, run the same command again: it goes on
    after the last finished round, and nothing is asked or paid for twice. The target and the
    categories were agreed on in privem federate init.
    """
    from ..files import check_destination
    from .federation_folders import agreed
    from .federation_run import fit_parties
    from .fit import Request
    from .summary import report_fit

    request = Request.of(model, exact, settings | agreed(folder, model))
    request.estimator()  # Complains about parameters before anybody is asked.
    with writing_file(output):
        destination = check_destination(output)
    estimator, summary = fit_parties(folder, request, destination, patience, new, quiet)
    report_fit(estimator, model, summary, output, as_json, quiet)


@federate.command()
@options.folder
@options.as_json
def status(folder: Path, as_json: bool) -> None:
    """Show the state of a server or of a party.

    FOLDER is the server's (is it up, who is there, how far is the fit) or a party's (what it has
    given away so far).
    """
    from .console import emit, emit_json
    from .federation_folders import status_of, status_text

    facts = status_of(folder)
    if as_json:
        emit_json(facts)
    else:
        emit(status_text(facts))
