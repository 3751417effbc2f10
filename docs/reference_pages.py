"""Writes the pages of the API reference, from what the library says is public."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import privem
from privem.core import Array
from privem.declaration import declarations

# Packages whose own `__all__` is public too, and what each is for.
PACKAGES = {
    "federation": "Federations",
    "data": "Data",
    "datasets": "Data sets",
    "report": "Reports",
    "ledger": "Ledgers",
    "local": "Local privacy",
    "audit": "Audits",
    "accounting": "Accounting",
    "core": "For new models: the core",
    "run": "For new models: the loop",
}


def write(folder: Path) -> None:
    """Write a page for each public name and package, and an index of them."""
    folder.mkdir(exist_ok=True)
    models = {each.name: each for each in declarations()}
    groups: dict[str, list[str]] = {"Models": [], "Functions": [], "Tools": [], "Errors": []}
    for name in privem.__all__:
        groups[_kind(name, models)].append(name)
    pages = {name: _page(f"privem.{name}", name in models) for name in privem.__all__}
    pages |= {name: _package(name, title) for name, title in PACKAGES.items()}
    pages["index"] = _index(groups)
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        # Pages that stay the same are not built again.
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _kind(name: str, models: object) -> str:
    value = getattr(privem, name)
    if name in models:  # type: ignore[operator]
        return "Models"
    if not inspect.isclass(value):
        return "Functions"
    return "Errors" if issubclass(value, Exception) else "Tools"


def _first(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("``", "`")


def _directive(dotted: str, value: object, inherited: bool) -> list[str]:
    kind = "autofunction"
    options: list[str] = []
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        options = [":members:"] if kind == "autoclass" else []
        if inherited:
            options += [":inherited-members: object"]
    elif not callable(value):
        kind = "autodata"
    return ["```{eval-rst}", f".. {kind}:: {dotted}", *(f"   {o}" for o in options), "```", ""]


def _page(dotted: str, inherited: bool) -> str:
    value = getattr(privem, dotted.removeprefix("privem."))
    return "\n".join([f"# {dotted}", "", *_directive(dotted, value, inherited)])


def _package(name: str, title: str) -> str:
    module = importlib.import_module(f"privem.{name}")
    # Its sections, such as examples, are not those of the page.
    about = re.sub(r"^(\w+)\n-+$", r".. rubric:: \1\n", inspect.getdoc(module) or "", flags=re.M)
    lines = [f"# privem.{name}", "", "```{eval-rst}", f".. py:module:: privem.{name}", "", about]
    lines += ["```", ""]
    known = getattr(module, "__all__", None) or [
        each
        for each, value in vars(module).items()
        if not each.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    for each in known:
        value = getattr(module, each)
        if value == Array:
            continue
        lines += [f"## {each}", ""]
        if value is getattr(privem, each, None):
            lines += [f"It is [`privem.{each}`]({each}.md).", ""]
        else:
            lines += _directive(f"privem.{name}.{each}", value, False)
    return "\n".join(lines)


def _index(groups: dict[str, list[str]]) -> str:
    lines = [
        "# Reference",
        "",
        "Everything public: what `import privem` gives, and the packages below it.",
        "The [command line](../cli.md) and [model files](../formats.md) have pages of their own.",
        "",
    ]
    for title, names in groups.items():
        lines += [f"## {title}", "", "| name | what it is |", "|---|---|"]
        lines += [f"| [`{name}`]({name}.md) | {_first(getattr(privem, name))} |" for name in names]
        lines += [""]
    lines += ["## Packages", "", "| package | what is in it |", "|---|---|"]
    for name in PACKAGES:
        module = importlib.import_module(f"privem.{name}")
        lines.append(f"| [`privem.{name}`]({name}.md) | {_first(module)} |")
    toctree = ["", "```{toctree}", ":hidden:", ""]
    toctree += [name for names in groups.values() for name in names] + list(PACKAGES)
    return "\n".join([*lines, *toctree, "```", ""])
