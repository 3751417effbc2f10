"""The reference of all commands in ``docs/cli.md``, made from the commands themselves.

``python -m privem.cli.reference docs/cli.md`` writes it anew, below the line that says so; what a
person wrote stands above. A test compares the two, and another one runs commands with ``--json``
and compares what they print with :data:`JSON`.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from .options import ModelOption

MARK = "<!-- Below: made by python -m privem.cli.reference docs/cli.md. -->\n"
_FIT = {
    "model": "its name, as --model takes it",
    "columns": "names of the columns fitted",
    "target?": "of a regression",
    "components": "as asked for, or as chosen",
    "candidates?": "of several numbers of components: what became of each, and its score",
    "difference_deviation?": "the noise of a difference of two of these scores",
    "private": "true or false",
    "epsilon, delta": "the budget; null in exact fits",
    "statement": "the privacy statement in words",
    "privacy?": "the statement in numbers; private fits",
    "iterations": "how many",
    "converged?": "exact fits",
    "structure?": "the structure that the noise allowed; private fits",
    "bounds?": "lower and upper ones, where they were found",
    "parameters": "the fitted parameters",
    "uncertainty?": "the standard errors that noise causes in them; private fits",
    "rows?, total_weight?, seconds?": "exact fits",
    "warnings": "a list of texts",
    "data, output": "paths",
}
_FIGURES = "figures of the model, such as `mean_log_likelihood`"
# What each command prints with --json: keys, with a question mark those that may be missing.
JSON: dict[str, dict[str, str]] = {
    "fit": _FIT | {"*": _FIGURES},
    "sample": {"output": "path", "rows": "how many", "columns": "their names"},
    "predict": {
        "model": "its name, as --model takes it",
        "data, output": "paths",
        "rows": "how many",
        "columns": "names of the columns written",
        "private": "false",
        "statement": "what that means",
    },
    "score": {
        "data": "path",
        "private": "true or false",
        "model?": "its name, as --model takes it",
        "target?": "of a regression",
        "rows?": "how many; exact scores",
        "mean_log_density?": "the score of a density",
        "minus_inertia?, mean_squared_distance?": "the score of k-means",
        "deviation?": "of the noise; private scores",
        "scores?, difference_deviation?, ranking?, comparison?": "of several models",
        "limits?, statement?, privacy?, warnings?": "private scores",
    },
    "schema": {"data": "path", "output": "path, or null", "schema": "the draft, as text"},
    "synth": {
        "data, output": "paths",
        "rows, columns, target, constraints": "of the synthetic table",
        "classes": "of the model",
        "private": "true or false",
        "statement": "the privacy statement in words",
        "privacy?": "the statement in numbers",
        "quality?": "distances from what was released; private tables",
        "evaluation?": "figures against the rows of --evaluate",
        "picture?": "path",
        "warnings": "a list of texts",
    },
    "report": {"models": "SHA-256 of each file, by its path", "output": "path"},
    "audit": {
        "title": "what was audited",
        "passed": "true or false",
        "alpha": "the probability that a sound model fails",
        "findings": "a list of name, passed, detail and numbers",
    },
    "demo": {
        "rows, held_out": "how many people",
        "scores": "mean log-densities: exact, private, single",
        "distances": "of the synthetic table: columns, pairs",
        "statement, privacy": "in words and in numbers",
        "files": "paths",
        "remark": "what is missing, and why",
    },
    "config": {
        "file": "path of privem.toml, or null",
        "settings": "for each key its value, and where it is from",
    },
    "plan": {
        "model": "its name",
        "rows, features, components, epsilon, delta": "what is planned",
        "structure, iterations": "what most rehearsals came to",
        "loss, between, one_component, bounds_alone, unit": "what is lost against exact EM",
        "noise": "the standard error that noise causes in each attribute, over its size",
        "accuracy, epsilon_needed, rows_needed": "the loss that is wanted, and what it takes",
        "useless": "why the fit is not worth its budget, or null",
        "rehearsals, separation": "what it rests on",
    },
    "reproduce": {
        "claims": "a list of id, paper and title; of those that were run also status, findings "
        "(verdict, ours, reason, repetitions) and files",
    },
    "completion": {"shell": "its name", "script": "the script"},
    "ledger init": {
        "dataset, ledger": "the data set, and where its ledger is",
        "budget": "epsilon, delta, neighbours, unit",
        "spent, remaining": "epsilon of all runs, and what one more may have",
        "runs": "how many are released, pending, void, abandoned",
    },
    "ledger history": {"dataset": "its name", "runs": "a list"},
    "ledger verify": {
        "dataset": "its name",
        "entries, head": "how many rows, and the hash of the last",
        "pending": "numbers of entries",
        "models": "paths",
    },
    "ledger export": {
        "dataset": "its name",
        "output": "path, or null",
        "rows": "how many",
        "entries?": "the rows, if they are not written to a file",
    },
    "ledger abandon": {"dataset": "its name", "abandoned": "numbers of entries"},
    "federate key": {"name": "of the party", "folder, card": "paths"},
    "federate init": {"*": "what was agreed on: the content of federation.json"},
    "federate server": {"parties, address": "once, when it listens"},
    "federate party": {"party, message": "a line for each message"},
    "federate run": _FIT | {"parties, attendance": "who took part", "*": _FIGURES},
    "federate status": {"*": "of a server: who is there and how far the fit is; of a party: spent"},
}
JSON["ledger show"] = JSON["ledger init"]


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, and the words to type."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def reference(app: click.Group) -> str:
    """The reference, in Markdown."""
    return "\n".join(_section(" ".join(words), command) for words, command in commands(app))


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"privem {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    blocks = inspect.cleandoc(command.help or "").split("\n\n")
    lines = [f"### privem {name}\n", f"    privem {name} {usage}\n", *map(_paragraph, blocks)]
    sections: dict[str, list[str]] = {}
    for option in command.get_params(context):
        if isinstance(option, click.Option) and "--help" not in option.opts:
            title = option.section if isinstance(option, ModelOption) else "Options"
            sections.setdefault(title, []).append(_option(option, context))
    for title, options in sections.items():
        lines += [f"{title}:\n", *options, ""]
    shape = [
        _item(", ".join(f"`{k}`" for k in key.split(", ")), text)
        for key, text in JSON[name].items()
        if key != "*"
    ]
    rest = [_item("more", JSON[name]["*"])] if "*" in JSON[name] else []
    return "\n".join([*lines, "With `--json`:\n", *shape, *rest, ""])


def _paragraph(text: str) -> str:
    if text.startswith("\b\n"):
        return textwrap.indent(text.removeprefix("\b\n"), "    ") + "\n"
    return textwrap.fill(" ".join(text.split()), 118) + "\n"


def _option(option: click.Option, context: click.Context) -> str:
    if isinstance(option, ModelOption):
        option.get_help_record(context)  # which writes its help
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    takes = (
        ""
        if option.is_flag
        else f" {option.metavar or option.type.name.upper().removesuffix(' RANGE')}"
    )
    if isinstance(option.type, click.Choice) and option.metavar is None:
        takes = f" {', '.join(option.type.choices)}"
    text = str(option.help)
    if option.show_default and not option.is_flag:
        text += f" Default: {option.default}."
    return _item(f"{flags}{takes}", f"{text} Required." if option.required else text)


def _item(head: str, text: str) -> str:
    said = f"- {head}: {text}"
    return textwrap.fill(
        said, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def main(path: Path) -> None:
    """Write the reference anew."""
    from .app import app

    written = path.read_text(encoding="utf-8").partition(MARK)[0]
    path.write_text(f"{written}{MARK}\n{reference(app)}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
