"""What all members of a federation have agreed on before anything is asked. Public.

It is fixed when the federation is created and never comes from the server: a party answers only
messages that carry the agreement's own hash, and takes from the agreement whatever its privacy
rests on (who takes part, how noise is shared, who may drop out).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from .protections import Protection, names, protection
from .wire.codec import VERSION, encode, of_another_version


@dataclass(frozen=True)
class Card:
    """A member: a name, and the public keys (hexadecimal) others know it by.

    Examples
    --------
    >>> Card("north").name
    'north'
    """

    name: str
    box: str = ""
    """X25519: sealed boxes are addressed to it."""
    signing: str = ""
    """Ed25519: masked sums are signed with it."""


@dataclass(frozen=True)
class Agreement:
    """Terms of a federation.

    Parameters
    ----------
    members : tuple of Card
    protection : {"masked", "encrypted", "plain", "ckks"}
    dropouts : int
        How many parties may be missing from a sum; with one or more there are private fits only.
    colluders : int, optional
        How many parties may tell the others, or the server, all they know. Even a party that tells
        nobody knows its own noise, so the default is one where noise is shared, else none.
    minimum : int
        The fewest parties whose sum is ever opened.
    collusion : {"some", "none"}
        With ``"none"`` nobody who holds a key of ``"encrypted"`` works with the server, and noise
        is shared.
    low, high : tuple of float, optional
        Public bounds per feature, for exact sums on a grid.
    rows : float, optional
        Public bound on the number of records of all parties (or their weights).
    weighted : bool
        Whether records have weights.
    target : bool
        Whether the last column is a target.
    categories : tuple of tuples, optional
        Of each column, where rows are codes of categories.
    schema : str
        What the columns are, as JSON, where rows are numbers of its cells; else empty.
    persons : bool
        Whether a private fit hides persons with all their records (user-level privacy), rather
        than records.
    beside : str
        Digest of what else was agreed on and only the transport knows: columns, addresses, keys.
    seed : str
        Public random bytes (hexadecimal), drawn after all keys are known: they choose each party's
        peers where there are too many for all pairs (``"masked"``).

    Examples
    --------
    >>> members = tuple(Card(name) for name in "abcd")
    >>> Agreement(members, "masked", dropouts=1).cohort
    2
    """

    members: tuple[Card, ...]
    protection: str
    dropouts: int = 0
    colluders: int = None  # type: ignore[assignment]
    minimum: int = 3
    collusion: str = "some"
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    rows: float | None = None
    weighted: bool = False
    seed: str = ""
    target: bool = False
    categories: tuple[tuple[Any, ...], ...] | None = None
    persons: bool = False
    beside: str = ""
    schema: str = ""

    def __post_init__(self) -> None:
        n = len(self.members)
        if len(set(self.names)) != n:
            raise ValueError("two parties have the same name; give each its own")
        for keys in ([card.box for card in self.members], [card.signing for card in self.members]):
            known = [key for key in keys if key]
            if len(set(known)) != len(known):
                raise ValueError("two parties have the same key; let each make its own")
        if self.colluders is None:
            object.__setattr__(self, "colluders", 1 if self.shared else 0)
        for word in ("dropouts", "colluders"):
            value = getattr(self, word)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{word} must be a whole number, zero or more, got {value!r}")
        if isinstance(self.minimum, bool) or not isinstance(self.minimum, int) or self.minimum < 1:
            raise ValueError(f"minimum must be a whole number of parties, got {self.minimum!r}")
        if n < self.minimum:
            raise ValueError(
                f"{n} parties, but at least {self.minimum} must take part: with fewer, "
                "each learns too much about the others from the sum"
            )
        if self.collusion not in ("some", "none"):
            raise ValueError(f"collusion must be 'some' or 'none', got {self.collusion!r}")
        if self.collusion == "none" and not self.kind.trusts_parties:
            able = " or ".join(repr(name) for name in names() if protection(name).trusts_parties)
            raise ValueError(f"collusion='none' is for protection={able}")
        self.kind.check_agreement(self)
        if self.shared and self.cohort < 1:
            raise ValueError(
                f"of {n} parties, dropouts={self.dropouts} and colluders={self.colluders} "
                "(1 unless you say otherwise: a party knows its own share of the noise) leave "
                f"nobody whose noise could hide a record; together they may be {n - 1} at most"
            )
        if self.opened_by < self.minimum:
            raise ValueError(
                f"with {self.dropouts} dropouts only {self.opened_by} parties may be left, fewer "
                f"than minimum={self.minimum}"
            )
        if self.no_exact and not self.kind.private_fits:
            raise ValueError(f"protection={self.protection!r} has exact fits only, {self.no_exact}")
        if self.weighted and self.persons:
            raise ValueError(
                "records have weights or belong to persons, not both: of a person's weights the "
                "cap would have to be agreed on"
            )

    @cached_property
    def kind(self) -> Protection:
        """The protection, with its properties."""
        return protection(self.protection)

    @property
    def names(self) -> list[str]:
        """Of the members, in order."""
        return [card.name for card in self.members]

    def card(self, name: str) -> Card:
        """A member by name."""
        return next(card for card in self.members if card.name == name)

    @property
    def shared(self) -> bool:
        """Whether parties add shares of the noise, rather than all of it each."""
        return self.kind.shares_noise or self.collusion == "none"

    @cached_property
    def cohort(self) -> int:
        """How many honest parties there are at least in any sum that is opened."""
        return self.kind.honest_parties(self)

    @property
    def share(self) -> int:
        """Into how many parts Gaussian noise is divided; one where each adds all of it."""
        return self.cohort if self.shared else 1

    @property
    def opened_by(self) -> int:
        """How many parties are left if all declared dropouts happen."""
        return len(self.members) - self.dropouts

    @property
    def least(self) -> int:
        """The fewest parties a sum is opened for, whatever happens."""
        return max(self.minimum, self.opened_by)

    @property
    def no_exact(self) -> str:
        """Why there are no exact fits, in words; empty where there may be some.

        Two exact sums over different parties differ by single parties' sums.
        """
        if not self.dropouts:
            return ""
        return (
            f"dropouts={self.dropouts}: exact sums over different parties give single parties' "
            "sums away by subtraction, so this federation has private fits only; exact ones need "
            "a federation with dropouts=0"
        )

    @cached_property
    def roster(self) -> str:
        """A hash of the members and their keys, whatever else was agreed on."""
        cards = sorted((card.name, card.box, card.signing) for card in self.members)
        return hashlib.sha256(encode("roster", cards)).hexdigest()

    @cached_property
    def hash(self) -> str:
        """Names the agreement in every message."""
        return hashlib.sha256(encode("agreement", self.to_dict())).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the version of the format."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Agreement:
        """The inverse of :meth:`to_dict`, also after JSON; raises ValueError for other versions."""
        values = dict(values)
        version = values.pop("version", 1)
        if version != VERSION:
            raise ValueError(f"the agreement is {of_another_version(version)}")
        values["members"] = tuple(Card(**card) for card in values["members"])
        for word, kind in (("low", float), ("high", float), ("categories", tuple)):
            if values.get(word) is not None:
                values[word] = tuple(kind(part) for part in values[word])
        return cls(**values)

    def trust(self, private: bool | None = None) -> str:
        """Who can learn what: part of every statement of a federated fit.

        ``private``: about fits with epsilon, or about fits without; ``None`` says both.
        """
        n = len(self.members)
        words = [f"{n} parties, protection {self.protection!r}. Rows never leave their party."]
        words.append(self.kind.trust)
        words.append(
            f"A sum is opened for at least {self.least} parties "
            f"(dropouts declared: {self.dropouts}; colluders declared: {self.colluders}; "
            f"least cohort: {self.minimum})."
        )
        if private is not True:
            words.append(_NO_EXACT if self.dropouts else _EXACT)
        if private is not False:
            words += [self._noise(), _COMPUTATIONAL, _PERSONS if self.persons else _RECORDS]
        return " ".join(words)

    def _noise(self) -> str:
        if not self.shared:
            return (
                "With epsilon every party adds all of the noise to its own numbers: what it sends "
                "is private by itself, whoever works with whom; the total has the noise of all "
                "parties."
            )
        text = (
            f"With epsilon every party adds 1/{self.cohort} of the noise's variance (all of it "
            f"where noise is Laplace): the promise holds as long as {self.cohort} honest parties "
            "are in every sum that is opened."
        )
        text += self.kind.about_sharing(len(self.members))
        if not self.colluders:
            text += (
                " No colluders are declared, not even a party that uses what it knows of its own "
                "noise: against a party the promise is weaker."
            )
        if self.collusion == "none":
            text += (
                " It was declared that nobody works with the server: server and party together "
                "would see a party's numbers with too little noise."
            )
        return text


def took_part(attendance: Mapping[str, Sequence[str]]) -> str:
    """Who was in every sum of a fit, and who was not and why."""
    words = {"took part": "In every sum", "refused": "Refused", "lost": "Did not answer"}
    said = (f"{words[key]}: {', '.join(names)}." for key, names in attendance.items() if names)
    return " ".join(said)


_RECORDS = (
    "A person with records at several parties counts as several records do: the promise for that "
    "person is weaker."
)
_PERSONS = (
    "Hidden is a person with all their records at one party; a person who has some at k parties is "
    "hidden as k persons are."
)
_COMPUTATIONAL = (
    "A party's noise comes from HMAC-SHA256 and SHAKE-256 under a secret of its own: the promise "
    "is computational, against whoever cannot tell those from random bytes and has neither the "
    "party's state nor a backup of it."
)
_NO_EXACT = (
    "There are no exact fits, because dropouts are declared: sums over different parties would "
    "give single parties' sums away by subtraction."
)
_EXACT = (
    "Without epsilon the totals are exact, and what is known of a total may be subtracted from it: "
    "whoever knows the other parties' sums has the last one's, of two parties each has the "
    "other's, and sums and model tell about single records. Exact sums are over all parties, and a "
    "party gives none together with others than those it gave its first with."
)
