"""How far are statistical tests from a false alarm?

Repeats tests and measures every comparison of numbers they make: the distance to its bound, in
standard deviations over the repetitions. What does not vary is left out.

    python -m pytest -p tests.margins --repeat 40 -o enable_assertion_pass_hook=true tests/contracts

Six deviations of something Gaussian are one false alarm in a billion; largest values of many have
heavier tails and deserve more. The table lists what is below ten, the closest first.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

__all__: list[str] = []

_OPERATORS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_NAMES = {"np": np, "inf": np.inf, "nan": np.nan, "abs": abs}
_NEAR = 10.0
_WRONG = (ValueError, SyntaxError, NameError, TypeError, AttributeError)
_now = {"folder": "", "test": "", "again": 0}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--repeat", type=int, default=1, help="run every test so many times")
    parser.addoption("--margins", default="", help="folder for the measured distances")


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("margins") or config.option.margins
    _now["folder"] = given or tempfile.mkdtemp()
    Path(str(_now["folder"])).mkdir(parents=True, exist_ok=True)
    original = np.testing.assert_allclose

    def measured(actual, desired, rtol=1e-7, atol=0, **more):
        __tracebackhide__ = True
        original(actual, desired, rtol=rtol, atol=atol, **more)
        room = atol + rtol * np.abs(np.asarray(desired, float))
        off = np.abs(np.asarray(actual, float) - np.asarray(desired, float))
        if off.size and np.all(room > 0):
            _note(sys._getframe(1).f_lineno, float(np.max(off / room)) - 1.0)

    np.testing.assert_allclose = measured


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["margins"] = _now["folder"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.option.repeat > 1:
        metafunc.fixturenames.append("_again")
        metafunc.parametrize("_again", range(metafunc.config.option.repeat))


@pytest.fixture
def _again(request):
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    where = item.nodeid.split("[")[0]
    callspec = getattr(item, "callspec", None)
    given = {} if callspec is None else callspec.params
    shown = ", ".join(str(value)[:40] for key, value in given.items() if key != "_again")
    _now.update(test=f"{where}[{shown}]", again=given.get("_again", 0))
    return (yield)


def pytest_assertion_pass(item: pytest.Item, lineno: int, orig: str, expl: str) -> None:
    first = expl.splitlines()[0]
    if " ± " in first and " == " in first:
        left, _, right = first.partition(" == ")
        middle, _, room = right.partition(" ± ")
        with suppress(*_WRONG):
            _note(lineno, abs(_value(left) - float(middle)) / float(room) - 1.0)
        return
    try:
        tree = ast.parse(first, mode="eval").body
        if not isinstance(tree, ast.Compare):
            return
        sides = [tree.left, *tree.comparators]
        values = [_value(ast.unparse(side)) for side in sides]
    except _WRONG:
        return
    for operator, left, right in zip(tree.ops, values, values[1:], strict=False):
        if isinstance(operator, _OPERATORS) and np.isfinite([left, right]).all():
            _note(lineno, left - right)


def _value(text: str) -> float:
    return float(eval(text, {"__builtins__": {}}, _NAMES))


def _note(line: int, distance: float) -> None:
    row = [_now["test"], line, _now["again"], abs(distance)]
    with (Path(str(_now["folder"])) / str(os.getpid())).open("a") as file:
        file.write(json.dumps(row) + "\n")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    # Of several comparisons in one place (a loop) the closest counts.
    found: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for path in Path(str(_now["folder"])).iterdir():
        for row in path.read_text().splitlines():
            test, line, again, distance = json.loads(row)
            place = found[test, line]
            place[again] = min(distance, place.get(again, np.inf))
    table = []
    for (test, line), repeated in found.items():
        distances = list(repeated.values())
        spread = float(np.std(distances, ddof=1)) if len(distances) > 2 else 0.0
        if spread > 1e-9 * max(distances):
            table.append((np.mean(distances) / spread, min(distances) / spread, line, test))
    terminalreporter.section("deviations to the bound: mean, closest, line, test")
    for mean, closest, line, test in sorted(table):
        if mean < _NEAR:
            terminalreporter.line(f"{mean:7.2f} {closest:7.2f} {line:5d} {test}")
