"""The commands and their options. What they do is in the modules beside this one.

Those are imported by the command that needs them, when it runs: help and ``--version`` load typer
and nothing else that is large (a test looks).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .arguments import Data, Header, Json, ModelFile
from .failures import EXIT_CODES, Command, Commands, ExitCode, UsageError, writing_file
from .federate import federate
from .fit_command import fit

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands,
    name="privem",
    help="Expectation Maximization without giving away the people in the data.\n\n"
    "Fits are differentially private, with epsilon 1 unless said otherwise.",
    epilog=EXIT_CODES,
    add_completion=False,
    no_args_is_help=True,
    # Plain text reads well in every terminal, log and screen reader.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

app.add_typer(federate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privem {__version__}")
        raise typer.Exit


@app.callback()
def privem(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """All commands."""


app.command(cls=Command, epilog=EXIT_CODES)(fit)


@app.command(cls=Command, epilog=EXIT_CODES)
def sample(
    model: ModelFile,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many records to draw.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write: .csv, .parquet or .npy. Default: CSV to standard output.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, max=2**32 - 1, help="The same number draws the same records."
        ),
    ] = None,
) -> None:
    """Draw synthetic records from a model.

    MODEL is a file that privem fit wrote: gmm, fa, symmetric or categorical.

    Columns have the names and the declared types of the data fitted (--type of privem fit, for
    CSV), and values lie within the bounds of a private fit.
    """
    from ..files import check_destination
    from ..report import RECORD_SUFFIXES
    from .console import emit
    from .using import open_model, sample_model

    if output is not None:
        if output.suffix not in RECORD_SUFFIXES:
            raise UsageError(f"--output {str(output)!r} must end in {', '.join(RECORD_SUFFIXES)}")
        with writing_file(output):
            check_destination(output)
    names = sample_model(open_model(model), rows, output, seed)
    if output is not None:
        emit(f"Wrote {rows:,} rows of {len(names)} columns to {output}\n")


@app.command(cls=Command, epilog=EXIT_CODES)
def score(
    model: ModelFile,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            help="The target column of a regression. Default: the one fitted, if the model knows "
            "it.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Score privately, with this budget (gmm, fa)."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Of a private score. Default: 1e-6."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="COLUMN",
            help="Whom a row belongs to: a private score then hides persons, not rows.",
        ),
    ] = None,
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Say how well a model describes data; columns are taken by name.

    MODEL is a file that privem fit wrote. DATA is a .csv, .parquet or .npy file, or a folder of
    .parquet or .csv files.

    Mean log-density of a row, or of its target given the rest (regressions); minus the inertia and
    the mean squared distance to the nearest centre (kmeans). Higher scores are better.

    Scores are exact, and publishing one is a release about those rows that nobody has paid for;
    unless --epsilon is given. That budget is the score's own: it adds to that of the fit if these
    are the same people.
    """
    from .console import emit_json, note, show
    from .scoring import describe_score, score_file, score_privately
    from .using import open_model

    if epsilon is None and (delta is not None or groups is not None):
        option = "--delta" if groups is None else "--groups"
        raise UsageError(f"{option} is for private scores: give --epsilon too")
    if epsilon is not None and target is not None:
        raise UsageError("--target is for regressions, which have exact scores only")
    fitted = open_model(model)
    if epsilon is None:
        summary = score_file(fitted, data, target, header)
    else:
        summary = score_privately(fitted, data, epsilon, delta, groups, header)
    if as_json:
        emit_json(summary)
    else:
        for warning in summary.get("warnings", ()):
            note(warning)
        show(*describe_score(summary))


@app.command(cls=Command, epilog=EXIT_CODES)
def audit(
    model: Annotated[Path | None, typer.Argument(hidden=True, show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Check a privacy statement, or audit privem itself.

    MODEL is a file that privem fit wrote: epsilon is computed anew from the recorded releases,
    independently of the code that calibrated them. Without one, the releases of every
    estimator are attacked with neighbouring data sets (a few minutes).
    """
    from ..audit import audit_model_file, self_audit
    from .console import emit, emit_json
    from .folding import folded
    from .using import open_model

    if model is not None:
        open_model(model)  # A missing or damaged file is said as everywhere.
        report = audit_model_file(model)
    else:
        report = self_audit()
    if as_json:
        emit_json(report.to_dict())
    else:
        emit(f"{folded(report)}\n")
    if not report.passed:
        raise typer.Exit(int(ExitCode.AUDIT))


@app.command(cls=Command, epilog=EXIT_CODES)
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the results.")
    ] = Path("demo"),
    rows: Annotated[int, typer.Option("--rows", min=100, help="How many people.")] = 200_000,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 2, help="The same number, the same people.")
    ] = 0,
) -> None:
    """Make synthetic people, fit them privately, show what that costs.

    Epsilon is 1. Exact EM and a private single Gaussian are fitted for comparison; that is for
    show, and only because these people do not exist. Writes people.parquet, model.json,
    synthetic.parquet and demo.png.
    """
    from ..demo import run_demo
    from .console import emit, show
    from .showing import describe_demo

    emit(f"privem demo: synthetic people in {out}\n\n")
    with writing_file(out):
        found = run_demo(out, rows, seed, say=emit)
    show(*describe_demo(found))


def main() -> None:
    """Run the command line."""
    # So that a half-written file is removed when a batch system ends us politely.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
