"""Commands that use a model: its options and what they print. See :mod:`privem.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .config import from_file
from .failures import Command, check_output
from .ledger import VARIABLE


@click.command(cls=Command)
@options.model_file
@options.option("--rows -n", "How many records to draw.", click.IntRange(1), required=True)
@options.records
@options.option("--seed", "The same number draws the same records.", options.SEED)
@options.option(
    "--background/--no-background",
    "Whether to draw from the model's background too, if it has one.",
    default=True,
)
@options.as_json
def sample(
    model: Path, rows: int, output: Path | None, seed: int | None, background: bool, as_json: bool
) -> None:
    """Draw synthetic records from a model.

    MODEL is a file that privem fit wrote. A regression or k-means cannot be drawn from.

    Columns have the names and the types of the fitted data (for CSV: the --type of privem fit).
    Values lie within the bounds of a private fit.
    """
    from .console import emit_json
    from .model_files import check_records, open_model, sample_model

    _refuse_mixing(output, as_json)
    if output is not None:
        check_records(output)
    names = sample_model(open_model(model), rows, output, seed, background)
    summary = {"output": str(output), "rows": rows, "columns": names}
    if as_json:
        emit_json(summary)
    elif output is not None:
        _say_written(summary)


def _refuse_mixing(output: Path | None, as_json: bool) -> None:
    """Standard output has room for records or for a JSON object."""
    if as_json and output is None:
        raise click.UsageError("--json needs --output: records go to standard output otherwise")


def _say_written(summary: dict[str, Any]) -> None:
    from .console import emit

    where = f"{len(summary['columns'])} columns to {summary['output']}"
    emit(f"Wrote {summary['rows']:,} rows of {where}\n")


@click.command(cls=Command)
@options.model_file
@options.data
@options.records
@options.option(
    "--proba", "Write the probability of each component, or of each value, too.", is_flag=True
)
@options.offer(
    "target",
    "A column that a table model predicts from the others. Default: the target that it was fitted "
    "for; if there is none, its classes.",
)
@options.header
@options.as_json
def predict(
    model: Path, data: Path, output: Path | None, proba: bool, as_json: bool, **how: Any
) -> None:
    """Say which component each row of DATA belongs to, or what a regression expects.

    MODEL is a file that privem fit wrote. DATA is a .csv, .parquet or .npy file, or a folder of
    .parquet or .csv files. Columns are taken by name, and rows keep their order.

    Predictions are about the rows of DATA, one by one: they are not private, however private the
    model is. They cost no privacy budget if they stay with whoever holds those rows.
    """
    from .console import emit_json, note
    from .model_files import check_records, open_model, refuse_overwriting
    from .predict import check_predicts, predict_file

    _refuse_mixing(output, as_json)
    if output is not None:
        check_records(output)
        refuse_overwriting({"--output": output}, data, model)
    fitted = open_model(model)
    check_predicts(fitted, proba, how["target"])
    summary = predict_file(fitted, data, output, proba, **how)
    if as_json:
        emit_json(summary)
        return
    if output is not None:
        _say_written(summary)
    note(summary["statement"])


@click.command(cls=Command)
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
@options.offer("ledger", "The data set's ledger, which a private score is charged to.")
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
        other, why = ["groups", "delta", "ledger"], "private scores: give --epsilon too"
    else:
        other, why = ["target"], "regressions, which have exact scores only"
    spare = from_file()
    for name in other:
        if how.pop(name) is not None and name not in spare:
            raise click.UsageError(f"--{name} is for {why}")
    if against and epsilon is None:
        raise click.UsageError("--against is for private scores: give --epsilon too")
    fitted = {str(path): open_model(path) for path in (model, *against)}
    if epsilon is None:
        summary = score_file(fitted[str(model)], data, **how)
    else:
        summary = score_privately(fitted, data, epsilon, **how)
    report_score(summary, as_json)


@click.command(cls=Command)
@click.argument("models", type=options.PATH, nargs=-1, required=True, metavar="MODEL...")
@options.option(
    "--output -o", "Where to write the page (.html).", options.PATH, required=True, metavar="FILE"
)
@options.option("--compare", "Make one page that compares two models.", is_flag=True)
@options.offer(
    "ledger",
    "The data set's ledger, to show its budget and its last runs. Default: that of PRIVEM_LEDGER, "
    "or of privem.toml.",
    envvar=VARIABLE,
)
@options.as_json
def report(
    models: tuple[Path, ...], output: Path, compare: bool, ledger: str | None, as_json: bool
) -> None:
    """Make a page about a model, to be read and handed on.

    MODEL is a file that privem fit wrote. The page is one HTML file that needs no network: the
    privacy statement, the model with the standard errors that noise causes, what can be told
    apart, synthetic records, the releases and their cost, the ledger, and how to cite it. Nothing
    is computed from the data.
    """
    from .console import emit_either
    from .model_files import write_report

    if len(models) != 1 + compare:
        raise click.UsageError(
            "--compare takes two models"
            if compare
            else "a page is about one model; with --compare about two"
        )
    if len({model.resolve() for model in models}) < len(models):
        raise click.UsageError("--compare takes two models, not one of them twice")
    if output.resolve() in [model.resolve() for model in models]:
        raise click.UsageError(f"--output {str(output)!r} would overwrite the model")
    if output.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--output {str(output)!r}: a page is an .html file")
    summary = write_report(models, check_output(output), ledger)
    emit_either(as_json, summary | {"output": str(output)}, f"Wrote {output}\n")
