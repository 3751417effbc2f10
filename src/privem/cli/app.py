"""The commands and their options. What they do is in the modules beside this one.

Those are imported by the command that needs them, when it runs: help and ``--version`` load click
and nothing else that is large (a test checks this).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click

from .. import __version__
from . import options
from .failures import Commands, ExitCode, check_output, writing_file
from .federation import federate
from .option_values import read_types, reading


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.version_option(__version__, message="privem %(version)s", help="Show the version.")
def app() -> None:
    """Expectation Maximization without giving away the people in the data.

    Fits are differentially private, with epsilon 1 unless said otherwise.
    """


@app.command(cls=options.ModelCommand)
@options.data
@options.model_output
@options.model
@options.columns
@options.option(
    "--type types",
    "Type of a column in synthetic records: int, bool, float, uint8, ... Needed for CSV only, "
    "where every column is float otherwise.",
    multiple=True,
    metavar="COLUMN=TYPE",
    callback=reading(read_types),
)
@options.header
@options.exact
@options.as_json
@options.quiet
def fit(data: Path, output: Path, as_json: bool, quiet: bool, **asked: Any) -> None:
    """Fit a model to DATA privately, without loading it whole, and save it.

    DATA is a .csv, .parquet or .npy file, or a folder of .parquet or .csv files.

    The whole fit is differentially private, with epsilon 1 and delta 1e-6 unless said otherwise.
    The privacy statement is printed, and saved with the model. With --exact nothing is private:
    treat such a model as you would treat the data.
    """
    from .fit import Request, fit_file
    from .summary import report_fit

    request = Request.of(**asked)
    request.estimator()  # Complains about parameters before any file is touched.
    request.check_columns()
    if data.exists() and output.exists() and data.samefile(output):
        raise click.UsageError(f"--output {str(output)!r} would overwrite the data")
    estimator, summary = fit_file(request, data, check_output(output), quiet)
    report_fit(request.model, estimator, summary | {"output": str(output)}, as_json, quiet)


@app.command()
@options.model_file
@options.option("--rows -n", "How many records to draw.", click.IntRange(1), required=True)
@options.option(
    "--output -o",
    "Where to write: .csv, .parquet or .npy. Default: CSV to standard output.",
    options.PATH,
    metavar="FILE",
)
@options.option("--seed", "The same number draws the same records.", options.SEED)
@options.option(
    "--background/--no-background",
    "Whether to draw from the model's background too, if it has one.",
    default=True,
)
def sample(model: Path, rows: int, output: Path | None, seed: int | None, background: bool) -> None:
    """Draw synthetic records from a model.

    MODEL is a file that privem fit wrote. A regression or k-means cannot be drawn from.

    Columns have the names and the types of the fitted data (for CSV: the --type of privem fit).
    Values lie within the bounds of a private fit.
    """
    from .console import emit
    from .model_files import check_records, open_model, sample_model

    if output is not None:
        check_records(output)
    names = sample_model(open_model(model), rows, output, seed, background)
    if output is not None:
        emit(f"Wrote {rows:,} rows of {len(names)} columns to {output}\n")


@app.command()
@options.model_file
@options.data
@options.offer(
    "target", "The target of a regression. Default: the one it was fitted to, if the file knows it."
)
@options.option("--epsilon", "Score privately, with this budget. Not every model can.", float)
@options.option("--delta", "Of a private score. Default: 1e-6.", float)
@options.option(
    "--against",
    "Another model file to score in the same private release. May be repeated.",
    options.PATH,
    multiple=True,
    metavar="MODEL",
)
@options.offer(
    "groups", "Which person a row belongs to. A private score then protects persons, not rows."
)
@options.header
@options.as_json
def score(
    model: Path,
    data: Path,
    epsilon: float | None,
    against: tuple[Path, ...],
    as_json: bool,
    **how: Any,
) -> None:
    """Say how well a model describes data.

    MODEL is a file that privem fit wrote. DATA is a .csv, .parquet or .npy file, or a folder of
    .parquet or .csv files. Columns are taken by name.

    The score is the mean log-density of a row; for regressions that of the target given the rest
    of the row; for k-means it is minus the inertia, shown with the mean squared distance to the
    nearest centre. Higher scores are better.

    Without --epsilon the score is exact: publishing it reveals something about those rows that no
    privacy budget covers. With --epsilon it is private. That budget is the score's own: it adds to
    the budget of the fit if these are the same people. With --against, several models share the
    budget and are compared fairly: the same limits apply to all of them.
    """
    from .model_files import open_model, score_file, score_privately
    from .summary import report_score

    if epsilon is None:
        other, why = ["groups", "delta"], "private scores: give --epsilon too"
    else:
        other, why = ["target"], "regressions, which have exact scores only"
    for name in other:
        if how.pop(name) is not None:
            raise click.UsageError(f"--{name} is for {why}")
    if against and epsilon is None:
        raise click.UsageError("--against is for private scores: give --epsilon too")
    fitted = {str(path): open_model(path) for path in (model, *against)}
    if epsilon is None:
        summary = score_file(fitted[str(model)], data, **how)
    else:
        summary = score_privately(fitted, data, epsilon, **how)
    report_score(summary, as_json)


@app.command()
@options.data
@options.option(
    "--output -o",
    "Where to write (.toml). Default: standard output.",
    options.PATH,
    metavar="FILE",
)
@options.header
def schema(data: Path, output: Path | None, header: bool | None) -> None:
    """Draft a schema of DATA for you to complete.

    DATA is a .parquet or .csv file, or a folder of them. The draft holds the names of the columns
    and, for Parquet, their declared types: no value is looked at. Bounds, categories and what may
    be missing are left as "?", for you to fill in from what is publicly known.

    The names of a CSV file are shown with --header only.
    """
    from .console import emit
    from .schemas import check_draft, draft_schema

    if output is not None:
        check_draft(output)
    text = draft_schema(data, output, header)
    emit(text if output is None else f'Wrote {output}: complete every "?" in it\n')


@app.command()
@options.data
@options.offer("schema", "What the columns are (.toml or .json): privem schema begins one.")
@options.option(
    "--output -o",
    "Where to write the synthetic table: .csv or .parquet.",
    options.PATH,
    metavar="FILE",
)
@options.offer("target", "A column that the others should predict well.")
@options.option(
    "--rows -n",
    "How many records. Default: as many as the data has, about; with --groups, as persons.",
    int,
)
@options.option("--epsilon", "Privacy budget of all of it. Default: 1.", float)
@options.option("--delta", "Probability with which privacy may fail. Default: 1e-6.", float)
@options.offer("groups", "Which person a row belongs to. Privacy then protects persons, not rows.")
@options.offer("weight", "A column that says how much a row counts.")
@options.option("--model-file", "Where to save the model (JSON) too.", options.PATH, metavar="FILE")
@options.option(
    "--evaluate",
    "Public test data: say how near the synthetic table is to it.",
    options.PATH,
    metavar="FILE",
)
@options.option(
    "--picture",
    "Draw the synthetic table beside what was released (.png).",
    options.PATH,
    metavar="FILE",
)
@options.option(
    "--forecast",
    "Say what to expect of about so many rows, and stop: nothing is read, nothing is spent.",
    click.IntRange(1),
    metavar="ROWS",
)
@options.option("--seed random_state", "Seed for searches and draws, never noise.", options.SEED)
@options.header
@options.exact
@options.as_json
@options.quiet
def synth(
    data: Path,
    output: Path | None,
    rows: int | None,
    model_file: Path | None,
    evaluate: Path | None,
    picture: Path | None,
    forecast: int | None,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Make a synthetic table that is like DATA, privately.

    DATA is a .csv or .parquet file, or a folder of them, with columns of numbers, categories,
    flags, dates and gaps, as its schema says. Fits the model TableMixture (privem fit -m table)
    and draws records from it.

    Everything that is printed is private too: the report compares the synthetic table with what
    was released, and with nothing else. --evaluate compares with other, public rows.
    """
    from .model_files import refuse_overwriting
    from .synth import (
        check_picture,
        forecasts,
        make_request,
        report,
        report_forecast,
        synthesize,
    )

    if rows is not None and rows < 1:
        raise click.UsageError("--rows must be at least 1")
    request = make_request(**asked)
    if forecast is not None:
        report_forecast(forecasts(request, forecast), as_json)
        return
    if output is None:
        raise click.UsageError("--output says where to write the synthetic table")
    if output.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--output {str(output)!r} must end in .csv or .parquet")
    check_output(output)
    if model_file is not None:
        check_output(model_file)
    if picture is not None:
        check_picture(picture, request.exact)
    written = {"--output": output, "--model-file": model_file, "--picture": picture}
    refuse_overwriting(written, data, evaluate)
    if evaluate is not None and data.resolve() in (evaluate.resolve(), *evaluate.resolve().parents):
        raise click.UsageError(
            "--evaluate tells exact figures of its rows: give public rows, not those of the fit"
        )
    summary = synthesize(request, data, output, rows, model_file, evaluate, picture, quiet)
    report(summary, as_json, quiet)


@app.command()
@click.argument("model", type=options.PATH, required=False)
@options.as_json
def audit(model: Path | None, as_json: bool) -> None:
    """Check a privacy statement, or audit privem itself.

    MODEL is a file that privem fit wrote. Its epsilon is computed anew from the recorded releases,
    independently of the code that calibrated them.

    Without MODEL, the releases of every estimator are attacked with neighbouring data sets, which
    takes a few minutes.
    """
    from ..audit import audit_model_file, self_audit
    from .console import emit_either
    from .model_files import open_model
    from .summary import audit_text

    if model is not None:
        open_model(model)  # A missing or damaged file is reported as by every other command.
    report = self_audit() if model is None else audit_model_file(model)
    emit_either(as_json, report.to_dict(), f"{audit_text(report)}\n")
    if not report.passed:
        raise click.exceptions.Exit(int(ExitCode.AUDIT))


@app.command()
@options.option("--out", "Folder for the results.", options.PATH, default="demo", metavar="DIR")
@options.option("--rows", "How many people.", click.IntRange(100), default=200_000)
@options.option(
    "--seed", "The same number makes the same people.", click.IntRange(0, 2**32 - 2), default=0
)
def demo(out: Path, rows: int, seed: int) -> None:
    """Make synthetic people, fit them privately, show what that costs.

    Epsilon is 1. For comparison, exact EM and a private single Gaussian are fitted too. Do not do
    that with real people: here it is allowed because these people do not exist. A second part does
    what privem synth does, with a table of mixed columns.

    Writes people.parquet, model.json, synthetic.parquet and demo.png, and table.parquet,
    synthetic-table.parquet and table.png.
    """
    from ..demo import run_demo
    from .console import emit, show
    from .summary import describe_demo

    emit(f"privem demo: synthetic people in {out}\n\n")
    with writing_file(out):
        found = run_demo(out, rows, seed, say=emit)
    show(*describe_demo(found))


app.add_command(federate)


def main() -> None:
    """Run the command line."""
    # So that a half-written file is removed when a batch system ends us politely.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
