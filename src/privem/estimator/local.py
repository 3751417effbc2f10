"""What estimators need for ``trust="local"``: checks, devices as a source, plans in rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..blocks.devices import Rounds
from ..blocks.preamble import Preamble
from ..budget import Allowance, Part
from ..core import Plan, Rows, Source
from ..data.table import People
from ..meter import Meter
from ..statement import Statement
from .opening import crowd
from .parameters import check_option
from .terms import Terms

__all__ = ["asked", "check_trust", "planned", "signed"]

Result = TypeVar("Result")


def check_trust(model: Any) -> None:
    """Whether the model's ``trust`` goes with its ``epsilon``."""
    check_option("trust", model.trust, ("central", "local"))
    if model.trust == "local" and model.epsilon is None:
        raise ValueError("trust='local' is for private fits: give epsilon")


def asked(model: Any, rows: Rows, groups: Any, terms: Terms) -> tuple[Source, People, Terms]:
    """Who answers a private fit: the holder of the rows, or each person; and on what terms.

    Local privacy hides any change of a record, whatever ``neighbours``; how many people there are
    is public.
    """
    if model.trust != "local":
        return *model._owned(rows, groups), terms
    return *crowd(rows, groups), replace(terms, neighbours="replace-one")


def planned(
    local: bool,
    terms: Terms,
    preamble: Preamble,
    parts: list[Part],
    make: Callable[[Allowance, bool], Plan[Result]],
) -> tuple[Plan[Result], Meter]:
    """A plan with its budget shared out, and the meter that watches it.

    Parameters
    ----------
    local : bool
        Whether noise is each person's own; then everyone answers one release.
    terms : Terms
        As :func:`asked` has them.
    preamble : Preamble
        Of the plan.
    parts : list of Part
        How the plan shares out a budget.
    make : callable
        The plan, from its allowance and whether shares may be changed on the way.
    """
    count = preamble.count
    if not local:
        counted = count is None
        return make(terms.allowance(parts, counted), terms.adaptive), terms.meter(counted)
    assert count is not None
    message = terms.allowance([Rounds.message_part(parts)], counted=False)
    rounds = Rounds(parts, message, count)
    if rounds.count > count:
        raise ValueError(
            f"{rounds.count} rounds are more than n_samples={int(count)} people, of whom each "
            "answers one; lower n_iter"
        )
    return rounds.ask(make(rounds.allowance(), False), preamble.d), terms.meter(counted=False)


def signed(statement: Statement, people: People, local: bool) -> Statement:
    """The statement, which if local says so and how many people there were."""
    if not local:
        return statement
    known = people.public("replace-one")
    return replace(statement, trust="local", public={**known, **statement.public})
