"""The commands and their options. What they do is in the modules beside this one."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from ..report import RECORD_SUFFIXES, check_destination
from .console import emit, emit_json, note, show
from .failures import EXIT_CODES, Command, Commands, ExitCode
from .federate import federate
from .fitting import Covariance, Method, Neighbours, PriorKind, Settings, fit_file
from .kinds import Kind
from .options import columns_of, types_of
from .summary import describe
from .using import open_model, sample_model, score_file

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

# Described in each command's own text and hidden from the list of arguments: typer 0.20 loses an
# argument's help under click 8.5.
Data = Annotated[Path, typer.Argument(metavar="DATA", hidden=True)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", hidden=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors included.")]


def _version(wanted: bool) -> None:
    if wanted:
        # Imported here: the package imports this module's siblings before it has a version.
        from .. import __version__

        emit(f"privem {__version__}\n")
        raise typer.Exit


@app.callback()
def privem(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """All commands."""


@app.command(cls=Command, epilog=EXIT_CODES)
def fit(
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to save the model (JSON).")
    ],
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
    model: Annotated[
        Kind, typer.Option("--model", "-m", metavar="NAME", help="What to fit: see above.")
    ] = Kind.gmm,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="What a regression is to explain."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help="Which columns, by name; may be repeated. Default: all but weight and target.",
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            "--weight", metavar="COLUMN", help="A column that says how much a row counts."
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="Type of a column in synthetic records: int, bool, float, uint8, ... Needed for "
            "CSV only, where every column is float otherwise.",
        ),
    ] = None,
    covariance: Annotated[
        Covariance | None,
        typer.Option("--covariance", help="Shape of a mixture's covariances. Default: full."),
    ] = None,
    prior: Annotated[
        PriorKind | None,
        typer.Option("--prior", help="Give a mixture's posterior mode under the default prior."),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter",
            min=1,
            help="At most so many iterations of an exact fit (fa: of any). Default: 100 (gmm), "
            "300 (kmeans), 1000 (fa, regression-mixture, categorical), 500 (symmetric*), 5000 "
            "(missing-regression).",
        ),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            "--tol",
            min=0.0,
            help="Stop an exact fit (fa: any) when an iteration gains less.",
        ),
    ] = None,
    n_init: Annotated[
        int | None,
        typer.Option("--n-init", min=1, help="Starts of an exact fit; the best is kept."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=2**32 - 1, help="For starts; never for noise."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Privacy budget of the whole fit. Default: 1."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Probability with which privacy may fail. Default: 1e-6."),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="COLUMN=LOW:HIGH",
            help="Public limits of a column; for every column or none (then they are estimated). "
            "Those of the target may be given or not.",
        ),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            "--category",
            metavar="COLUMN=A,B,...",
            help="Public list of a column's categories; a private fit of categorical needs one for "
            "every column.",
        ),
    ] = None,
    noise_variance: Annotated[
        float | None,
        typer.Option(
            "--noise-variance",
            help="Of symmetric* and missing-regression, where it is known. Default: estimated.",
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option("--method", help="Of symmetric* and missing-regression. Default: auto."),
    ] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option("--neighbours", help="The change that privacy hides. Default: add-remove."),
    ] = None,
    n_iter: Annotated[
        int | None,
        typer.Option(
            "--n-iter", min=1, help="Iterations of a private fit. Default: as the noise allows."
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Exact EM, without noise: NOTHING about it is private.")
    ] = False,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", help="Threads; -1 uses every core.")
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and --json).")
    ] = False,
) -> None:
    """Fit a model to DATA privately, without loading it whole, and save it.

    DATA is a .csv, .parquet or .npy file, or a folder of .parquet or .csv files.

    \b
    gmm                   a Gaussian mixture
    kmeans                k-means
    fa                    factor analysis
    symmetric             x is b or -b, and noise
    symmetric-regression  the target is <b, x> or -<b, x>, and noise
    missing-regression    it is <b, x> and noise; fields of x may be empty
    regression-mixture    it follows one of K lines
    categorical           K latent classes, over columns of categories

    The whole fit is differentially private, with epsilon 1 and delta 1e-6 unless said otherwise;
    the statement is printed and saved with the model. With --exact nothing is private: treat such a
    model as you would treat the data.
    """  # noqa: D301 (the lines between "\\b" and the next empty one stay as they are)
    settings = Settings(
        model,
        components,
        covariance,
        prior,
        max_iter,
        tol,
        n_init,
        seed,
        n_jobs,
        exact,
        epsilon,
        delta,
        tuple(bound or ()),
        neighbours,
        n_iter,
        target,
        tuple(category or ()),
        noise_variance,
        method,
    )
    settings.estimator()  # Complains about parameters before any file is touched.
    chosen, declared = columns_of(columns), types_of(types)
    if chosen is not None and weight in chosen:
        raise click.UsageError(f"--weight {weight!r} is also one of --columns")
    if target is not None and target in (weight, *(chosen or ())):
        raise click.UsageError(f"--target {target!r} is also --weight or one of --columns")
    if declared and model is Kind.categorical:
        raise click.UsageError("--type is for columns of numbers; categories need none")
    if data.exists() and output.exists() and data.samefile(output):
        raise click.UsageError(f"--output {str(output)!r} would overwrite the data")
    destination = check_destination(output)
    _, summary = fit_file(settings, data, chosen, weight, destination, quiet, declared)
    if as_json:
        emit_json(summary | {"output": str(output)})
    elif not quiet:
        for warning in summary["warnings"]:
            note(warning)
        show(*describe(summary, output))


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
    if output is not None:
        if output.suffix not in RECORD_SUFFIXES:
            raise click.UsageError(
                f"--output {str(output)!r} must end in {', '.join(RECORD_SUFFIXES)}"
            )
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
        typer.Option("--target", metavar="COLUMN", help="The target column of a regression."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how well a model describes data; columns are taken by name.

    MODEL is a file that privem fit wrote. DATA is a .csv, .parquet or .npy file, or a folder of
    .parquet or .csv files.

    Mean log-density of a row, or of its target given the rest (regressions); minus the inertia and
    the mean squared distance to the nearest centre (kmeans). Higher scores are better. They are
    exact: publishing them is a release about those rows that nobody has paid for.
    """
    summary = score_file(open_model(model), data, target)
    if as_json:
        emit_json(summary)
        return
    labels = {
        "rows": "rows",
        "mean_log_density": "mean log-density",
        "minus_inertia": "minus inertia",
        "mean_squared_distance": "mean squared distance",
    }
    for key, label in labels.items():
        if key in summary:
            value = summary[key]
            text = f"{value:,}" if isinstance(value, int) else f"{value:.8g}"
            emit(f"{label:<22} {text}\n")


@app.command(cls=Command, epilog=EXIT_CODES)
def audit(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", hidden=True, show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a privacy statement, or audit privem itself.

    MODEL is a file that privem fit wrote: epsilon is computed anew from the recorded releases,
    independently of the code that calibrated them. Without one, the releases of every
    estimator are attacked with neighbouring data sets (about a minute).
    """
    # Imported here: no other command needs the auditor.
    from ..audit import audit_model_file, self_audit

    if model is not None:
        open_model(model)  # A missing or damaged file is said as everywhere.
        report = audit_model_file(model)
    else:
        report = self_audit()
    if as_json:
        emit_json(report.to_dict())
    else:
        emit(f"{report}\n")
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
    # Imported here: the other commands need no picture.
    from ..demo import run_demo
    from .showing import describe_demo

    emit(f"privem demo: synthetic people in {out}\n\n")
    show(*describe_demo(run_demo(out, rows, seed, say=emit)))


def main() -> None:
    """Run the command line."""
    # So that a half-written file is removed when a batch system ends us politely.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
