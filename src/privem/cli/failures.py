"""What can go wrong, and the exit code that says so."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    OUTPUT = 5
    AUDIT = 6
    FEDERATION = 7
    LEDGER = 8
    INTERRUPTED = 130


# Shown by --help; "\b" keeps the lines as they are.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  unexpected error (PRIVEM_DEBUG=1 shows the traceback)
  2  bad usage or parameters, or too little memory for them
  3  the data could not be read, or cannot be used
  4  the model file is missing, damaged or not a model
  5  the output could not be written; nothing was changed
  6  an audit failed
  7  a party or the server of a federation is missing or refused
  8  the ledger refused it, is missing or does not verify
"""


class Failure(click.ClickException):
    """A failure with an exit code, and one line that says what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = int(code)


@contextmanager
def failing(code: ExitCode, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds inside end the command, with this exit code."""
    try:
        yield
    except kinds as error:
        raise Failure(code, _words(error)) from error


@contextmanager
def reading_data() -> Iterator[None]:
    """Errors inside are about the data, or about terms or a ledger's place that cannot be."""
    # Imported here, as everywhere in this file: help must not load the library.
    from polars.exceptions import PolarsError

    from ..accounting import NotValid
    from ..ledger.connections import BadAddress
    from ..noise.discrete import NoSuchNoise

    usage = (NoSuchNoise, NotValid, BadAddress)
    kinds = (ValueError, ArithmeticError, OSError, PolarsError)
    with failing(ExitCode.DATA, *kinds), failing(ExitCode.USAGE, *usage):
        yield


@contextmanager
def writing_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors inside are about the file, or a file in the folder, that is to be written."""
    try:
        yield
    except OSError as error:
        where = os.fspath(error.filename or path)
        why = error.strerror or str(error)
        raise Failure(ExitCode.OUTPUT, f"cannot write {where!r}: {why}") from error


def check_output(path: Path) -> Path:
    """The file to replace later; a place that cannot be written to is refused now."""
    from ..files import check_destination

    with writing_file(path):
        return check_destination(path)


def _words(error: Exception) -> str:
    """The message of an error, without Python's way of putting it."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fspath(error.filename)!r}" if error.filename else ""
        return f"{error.strerror}{where}"
    from ..parameters import BoundsNotFound
    from .console import in_options

    text = str(error) or type(error).__name__
    return in_options(text) if isinstance(error, BoundsNotFound) else text


def say(ctx: click.Context, text: str) -> None:
    """Print what an option asks for, and end the command."""
    with writing_stdout():
        click.echo(text, color=ctx.color)
    ctx.exit()


def _show_help(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        say(ctx, ctx.get_help())


class _Explained(click.Command):
    """Help that ends with the exit codes."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """As click's, but a reader of the help who leaves early is no error."""
        found = super().get_help_option(ctx)
        if found is not None:
            found.callback = _show_help
        return found

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The exit codes."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(EXIT_CODES)


# Where a group leaves what was wrong before its command was known.
PROBLEM = f"{__name__}.problem"


class Command(_Explained):
    """One command."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; what was wrong with privem.toml is said now, as help needs none."""
        if PROBLEM in ctx.meta:
            raise click.UsageError(ctx.meta[PROBLEM])
        return super().invoke(ctx)


class Commands(_Explained, click.Group):
    """A group of commands; the group of all turns every error into one line and an exit code."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As they were added."""
        return list(self.commands)

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command and leave the process."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(words, "privem", standalone_mode=False)
        except Exception as error:
            if os.environ.get("PRIVEM_DEBUG") == "1":
                raise
            code = _report(error, as_json="--json" in words)
        sys.exit(code or 0)


def _report(error: Exception, as_json: bool) -> int:
    failure = error if isinstance(error, click.ClickException) else _failure(error)
    if isinstance(failure, click.UsageError):
        failure.message += _origin(failure)
    code, message = ExitCode(failure.exit_code), failure.format_message()
    if as_json:
        body = {"code": int(code), "kind": code.name.lower(), "message": message}
        with suppress(Failure, click.exceptions.Exit), writing_stdout():
            print(json.dumps({"error": body}), flush=True)
    if message:
        failure.show()
    return int(code)


def _origin(error: click.UsageError) -> str:
    """That what was wrong may not be on the command line, but in the file of defaults."""
    if error.ctx is None or isinstance(error, click.MissingParameter | click.NoSuchOption):
        return ""
    named = getattr(error, "param", None)
    names = list(error.ctx.params) if named is None else [named.name]
    if not any(
        error.ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP for name in names
    ):
        return ""
    from ..settings import find_settings

    said = "this is from" if named else "some options are from"
    return f" ({said} {str(find_settings())!r}: privem config)"


def _failure(error: Exception) -> Failure:
    """What an error of the library means here."""
    from ..federation import FederationError
    from ..ledger import LedgerError
    from ..meter import BudgetExceeded
    from .console import in_options

    match error:
        case FederationError():
            return Failure(ExitCode.FEDERATION, str(error))
        case LedgerError() | BudgetExceeded():
            return Failure(ExitCode.LEDGER, in_options(str(error)))
        case ImportError() if "pip install" in str(error):  # an extra that is not there
            return Failure(ExitCode.USAGE, str(error))
        case MemoryError():
            return Failure(
                ExitCode.USAGE, "not enough memory: fewer components or columns need less of it"
            )
        case click.Abort():
            return Failure(ExitCode.INTERRUPTED, "")
        case _:
            return Failure(
                ExitCode.UNEXPECTED,
                f"unexpected {type(error).__name__}: {_words(error)} "
                "(PRIVEM_DEBUG=1 shows the traceback; please report it)",
            )


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Errors inside are about standard output: a full disk, or a reader who has left."""
    try:
        yield
    except OSError as error:
        # Let what could not be written go, or Python would complain once more at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # "privem sample model.json -n 9999 | head" has seen enough, and nothing went wrong.
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(int(ExitCode.OK)) from error
        message = f"cannot write to standard output: {_words(error)}"
        raise Failure(ExitCode.OUTPUT, message) from error


def open_streams() -> None:
    """Give streams that were closed (">&-") a place: no fit fails at its end for want of one.

    Nor may a file that is opened next, such as a ledger's, get their number.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            free = os.open(os.devnull, os.O_RDWR)
            if free != number:
                os.dup2(free, number)
                os.close(free)
            setattr(sys, name, os.fdopen(number, mode))
