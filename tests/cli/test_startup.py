"""What starting up loads: help and the package itself load nothing large."""

import inspect
import subprocess
import sys

import pytest

import privem
from privem.accounting import ACCOUNTANTS
from privem.cli import app, options
from privem.declaration import declarations
from privem.federation import protections

HEAVY = {"numpy", "scipy", "sklearn", "polars", "dp_accounting", "flwr", "cryptography"}


def commands(command=None, words=()):
    """Every command and group, as words to type."""
    command = command or app
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


def loaded(code):
    """Which of the large libraries a new process has loaded after some lines."""
    code += f"\nprint('loaded:', *sorted({HEAVY!r} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()[-1].split()[1:]


def test_importing_privem_loads_nothing_large():
    assert loaded("import privem\ndir(privem)\nprivem.__version__") == []
    assert "sklearn" in loaded("from privem import KMeans")


def test_help_of_every_command_and_the_version_load_nothing_large():
    asked = [*((*words, "--help") for words in commands()), ("--version",), ()]
    # A wrong option is found out before anything is loaded, too.
    asked.append(("fit", "--nonsense"))
    assert len(asked) > 12
    code = (
        "from privem.cli import app\n"
        f"for words in {asked!r}:\n"
        "    try:\n"
        "        app(words)\n"
        "    except SystemExit as end:\n"
        "        assert end.code == (0 if words and '--nonsense' not in words else 2), words\n"
        "    else:\n"
        "        raise AssertionError(words)"
    )
    assert loaded(code) == []


@pytest.mark.parametrize("name", [*privem.__all__, "audit", "datasets", "federation", "sources"])
def test_every_name_is_found_at_first_use(name):
    # In a process of its own the name would be the first that is used; here it may be loaded.
    vars(privem).pop(name, None)
    assert name in dir(privem)
    first = getattr(privem, name)
    assert first is getattr(privem, name)
    assert vars(privem)[name] is first


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'privem' has no attribute 'GausianMixture'"):
        privem.GausianMixture  # noqa: B018
    assert not hasattr(privem, "__path_of_nothing__")


def test_a_submodule_needs_no_import_of_its_own():
    loaded("import privem\nprivem.sources.read_file\nprivem.federation.Federation")


def test_options_name_what_the_library_knows():
    assert options.ACCOUNTANTS.split(", ") == [name for name in ACCOUNTANTS if name != "auto"]
    (protection,) = (
        p for p in app.commands["federate"].commands["init"].params if p.name == "protection"
    )
    assert tuple(protection.type.choices) == protections.names()


@pytest.mark.parametrize("model", declarations(), ids=lambda model: model.command)
def test_docstrings_say_what_signatures_do(model):
    """Options are made from the docstrings, which are read without loading the estimator."""
    expected = inspect.signature(model.estimator).parameters
    assert set(model.parameters) == set(expected)
    for name in options.SETTINGS:
        if options.takes(model, name) and name not in options.COLUMNS:
            key = model.count if name == "components" else name
            each, signature = model.parameters[key], expected[key]
            assert each.default == signature.default, name
            annotation = str(signature.annotation).removeprefix("<class '").split("'")[0]
            assert annotation.startswith((each.kind, "Any", "typing.Any")), name
            assert each.meaning, name
