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
from .config import config, from_file, use_settings
from .failures import Commands, ExitCode, check_output, open_streams, say, writing_file
from .federation import federate
from .ledger import ledger
from .model_commands import predict, report, sample, score
from .option_values import read_types, reading
from .reproduce import reproduce


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@options.option(
    "--version",
    "Show the version.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: say(context, f"privem {__version__}") if asked else None,
)
@options.option(
    "--config",
    "Defaults of options. Default: the privem.toml of this folder or project, if there is one.",
    options.PATH,
    metavar="FILE",
)
def app(config: Path | None) -> None:
    """Expectation Maximization without giving away the people in the data.

    Fits are differentially private, with epsilon 1 unless said otherwise.
    """
    use_settings(config)


@app.command(cls=options.ModelCommand)
@options.data
@options.model_output
@options.model
@options.columns
@options.exclude
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
@options.option(
    "--rows",
    "About how many records there are, if that is public: for the forecast alone.",
    click.IntRange(1),
)
@options.option("--yes", "Fit even where the forecast says that it is useless.", is_flag=True)
@options.as_json
@options.quiet
def fit(
    data: Path,
    output: Path,
    rows: int | None,
    yes: bool,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Fit a model to DATA privately, without loading it whole, and save it.

    DATA is a .csv, .parquet or .npy file, or a folder of .parquet or .csv files.

    The whole fit is differentially private, with epsilon 1 and delta 1e-6 unless said otherwise.
    The privacy statement is printed, and saved with the model. With --exact nothing is private:
    treat such a model as you would treat the data.

    Before it spends, a private fit is forecast in one line, as by privem plan, from --rows or from
    the noisy count that it begins with. Where the forecast says that the result will be useless, it
    asks first; without a terminal it stops, unless --yes is given.
    """
    from .fit import Request, fit_file
    from .planning import Foresight
    from .summary import report_fit

    request = Request.of(**asked, spare=from_file())
    request.estimator()  # Complains about parameters before any file is touched.
    request.check_columns()
    if data.exists() and output.exists() and data.samefile(output):
        raise click.UsageError(f"--output {str(output)!r} would overwrite the data")
    if request.exact and (rows is not None or yes):
        raise click.UsageError("--rows and --yes are for the forecast of private fits: no --exact")
    foresight = Foresight(rows, yes, silent=as_json or quiet)
    estimator, summary = fit_file(request, data, check_output(output), quiet, foresight)
    report_fit(request.model, estimator, summary | {"output": str(output)}, as_json, quiet)


@app.command(cls=options.ModelCommand, only=options.PLANNED)
@options.model
@options.option("--rows -n", "About how many records there are.", click.IntRange(1), required=True)
@options.option("--features -d", "How many columns; a schema says it itself.", click.IntRange(1))
@options.option(
    "--bounded/--not-bounded",
    "Whether the fit will be given bounds (--bound), or has to find them.",
    default=False,
)
@options.option("--categories", "Of each column of categories.", click.IntRange(2), default=4)
@options.option(
    "--accuracy",
    "Say what epsilon, or how many rows, a loss of at most this much needs.",
    click.FloatRange(0, min_open=True),
    default=0.1,
)
@options.option(
    "--separation",
    "How far apart made-up components are, in standard deviations.",
    click.FloatRange(0, min_open=True),
    default=4.0,
)
@options.option(
    "--rehearsals",
    "How many: more take longer, and depend less on chance. Default: 7; table 1.",
    click.IntRange(1),
)
@options.option("--seed random_state", "The same number gives the same plan.", options.SEED)
@options.option(
    "--picture", "Draw loss against epsilon (.png); takes longer.", options.PATH, metavar="FILE"
)
@options.as_json
@options.quiet
def plan(picture: Path | None, as_json: bool, quiet: bool, **asked: Any) -> None:
    """Say what to expect of a private fit. No data is read, and nothing is spent.

    The fit is rehearsed on made-up records, with as much noise as the real one will have: what
    structure and how many iterations it will choose, how much worse than exact EM it will be, and
    whether that is better than one component or the bounds alone.

    Losses are in nats per record; for k-means, a part of the mean squared distance.
    """
    from .planning import draw, make_plan
    from .synth import check_picture

    if picture is not None:
        check_picture(picture, exact=False)
    found = make_plan(quiet=quiet or as_json, **asked)
    if picture is not None:
        draw(found, picture)
    if as_json or not quiet:
        from .console import emit_either

        drawn = "" if picture is None else f"Drew {picture}\n"
        emit_either(as_json, found.to_dict(), f"{found}\n{drawn}")


@app.command()
@options.data
@options.option(
    "--output -o",
    "Where to write (.toml). Default: standard output.",
    options.PATH,
    metavar="FILE",
)
@options.header
@options.as_json
def schema(data: Path, output: Path | None, header: bool | None, as_json: bool) -> None:
    """Draft a schema of DATA for you to complete.

    DATA is a .parquet or .csv file, or a folder of them. The draft holds the names of the columns
    and, for Parquet, their declared types: no value is looked at. Bounds, categories and what may
    be missing are left as "?", for you to fill in from what is publicly known.

    The names of a CSV file are shown with --header only.
    """
    from .console import emit_either
    from .schemas import check_draft, draft_schema

    if output is not None:
        check_draft(output)
    text = draft_schema(data, output, header)
    where = None if output is None else str(output)
    said = text if where is None else f'Wrote {where}: complete every "?" in it\n'
    emit_either(as_json, {"data": str(data), "output": where, "schema": text}, said)


@app.command()
@options.data
@options.offer("schema", "What the columns are (.toml or .json): privem schema begins one.")
@options.option(
    "--output -o",
    "Where to write the synthetic table: .csv or .parquet.",
    options.PATH,
    metavar="FILE",
)
@options.exclude
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
@options.offer("ledger", "The data set's ledger, which the table is charged to.")
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
    request = make_request(**asked, spare=from_file())
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

    Without MODEL, the releases and the fits of every estimator are attacked with neighbouring data
    sets; what that will do, and how long it takes, is said first.
    """
    from ..audit import audit_model_file
    from .audits import audit_library
    from .console import emit_either
    from .model_files import open_model
    from .summary import audit_text

    if model is not None:
        open_model(model)  # A missing or damaged file is reported as by every other command.
    report = audit_library() if model is None else audit_model_file(model)
    emit_either(as_json, report.to_dict(), f"{audit_text(report)}\n")
    if not report.passed:
        raise click.exceptions.Exit(int(ExitCode.AUDIT))


@app.command()
@options.option("--out", "Folder for the results.", options.PATH, default="demo", metavar="DIR")
@options.option("--rows", "How many people.", click.IntRange(100), default=200_000)
@options.option(
    "--seed", "The same number makes the same people.", click.IntRange(0, 2**32 - 2), default=0
)
@options.as_json
def demo(out: Path, rows: int, seed: int, as_json: bool) -> None:
    """Make synthetic people, fit them privately, show what that costs.

    Epsilon is 1. For comparison, exact EM and a private single Gaussian are fitted too. Do not do
    that with real people: here it is allowed because these people do not exist. A second part does
    what privem synth does, with a table of mixed columns.

    Writes people.parquet, model.json, synthetic.parquet and demo.png, and table.parquet,
    synthetic-table.parquet and table.png.
    """
    from ..demo import run_demo
    from .console import emit, emit_json, show
    from .summary import demo_summary, describe_demo

    if not as_json:
        emit(f"privem demo: synthetic people in {out}\n\n")
    with writing_file(out):
        found = run_demo(out, rows, seed, say=(lambda text: None) if as_json else emit)
    if as_json:
        emit_json(demo_summary(found))
    else:
        show(*describe_demo(found))


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.as_json
def completion(shell: str, as_json: bool) -> None:
    """Print a script that lets a shell complete commands, options and models.

    In ~/.bashrc, or with zsh in ~/.zshrc: eval "$(privem completion bash)". In fish's config.fish:
    privem completion fish | source.
    """
    from click.shell_completion import get_completion_class

    from .console import emit_either

    found = get_completion_class(shell)
    assert found is not None
    script = found(
        click.get_current_context().find_root().command, {}, "privem", "_PRIVEM_COMPLETE"
    ).source()
    emit_either(as_json, {"shell": shell, "script": script}, script)


for _command in (sample, predict, score, report, reproduce, ledger, federate, config):
    app.add_command(_command)
# In the order in which a newcomer needs them.
_ORDER = ("fit", "sample", "predict", "score", "schema", "synth", "audit", "demo")
_LAST = ("ledger", "federate", "config", "completion")
_OTHERS = [name for name in app.commands if name not in (*_ORDER, *_LAST)]
app.commands = {name: app.commands[name] for name in (*_ORDER, *_OTHERS, *_LAST)}


def main() -> None:
    """Run the command line."""
    # So that a half-written file is removed when a batch system ends us politely.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    open_streams()
    app()
