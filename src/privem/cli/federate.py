"""``privem federate``: the commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .arguments import Header
from .choices import Covariance, Method, Neighbours, Protection
from .failures import EXIT_CODES, Command, writing_file
from .kinds import Kind

__all__ = ["federate"]

federate = typer.Typer(
    name="federate",
    help="Fit one model over several parties, each with its own process and its own rows.\n\n"
    "Start with init; then a server, a party per data holder, and run.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
)

# Described in each command's own text, as in app.py.
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", hidden=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors included.")]


@federate.command(cls=Command, epilog=EXIT_CODES)
def key(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", help="What the federation calls the party.")],
) -> None:
    """Make a party's keys, on its own machine.

    FOLDER is the party's; give only the card.json in it to whoever founds the federation.
    """
    from .console import emit
    from .founding import make_keys

    make_keys(folder, name)
    emit(f"Keys of {name} are in {folder}; {folder / 'card.json'} is public, the rest is secret.\n")


@federate.command(cls=Command, epilog=EXIT_CODES)
def init(
    folder: Folder,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", metavar="NAME", help="A party whose keys to make here, to try."),
    ] = None,
    card: Annotated[
        list[Path] | None,
        typer.Option("--card", metavar="FILE", help="The card of a party that has its own keys."),
    ] = None,
    protection: Annotated[
        Protection, typer.Option("--protection", help="Hides sums.")
    ] = Protection.masked,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Where parties find the server.")
    ] = "127.0.0.1:9092",
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="COLUMN=LOW:HIGH",
            help="Public limits of a column, for every column that is fitted. Masked exact fits "
            "need them; private fits without them estimate them.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,...", help="Which columns, without --bound."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="Which of them a regression explains."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            "--category",
            metavar="COLUMN=A,B,...",
            help="The categories of a column, for every column, instead of --bound: for --model "
            "categorical.",
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Public bound on the number of records.")
    ] = None,
    dropouts: Annotated[
        int, typer.Option("--dropouts", min=0, help="How many parties may be missing.")
    ] = 0,
    colluders: Annotated[
        int | None,
        typer.Option(
            "--colluders",
            min=0,
            help="How many may work with the server or use what they know of their own noise; one, "
            "if noise is shared.",
        ),
    ] = None,
    minimum: Annotated[
        int, typer.Option("--minimum", min=1, help="Fewer parties than this open no sum.")
    ] = 3,
    weighted: Annotated[
        bool, typer.Option("--weighted", help="Records have weights (party --weight).")
    ] = False,
    persons: Annotated[
        bool,
        typer.Option(
            "--persons", help="Private fits hide persons with all their records (party --groups)."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Found a federation: what all agree on, the server's certificate and, to try, the keys.

    FOLDER gets a folder for the server and federation.json, which is public and which every party
    puts into its own folder. With --party there is a ready folder for each party too; whoever does
    so knows all keys, so it is for trying things out on one machine. Otherwise each party makes its
    keys with privem federate key and sends its card.
    """
    from .console import emit, emit_json
    from .founding import found

    terms = found(
        folder,
        party or [],
        card or [],
        address,
        bound or [],
        columns,
        target,
        category or [],
        protection=str(protection),
        dropouts=dropouts,
        colluders=colluders,
        minimum=minimum,
        rows=None if rows is None else float(rows),
        weighted=weighted,
        persons=persons,
    )
    if as_json:
        emit_json(terms)
        return
    emit(f"Federation of {', '.join(terms['parties'])}, protection {protection}.\n\n")
    emit(f"{terms['trust']}\n\n")
    emit(f"Next:  privem federate server {folder / 'server'}\n")
    more = f"{' --weight COLUMN' if weighted else ''}{' --groups COLUMN' if persons else ''}"
    for name in terms["parties"]:
        where = folder / name if name in (party or []) else f"FOLDER-OF-{name}"
        emit(f"       privem federate party {where} DATA{more}\n")
    what = "-m regression-mixture -k 2" if target else "-m categorical -k 2" if category else "-k 3"
    emit(f"       privem federate run {folder / 'server'} {what} -o model.json\n")


@federate.command(cls=Command, epilog=EXIT_CODES)
def server(
    folder: Folder,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST", help="Listen there; default: the address's."),
    ] = None,
) -> None:
    """Carry messages between parties and the fit, until stopped (a Flower SuperLink).

    FOLDER is the server's. TLS only; only the nodes of the agreed parties are let in.
    """
    from .federated import carry

    carry(folder, listen)


@federate.command(cls=Command, epilog=EXIT_CODES)
def party(
    folder: Folder,
    data: Annotated[Path, typer.Argument(metavar="DATA", hidden=True)],
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="FLOAT|none",
            help="The most this party gives away, over all fits; exact fits are then refused. "
            "It stays set until another is, or none. Default: as it was; none at first.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            help="Probability with which privacy may fail. Default: as it was; 1e-6 at first.",
        ),
    ] = None,
    despite_exact_answers: Annotated[
        bool,
        typer.Option(
            "--despite-exact-answers",
            help="Set --epsilon although exact answers were given, about which it says nothing.",
        ),
    ] = False,
    weight: Annotated[
        str | None,
        typer.Option("--weight", metavar="COLUMN", help="A column that says how much a row counts"),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups", metavar="COLUMN", help="A column that says whom a row belongs to."
        ),
    ] = None,
    header: Header = None,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", help="Threads; -1 uses every core.")
    ] = None,
) -> None:
    """Answer for the rows of one party, until stopped.

    FOLDER is the party's; DATA a .csv, .parquet or .npy file, or a folder of them. What was
    answered is remembered in FOLDER: stopped or killed, start it again and it goes on.
    """
    from .federated import take_part
    from .options import limit_of

    limits = {
        "epsilon": limit_of(epsilon),
        "delta": delta,
        "despite_exact_answers": despite_exact_answers,
    }
    take_part(folder, data, limits, weight, groups, header, n_jobs)


@federate.command(cls=Command, epilog=EXIT_CODES)
def run(
    folder: Folder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the model (JSON).")
    ],
    model: Annotated[
        Kind, typer.Option("--model", "-m", metavar="NAME", help="What to fit, as privem fit.")
    ] = Kind.gmm,
    components: Annotated[
        int | None,
        typer.Option(
            "--components",
            "-k",
            min=1,
            help="Number of components, clusters, factors, lines or classes; the others have none "
            "to choose.",
        ),
    ] = None,
    covariance: Annotated[
        Covariance | None,
        typer.Option("--covariance", help="Shape of a mixture's covariances. Default: full."),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option("--max-iter", min=1, help="At most so many iterations.")
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option("--tol", min=0.0, help="Stop when an iteration gains less than this."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**32 - 1, help="For starts; never for noise."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="The budget of the fit. Default: 1."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Probability with which privacy may fail. Default: 1e-6."),
    ] = None,
    neighbours: Annotated[
        Neighbours | None, typer.Option("--neighbours", help="The change that privacy hides.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Exact EM, without noise: NOTHING about it is private.")
    ] = False,
    n_iter: Annotated[
        int | None, typer.Option("--n-iter", min=1, help="Iterations of a private fit.")
    ] = None,
    noise_variance: Annotated[
        float | None,
        typer.Option("--noise-variance", help="Of the noise, where it is known (regressions)."),
    ] = None,
    method: Annotated[
        Method | None, typer.Option("--method", help="How symmetric models are fitted.")
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            "--patience", min=1.0, help="Seconds after which a silent party has dropped out."
        ),
    ] = 60.0,
    new: Annotated[
        bool, typer.Option("--new", help="Give up an unfinished fit and begin another.")
    ] = False,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and --json).")
    ] = False,
) -> None:
    """Fit a model over all parties and save it.

    FOLDER is the server's. If the fit stops in the middle, the same command goes on after the last
    finished round: nothing is asked, or paid for, twice. Which column is the target, and which
    categories there are, was said when the federation was founded.
    """
    from ..files import check_destination
    from .console import emit_json, note, show
    from .federated import fit_parties
    from .founding import agreed
    from .settings import Settings
    from .summary import describe

    settings = Settings(
        model,
        components,
        covariance,
        max_iter=max_iter,
        tol=tol,
        seed=seed,
        exact=exact,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        n_iter=n_iter,
        noise_variance=noise_variance,
        method=method,
        **agreed(folder, model),
    )
    settings.estimator()  # Complains about parameters before anybody is asked.
    with writing_file(output):
        destination = check_destination(output)
    summary = fit_parties(folder, settings, destination, patience, new, quiet)
    if as_json:
        emit_json(summary | {"output": str(output)})
    elif not quiet:
        for warning in summary["warnings"]:
            note(warning)
        show(*describe(summary, output))


@federate.command(cls=Command, epilog=EXIT_CODES)
def status(folder: Folder, as_json: Json = False) -> None:
    """Say where things stand.

    FOLDER is the server's (is it up, who is there, how far is the fit) or a party's (its account).
    """
    from .console import emit, emit_json
    from .founding import show_status, standing

    facts = standing(folder)
    if as_json:
        emit_json(facts)
    else:
        emit(show_status(facts))
