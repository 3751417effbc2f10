"""Tables that print row by row, as results come in, in any terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["show", "verdict"]


def show(
    title: str | None, columns: Mapping[str, str], rows: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Print rows under a header; ``columns`` maps a name to its format, such as ``">7.1f"``."""
    print(f"\n{(title or '').strip()}\n")
    widths = {
        name: max(len(name), int("".join(c for c in spec.split(".")[0] if c.isdigit()) or 0))
        for name, spec in columns.items()
    }
    print("  ".join(f"{name:{columns[name][0]}{width}}" for name, width in widths.items()))
    print("  ".join("-" * width for width in widths.values()))
    done = []
    for row in rows:
        cells = []
        for name, width in widths.items():
            value = row.get(name)
            text = "" if value is None else format(value, columns[name][1:])
            cells.append(f"{text.strip():{columns[name][0]}{width}}")
        print("  ".join(cells).rstrip(), flush=True)
        done.append(row)
    return done


def verdict(good: bool) -> str:
    """What the ok column says."""
    return "ok" if good else "short"
