"""The options of models, each written once.

Which models take an option, its type, its choices and its default come from the docstrings of the
estimators (:attr:`privem.declaration.Declaration.parameters`), which loads none of them; a test
compares the docstrings with the signatures. The table below adds a short help. ``privem fit`` and
``privem federate run`` both take their options from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from ..declaration import Declaration, Parameter, declarations
from .failures import Command
from .option_values import (
    Count,
    ModelName,
    read_bounds,
    read_categories,
    read_columns,
    reading,
)


@dataclass(frozen=True)
class Setting:
    """How the command line offers a parameter of estimators, or a column for their ``fit``."""

    help: str
    flags: tuple[str, ...] = ()
    """How it is written, if not as the parameter is, with dashes."""
    type: click.ParamType | None = None
    """How its text is read, if not as the docstring says."""
    metavar: str | None = None
    read: Callable[[Sequence[str]], Any] | None = None
    """It may be repeated; this turns all its texts into one value."""
    default: str | None = None
    """In words, if not what the docstring says; nothing at all, if empty."""
    private: bool = False
    """Only a private fit heeds it."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """It counts only where these settings have these values."""


ACCOUNTANTS = (
    "gdp, zcdp, zcdp-loose, rdp, pld, moments, advanced, advanced-classical, linear, "
    "linear-classical"
)
_COLUMN: Any = {"type": click.STRING, "metavar": "COLUMN"}
_GRADIENT = {"method": "gradient"}
_ROBUST = _GRADIENT | {"mechanism": "robust"}
SEED = click.IntRange(0, 2**32 - 1)

# Every option of a model, in the order of the help page.
_MODEL_SETTINGS: dict[str, Setting] = {
    "components": Setting(
        "Number of components, clusters, factors, lines or classes; privem fit also takes a "
        "range to choose from, such as 1..8, for densities.",
        ("--components", "-k"),
        Count(),
        default="",
    ),
    "target": Setting(
        "The column that a regression explains, or that the others should predict well (table).",
        **_COLUMN,
    ),
    "weight": Setting("A column that says how much a row counts.", **_COLUMN),
    "covariance_type": Setting("Shape of the covariances.", ("--covariance",)),
    "background": Setting(
        "Add a uniform density on the bounds (of an exact fit without any: on the range of the "
        "data) to the model. fa has one in private fits only.",
        default="in private fits",
    ),
    "prior": Setting("Find the posterior mode under the default prior."),
    "noise_variance": Setting("Variance of the noise, where it is known.", default="estimated"),
    "method": Setting("Which algorithm fits the model."),
    "max_iter": Setting("At most this many iterations, also of a private fit."),
    "tol": Setting(
        "Stop when an iteration gains less than this (exact fits).",
        type=click.FloatRange(0),
    ),
    "n_init": Setting("Number of starts of an exact fit; the best result is kept."),
    "random_state": Setting("Seed for starts, never for noise.", ("--seed",), SEED, default=""),
    "n_jobs": Setting("Threads; -1 uses every core.", type=click.INT),
    "schema": Setting(
        "What the columns are: a .toml or .json file, which privem schema drafts.",
        type=click.Path(path_type=Path),
        metavar="FILE",
    ),
    "categories": Setting(
        "Public list of a column's categories. A private fit needs one for every column.",
        ("--category",),
        metavar="COLUMN=A,B,...",
        read=read_categories,
    ),
}
_PRIVATE_SETTINGS: dict[str, Setting] = {
    "epsilon": Setting("Privacy budget of the whole fit."),
    "delta": Setting("Probability with which privacy may fail."),
    "bounds": Setting(
        "Public limits of a column: give them for every column, or for none and they are "
        "estimated. Those of a target are optional.",
        ("--bound",),
        metavar="COLUMN=LOW:HIGH",
        read=read_bounds,
    ),
    "groups": Setting(
        "A column that says which person a row belongs to. Privacy then protects persons, not "
        "rows.",
        **_COLUMN,
    ),
    "neighbours": Setting("The change that privacy hides."),
    "ledger": Setting(
        "The data set's ledger, which the fit is charged to: a path or URL with the data set's "
        "name (privem ledger).",
        type=click.STRING,
        metavar="FILE#NAME",
        default="that of PRIVEM_LEDGER, or of privem.toml",
    ),
    "n_iter": Setting("Iterations of a private fit.", default="as the noise allows"),
    "max_weight": Setting("Public cap on --weight."),
    "max_rows": Setting("Public limit on the number of rows; --delta 0 needs one."),
    "mechanism": Setting("How sums are released."),
    "accountant": Setting(
        f"How the cost is counted: {ACCOUNTANTS}.", default="auto, the tightest that is valid"
    ),
    "trust": Setting(
        "Who adds the noise: whoever holds the data, or every person's own device (local)."
    ),
    "missing_probability": Setting(
        "How often a field is empty, where it is known.", default="estimated"
    ),
    "clip": Setting("Norm at which gradients are clipped.", default="1", needs=_GRADIENT),
    "step": Setting("Step size.", needs=_GRADIENT),
    "batch": Setting("Whether each step uses all records, or a part of its own.", needs=_GRADIENT),
    "averaging": Setting("Return the mean of the second half of the iterates.", needs=_GRADIENT),
    "tau": Setting(
        "Public bound on a gradient's second moments.", default="found privately", needs=_ROBUST
    ),
    "failure": Setting("Probability with which a robust mean may fail.", needs=_ROBUST),
}
SETTINGS = _MODEL_SETTINGS | {
    name: replace(each, private=True) for name, each in _PRIVATE_SETTINGS.items()
}
DEFAULT_MODEL = "gmm"
# Settings that are no parameters of a constructor: columns for fit.
COLUMNS = ("target", "weight", "groups")
# Settings of a fit that is only planned: those that are not about its data.
PLANNED = [
    name
    for name in SETTINGS
    if name not in (*COLUMNS, "bounds", "categories", "ledger", "n_jobs", "max_weight")
    and name not in ("random_state", "tol", "n_init")
]


def setting(name: str) -> Setting:
    """From the table; of a model's own parameter, from its docstring."""
    return SETTINGS.get(name) or Setting(_parameters(name, declarations())[0][1].meaning)


def flag(name: str) -> str:
    """How a setting is written at the command line.

    Examples
    --------
    >>> flag("covariance_type"), flag("max_iter")
    ('--covariance', '--max-iter')
    """
    return (*setting(name).flags, f"--{name.replace('_', '-')}")[0]


def takes(model: Declaration, name: str) -> bool:
    """Whether a setting is for a model."""
    if name in COLUMNS:
        return model.target or "target" in model.parameters if name == "target" else True
    return _parameter(model, name) is not None


def _parameter(model: Declaration, name: str) -> Parameter | None:
    return model.parameters.get((model.count or "") if name == "components" else name)


def _parameters(name: str, models: Sequence[Declaration]) -> list[tuple[str, Parameter]]:
    """The parameter behind a setting, of every model that has it."""
    found = [(model.command, _parameter(model, name)) for model in models]
    return [(command, parameter) for command, parameter in found if parameter is not None]


def default_of(name: str) -> Any:
    """The default of a setting, if all models that take it have the same."""
    found = {parameter.default for _, parameter in _parameters(name, declarations())}
    return found.pop() if len(found) == 1 else None


def in_words(names: Sequence[str]) -> str:
    """A list of names, as one says it.

    Examples
    --------
    >>> in_words(["gmm", "kmeans", "fa"])
    'gmm, kmeans and fa'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def takers(name: str) -> str:
    """The models that a setting is for, in words."""
    return in_words([model.command for model in declarations() if takes(model, name)])


def refuse_others(model: Declaration, given: Collection[str]) -> None:
    """Refuse settings that are not for a model."""
    for name in given:
        if not takes(model, name):
            words = f"is for {takers(name)}, not for --model {model.command}"
            raise click.UsageError(f"{flag(name)} {words}")


def offer(name: str, help: str, **more: Any) -> Callable[[Any], Any]:
    """Offer a setting by a command that fits no model, with words of its own."""
    flags, keywords = _form(name, SETTINGS[name])
    return click.option(*flags, **keywords | {"help": help} | more)


def _form(name: str, setting: Setting) -> tuple[list[str], dict[str, Any]]:
    """How a setting is written and read, as far as the table says."""
    keywords: dict[str, Any] = {"type": setting.type, "metavar": setting.metavar}
    if setting.read is not None:
        keywords |= {"multiple": True, "callback": reading(setting.read)}
    return [*(setting.flags or (f"--{name.replace('_', '-')}",)), name], keywords


class ModelOption(click.Option):
    """An option that some models take; its help is about the models asked about."""

    def __init__(self, name: str) -> None:
        self.setting = setting(name)
        self.section = "For private fits" if self.setting.private else "For the model"
        flags, keywords = _form(name, self.setting)
        parameters = [parameter for _, parameter in _parameters(name, declarations())]
        kinds = {parameter.kind for parameter in parameters}
        choices = {parameter.choices for parameter in parameters if parameter.choices}
        if kinds == {"bool"}:
            flags = [f"{flag(name)}/--no-{flag(name)[2:]}", name]
        elif len(choices) == 1:
            keywords["type"] = click.Choice(choices.pop())
        elif keywords["type"] is None and self.setting.read is None:
            numbers = {"int": click.IntRange(1), "float": click.FLOAT}
            keywords["type"] = next((numbers[kind] for kind in kinds if kind in numbers), None)
            if keywords["type"] is None:
                keywords["metavar"] = "NAME"  # the library knows which names there are
        super().__init__(flags, default=None, **keywords)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help page; none, if a model was named that does not take it."""
        name = str(self.name)
        asked = ctx.params.get("model")
        models = declarations() if asked is None else (asked,)
        if not any(takes(model, name) for model in models):
            return None
        self.help = " ".join([self.setting.help, *self._facts(name, models)])
        return super().get_help_record(ctx)

    def _facts(self, name: str, models: Sequence[Declaration]) -> list[str]:
        found = _parameters(name, models)
        facts = []
        if self.setting.needs:
            needed = " ".join(f"{flag(key)} {value}" for key, value in self.setting.needs.items())
            facts.append(f"With {needed}.")
        without = [model.command for model in models if not takes(model, name)]
        if without:
            few = len(without) < len(found)
            facts.append(f"Not {in_words(without)}." if few else f"Only {takers(name)}.")
        if not isinstance(self.type, click.Choice) and any(each.choices for _, each in found):
            names = {command: ", ".join(each.choices) for command, each in found}
            facts.append(f"One of {_by_model(names, '; ')}.")
        default = self.setting.default
        if default is None:
            values = {command: self._written(each.default) for command, each in found}
            default = _by_model({key: value for key, value in values.items() if value}, ", ")
        return [*facts, *([f"Default: {default}."] if default else [])]

    def _written(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return "" if value is None else (self.opts if value else self.secondary_opts)[0]
        return f"{value:g}" if isinstance(value, float) else str(value)


def _by_model(values: Mapping[str, str], comma: str) -> str:
    """Values with the models that have them; alone, if all have the same.

    Examples
    --------
    >>> _by_model({"fa": "1000", "gmm": "100", "categorical": "1000"}, ", ")
    '1000 (fa, categorical), 100 (gmm)'
    """
    models: dict[str, list[str]] = {}
    for model, value in values.items():
        models.setdefault(value, []).append(model)
    if len(models) == 1:
        return next(iter(models))
    return comma.join(f"{value} ({', '.join(names)})" for value, names in models.items())


class ModelCommand(Command):
    """A command that fits a model: it takes the options of all models.

    ``only``: the settings that it takes, besides those that a model has for itself.
    """

    def __init__(self, *args: Any, only: Collection[str] = tuple(SETTINGS), **more: Any) -> None:
        super().__init__(*args, **more)
        self._only = only

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own options and those of models, which are found when they are asked for."""
        key = f"{__name__}.options"
        if key not in ctx.meta:
            own = [name for model in declarations() for name in model.options]
            ctx.meta[key] = [ModelOption(name) for name in dict.fromkeys((*self._only, *own))]
        return [*super().get_params(ctx), *ctx.meta[key]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The models, then the options in sections."""
        with formatter.section("Models"):
            formatter.write_dl([(each.command, each.description) for each in declarations()])
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                title = option.section if isinstance(option, ModelOption) else "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option(flags: str, help: str, kind: Any = None, **more: Any) -> Callable[[Any], Any]:
    """An option that is not of models: its flags and its name, if another; a default is shown."""
    return click.option(
        *flags.split(), type=kind, help=help, show_default="default" in more, **more
    )


# Who may read a file is seen when it is read: click would call it bad usage.
PATH = click.Path(path_type=Path, readable=False)
data = click.argument("data", type=PATH)
folder = click.argument("folder", type=PATH)
model_file = click.argument("model", type=PATH)
model = option(
    "--model -m",
    "What to fit. Name it before --help to see the options and defaults of one model.",
    ModelName(),
    default=DEFAULT_MODEL,
    is_eager=True,  # so that --help after it is about this model
    metavar="NAME",
)
model_output = option(
    "--output -o", "Where to save the model (JSON).", PATH, required=True, metavar="FILE"
)
records = option(
    "--output -o",
    "Where to write: .csv, .parquet or .npy. Default: CSV to standard output.",
    PATH,
    metavar="FILE",
)
exact = option("--exact", "Exact EM, without noise: NOTHING about it is private.", is_flag=True)
columns = option(
    "--columns",
    "Which columns, by name; may be repeated. Default: all that have no other use.",
    multiple=True,
    metavar="A,B,...",
    callback=reading(read_columns),
)
exclude = option(
    "--exclude",
    "A column to leave out; may be repeated.",
    multiple=True,
    metavar="COLUMN",
    callback=reading(lambda names: tuple(dict.fromkeys(names))),
)
header = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a CSV file is a header, or data (columns are then called x0, "
    "x1, ...). Default: it is a header, and one that could be data is refused.",
)
as_json = option("--json as_json", "Print one JSON object, errors included.", is_flag=True)
as_json_lines = option("--json as_json", "Print one JSON object a line; errors too.", is_flag=True)
quiet = option("--quiet -q", "Print nothing but errors (and --json).", is_flag=True)
