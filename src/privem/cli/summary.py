"""What commands found: for programs as JSON values, for people as text and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ..audit.report import AuditReport, Finding
from ..declaration import Declaration
from ..demo import Demo
from ..report.numbers import with_error
from ..selection.result import say_choice
from .console import aligned, emit_json, note, numbers, remarks, show, table_of

if TYPE_CHECKING:
    from .fit import Request

NOT_PRIVATE = "exact fit: nothing here is private. Treat the model as you would treat the data."
_ERRORS = " ± standard error of the noise"
_EXACT_SCORE = "This score is exact and not private: publishing it tells about those rows."
_SCORES = {
    "rows": "rows",
    "mean_log_density": "mean log-density",
    "deviation": "deviation of its noise",
    "minus_inertia": "minus inertia",
    "mean_squared_distance": "mean squared distance",
}
# Releases of an audit that are alike take one line if there are more of them.
_FEW = 2


def summary_of(
    request: Request, estimator: Any, caught: Sequence[Any], weight: float | None
) -> dict[str, Any]:
    """What a fit found; ``weight``: the total of its rows, where that may be said."""
    model = request.model
    structure = getattr(estimator, "structure_", None)
    summary: dict[str, Any] = {
        "model": model.command,
        "columns": estimator._names(),
        **({"target": request.target} if request.target else {}),
        "components": _count(request, estimator),
        "private": not request.exact,
        "epsilon": estimator.epsilon,
        "delta": None if request.exact else estimator.delta,
        "statement": NOT_PRIVATE if request.exact else str(estimator.privacy_),
        "iterations": int(estimator.n_iter_),
        "warnings": remarks(caught),
        **({} if structure is None or request.exact else {"structure": structure}),
        **model.figures(estimator, weight),
        **({"bounds": _plain(list(estimator.bounds_))} if hasattr(estimator, "outside_") else {}),
        "parameters": {
            name.rstrip("_"): _plain(getattr(estimator, name))
            for name in model.results or estimator._needed
            if hasattr(estimator, name)
        },
    }
    if request.exact:
        stopped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        return summary | {"converged": not stopped}
    errors = {name.rstrip("_"): error for name, error in estimator.uncertainty().items()}
    found = {name: _plain(errors[name]) for name in summary["parameters"] if name in errors}
    return summary | {"uncertainty": found, "privacy": estimator.privacy_.to_dict()}


def _count(request: Request, estimator: Any) -> int | None:
    """How many components were asked for; of several, how many were chosen."""
    count = request.given.get("components")
    return getattr(estimator, str(request.model.count)) if isinstance(count, range) else count


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, list) else np.asarray(value).tolist()


def report_fit(
    model: Declaration, estimator: Any, summary: dict[str, Any], as_json: bool, quiet: bool
) -> None:
    """Print the summary of a fit."""
    if as_json:
        emit_json(summary)
    elif not quiet:
        for warning in summary["warnings"]:
            note(warning)
        show(*_describe(estimator, model, summary), f"\nSaved to {summary['output']}")


def _describe(estimator: Any, model: Declaration, summary: dict[str, Any]) -> list[RenderableType]:
    """A fit for people."""
    table = None if model.table is None else model.table(estimator, vars(estimator))
    errors = estimator.uncertainty() if summary["private"] else {}
    facts: dict[str, Any] = {"rows": f"{summary['rows']:,}"} if "rows" in summary else {}
    facts |= {key: ", ".join(who) for key, who in summary.get("attendance", {}).items() if who}
    facts |= {"columns": len(summary["columns"])}
    facts |= {"target": summary["target"]} if "target" in summary else {}
    noise = summary["parameters"].get("noise_variance")
    figures = model.figures(estimator, summary.get("total_weight"))
    for key, value in ({"noise_variance": noise} | figures).items():
        if isinstance(value, float):
            error = float(errors.get(f"{key}_", 0.0))
            said = with_error(value, error) if error else f"{value:.6g}"
            facts[key.replace("_", " ")] = said
    converged = {True: " (converged)", False: " (NOT converged)", None: ""}
    facts |= {"iterations": f"{summary['iterations']}{converged[summary.get('converged')]}"}
    facts |= {"time": f"{summary['seconds']:.2f} s"} if "seconds" in summary else {}
    facts |= {"structure": _structure(summary)} if "structure" in summary else {}
    if hasattr(estimator, "outside_"):
        facts |= {"bounds found": _bounds(estimator)}
    title = f"{model.name if table is None else table.title}, of {summary['data']}"
    pieces: list[RenderableType] = [f"{aligned(title, facts)}\n"]
    if table is not None:
        labels = table.labels or [str(k) for k in range(len(table.rows))]
        corner = "k" if table.labels is None else ""
        around = model.table(estimator, errors).rows if errors and model.table else None
        cells = numbers(corner, labels, table.columns, table.rows, around)
        said = f"{table.caption.rstrip(':')}{'' if around is None else _ERRORS}:"
        pieces += [f"{said}\n", *cells, ""]
    if "candidates" in summary:
        pieces += ["Numbers of components:\n", *(f"  {line}" for line in say_choice(summary)), ""]
    pieces.append(Text(summary["statement"]))
    mapped = not (model.categories or model.schema or get_tags(estimator).input_tags.allow_nan)
    if "parties" in summary and mapped and summary["private"]:  # whether there are any is not said
        pieces.append(Text("Missing values, if there are any, counted as the lower bound."))
    return pieces


def _bounds(estimator: Any) -> str:
    """Bounds that a private fit has found, and paid for."""
    sides = zip(estimator._names(), *estimator.bounds_, strict=True)
    said = [f"{name} {low:.4g} to {high:.4g}" for name, low, high in sides]
    if hasattr(estimator, "target_bounds_"):
        said.append("target {:.4g} to {:.4g}".format(*estimator.target_bounds_))
    return ", ".join(said)


def _structure(summary: dict[str, Any]) -> str:
    if summary["structure"] == "single" and (summary["components"] or 2) > 1:
        return "single: one component in place of all"
    return str(summary["structure"])


def report_score(summary: dict[str, Any], as_json: bool) -> None:
    """Print a score."""
    if as_json:
        emit_json(summary)
        return
    for warning in summary.get("warnings", ()):
        note(warning)
    lines = [
        f"{label:<22} {summary[key]:{',' if isinstance(summary[key], int) else '.8g'}}"
        for key, label in _SCORES.items()
        if key in summary
    ]
    show(
        "\n".join(summary.get("comparison", lines)),
        "",
        Text(summary.get("statement", _EXACT_SCORE)),
    )


def audit_text(report: AuditReport) -> str:
    """The report as text; three or more releases that differ by their number become one line.

    Whatever failed keeps a line of its own. All of them are in the report's JSON.

    Examples
    --------
    >>> steps = [Finding(f"release EM {i} / sums", True, "", {"multiplier": i}) for i in (1, 2, 3)]
    >>> print(audit_text(AuditReport("m.json", steps)))
    Audit of m.json: passed (3 checks)
      ok    release EM 1 / sums to EM 3 / sums: 3 releases, multipliers 1 to 3 (each: --json)
    """
    alike: dict[str, list[Finding]] = {}
    for finding in report.findings:
        sound_release = finding.passed and "multiplier" in finding.numbers
        name = re.sub(r"\d+", "#", finding.name) if sound_release else f"{len(alike)} "
        alike.setdefault(name, []).append(finding)
    head, *_ = str(report).splitlines()
    lines = [str(line) for same in alike.values() for line in _fold(same)]
    return "\n  ".join([head, *lines])


def _fold(alike: list[Finding]) -> list[Finding]:
    if len(alike) <= _FEW:
        return alike
    multipliers = [float(finding.numbers["multiplier"]) for finding in alike]
    last = alike[-1].name.removeprefix("release ")
    between = " to ".join(dict.fromkeys(f"{f(multipliers):.6g}" for f in (min, max)))
    detail = f"{len(alike)} releases, multipliers {between} (each: --json)"
    return [Finding(f"{alike[0].name} to {last}", True, detail)]


def demo_summary(demo: Demo) -> dict[str, Any]:
    """What a demonstration found, as JSON values."""
    scores = {"exact": demo.exact, "private": demo.private, "single": demo.single}
    return {
        "rows": demo.rows,
        "held_out": demo.held_out,
        "scores": scores,
        "distances": {"columns": demo.columns, "pairs": demo.pairs},
        "statement": str(demo.model.privacy_),
        "privacy": demo.model.privacy_.to_dict(),
        "files": {name: str(path) for name, path in demo.files.items()},
        "remark": demo.remark,
    }


def describe_demo(demo: Demo) -> list[RenderableType]:
    """The components, what privacy costs, the statement, the files."""
    model = demo.model
    columns = ["weight", *model._names()]
    labels = [str(k) for k in range(len(model.weights_))]
    found = model.uncertainty()
    values, errors = (
        np.column_stack(parts).tolist()
        for parts in ([model.weights_, model.means_], [found["weights_"], found["means_"]])
    )
    return [
        f"\nThe private model: weights and means{_ERRORS}\n",
        *numbers("k", labels, columns, values, errors),
        f"\nBackground, uniform on the bounds: weight {model.background_weight_:.3g}",
        f"\nHeld-out log-likelihood per person, of {demo.held_out:,} people no fit has seen\n",
        _scores(demo),
        "",
        f"A table of mixed columns, and a synthetic one, epsilon {demo.table.privacy_.epsilon:g}\n",
        _distances(demo),
        "",
        Text(_meaning(demo)),
        "\nThe statement that is saved with the model\n",
        Text(str(model.privacy_)),
        f"\n{_files(demo)}",
    ]


def _scores(demo: Demo) -> Table:
    count, epsilon = len(demo.model.weights_), f"{demo.model.privacy_.epsilon:g}"
    models = [f"exact EM, {count} components", f"private mixture, {count} components"]
    scores = (demo.exact, demo.private, demo.single)
    columns = {
        "epsilon": ["none", epsilon, epsilon],
        "log-likelihood": [f"{score:.3f}" for score in scores],
        "against exact EM": ["", *(f"{score - demo.exact:+.3f}" for score in scores[1:])],
    }
    return table_of(["", *models, "private single Gaussian"], list(columns.items()))


def _distances(demo: Demo) -> Table:
    labels = ["", "single columns, fine cells", "pairs of columns, bins"]
    return table_of(labels, [("total variation", [f"{demo.columns:.3f}", f"{demo.pairs:.3f}"])])


def _meaning(demo: Demo) -> str:
    """In words; and what nobody should do with people who do exist."""
    text = (
        "These people are synthetic. Of real ones, these numbers would themselves be a release: "
        "they are exact, and private fits of the same people cost what they cost together. "
        "Publish one model and its statement, and no score."
    )
    if demo.private <= demo.single:
        text = "Here a private single Gaussian does as well: there are too few people. " + text
    return text


def _files(demo: Demo) -> str:
    what = {
        "people": "the people; stays inside",
        "model": "the private model: privem sample, privem audit",
        "synthetic": "records drawn from it, as private as it is",
        "table": "the people as a mixed table; stays inside",
        "synthetic_table": "a synthetic table: privem synth makes such",
        "picture": "the mixture, and records drawn from it",
        "table_picture": "the mixed table beside the synthetic one",
    }
    width = max(len(str(path)) for path in demo.files.values())
    lines = [f"  {path!s:<{width}}  {what[name]}" for name, path in demo.files.items()]
    if demo.remark:
        lines.append(f"  {demo.remark}")
    return "\n".join(lines)
