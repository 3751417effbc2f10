"""Halve and double each constant of the method in turn, on several tables: do they matter much?

    python experiments/tables/vary.py [--tables wages flights diamonds] [--rows 20000]

One fit each, at epsilon 1 without a target; figures as in run.py.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil

from figures import head, line, once

from privem.models import table_mixture

MODULES = [
    importlib.import_module(f"{table_mixture.__name__}.{each.name}")
    for each in pkgutil.iter_modules(table_mixture.__path__)
]
CONSTANTS = ("_VARIANCE", "_CLASS", "_CELL", "_BIN", "_STANDS_OUT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["wages", "flights", "diamonds"])
    parser.add_argument("--rows", type=int, default=20_000)
    told = parser.parse_args()
    for table in told.tables:
        print(f"\n{table}")
        head()
        for constant in CONSTANTS:
            module = next(each for each in MODULES if hasattr(each, constant))
            usual = getattr(module, constant)
            for factor in (0.5, 1.0, 2.0):
                setattr(module, constant, usual * factor)
                found = once(table, 1.0, False, 0, rows=told.rows, quick=True)
                line(f"{constant} x {factor:g}", found)
            setattr(module, constant, usual)


if __name__ == "__main__":
    main()
