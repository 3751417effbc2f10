"""Who can learn what, said plainly. Part of every statement of a federated fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .agreement import Agreement

__all__ = ["took_part", "trust"]

_WHOM = {
    "records": (
        "A person with records at several parties counts as several records do: the promise "
        "for that person is weaker."
    ),
    "persons": (
        "Hidden is a person with all their records at one party; a person who has some at k "
        "parties is hidden as k persons are."
    ),
}


_COMPUTATIONAL = (
    "A party's noise comes from HMAC-SHA256 and SHAKE-256 under a secret of its own: the promise "
    "is computational, against whoever cannot tell those from random bytes and has neither the "
    "party's state nor a backup of it."
)


def trust(agreement: Agreement, private: bool | None = None) -> str:
    """The guarantee, and whom it is against.

    ``private``: of a fit with epsilon, of one without; ``None`` says both.
    """
    n = len(agreement.members)
    words = [f"{n} parties, protection {agreement.protection!r}. Rows never leave their party."]
    words.append(agreement.kind.trust)
    words.append(
        f"A sum is opened for at least {max(agreement.opened_by, agreement.minimum)} parties "
        f"(dropouts declared: {agreement.dropouts}; colluders declared: {agreement.colluders}; "
        f"least cohort: {agreement.minimum})."
    )
    if private is not True:
        words.append(_exact(agreement))
    if private is not False:
        words.append(_noise(agreement))
        words.append(_COMPUTATIONAL)
        words.append(_WHOM["persons" if agreement.persons else "records"])
    return " ".join(words)


def took_part(attendance: Mapping[str, Sequence[str]]) -> str:
    """Who was in every sum of a fit, and who was not and why."""
    words = {"took part": "In every sum", "refused": "Refused", "lost": "Did not answer"}
    said = (f"{words[key]}: {', '.join(names)}." for key, names in attendance.items() if names)
    return " ".join(said)


def _exact(agreement: Agreement) -> str:
    if agreement.dropouts:
        return (
            "There are no exact fits, because dropouts are declared: sums over different parties "
            "would give single parties' sums away by subtraction."
        )
    return (
        "Without epsilon the totals are exact, and what is known of a total may be subtracted from "
        "it: whoever knows the other parties' sums has the last one's, of two parties each has the "
        "other's, and sums and model tell about single records. Exact sums are over all parties, "
        "and a party gives none together with others than those it gave its first with."
    )


def _noise(agreement: Agreement) -> str:
    if not agreement.shared:
        return (
            "With epsilon every party adds all of the noise to its own numbers: what it sends is "
            "private by itself, whoever works with whom; the total has the noise of all parties."
        )
    text = (
        f"With epsilon every party adds 1/{agreement.cohort} of the noise's variance (all of it "
        f"where noise is Laplace): the promise holds as long as {agreement.cohort} honest parties "
        "are in every sum that is opened."
    )
    if len(agreement.members) > 64:
        text += (
            " With so many parties each shares masks with some of the others: that so many honest "
            "ones are in a sum holds but for a chance of 2^-40, and for colluders who were chosen "
            "without looking at who shares with whom."
        )
    if not agreement.colluders:
        text += (
            " No colluders are declared, not even a party that uses what it knows of its own "
            "noise: against a party the promise is weaker."
        )
    if agreement.collusion == "none":
        text += (
            " It was declared that nobody works with the server: server and party together would "
            "see a party's numbers with too little noise."
        )
    return text
