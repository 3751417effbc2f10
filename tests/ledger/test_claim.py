"""Entries of runs that outlive their process, in both databases."""

import json
from dataclasses import replace

import pytest

from privem import Budget, BudgetExceeded, Ledger, LedgerError
from privem.accounting import Gaussian
from privem.ledger import Asked
from privem.ledger.chain import digest, problems
from privem.ledger.claim import Claim
from privem.ledger.filter import Cost

ASKED = Asked("KMeans", ("plan x",), 1.0, 1e-6, "add-remove", "record", "party")
ONE, TWO, THREE = (Cost.of(Gaussian(40.0 / share), 3.0) for share in (1, 2, 3))


@pytest.fixture
def book(where):
    with Ledger(where, "cohort", Budget(3.0, 1e-6)) as found:
        yield found


def rows_of(ledger):
    with ledger.store.reading(ledger.dataset) as rows:
        return list(rows)


def test_answers_are_counted_and_settled(book):
    claim = Claim.make(book, "run 1", ASKED, THREE, 1)
    assert claim.returned(book) == THREE
    first = claim.answering(book, "a", ONE)
    second = first.answering(book, "b", TWO)
    assert book.state().totals == THREE
    assert second.returned(book) == THREE - TWO
    assert Claim.from_dict(second.to_dict()) == second
    with pytest.raises(BudgetExceeded, match="exceed what the ledger has reserved"):
        second.answering(book, "c", THREE + ONE)
    second.settle(book)
    second.settle(book)  # it is
    assert book.state().totals == TWO
    assert second.returned(book) == Cost()
    with pytest.raises(LedgerError, match="released already: its run is over"):
        second.answering(book, "c", THREE)
    (run,) = book.history()
    assert (run.state, run.what.trust) == ("released", "party")
    assert book.verify().entries == 5


def test_a_claim_without_answers_is_void(book):
    claim = Claim.make(book, "run 1", ASKED, THREE, 1)
    claim.answering(book, "a", ONE)
    # Refused on its way: the holder knows the row, and that nothing has left.
    known = replace(claim.followed(book, "a"), spent=Cost())
    known.settle(book)
    assert [run.state for run in book.history()] == ["void"]
    assert book.state().totals == Cost()
    book.verify()


def test_who_is_behind_neither_answers_nor_gives_back(book):
    claim = Claim.make(book, "run 1", ASKED, THREE, 1)
    other = Claim.make(book, "run 2", ASKED, THREE, 1).answering(book, "a", ONE)
    first = claim.answering(book, "a", ONE)
    assert first.followed(book, "") == first
    for known in ("", "b"):
        with pytest.raises(LedgerError, match="does not know of"):
            claim.followed(book, known)
    with pytest.raises(LedgerError, match="does not know of"):
        claim.answering(book, "b", ONE)
    assert claim.returned(book) == Cost()
    # Known as the answer that was reserved.
    assert claim.followed(book, "a") == first
    claim.settle(book)
    other.settle(book)
    assert [run.state for run in book.history()] == ["abandoned", "released"]
    assert book.state().totals == THREE + ONE
    book.verify()


def test_a_ledger_that_is_older_or_another_is_noticed(book):
    claim = Claim.make(book, "run 1", ASKED, THREE, 1).answering(book, "a", ONE)
    for bad in (replace(claim, head="0" * 64), replace(claim, last=99), replace(claim, entry=99)):
        for use in (
            lambda bad=bad: bad.answering(book, "b", TWO),
            lambda bad=bad: bad.followed(book, ""),
            lambda bad=bad: bad.settle(book),
            lambda bad=bad: bad.returned(book),
        ):
            with pytest.raises(LedgerError, match="an older copy of the ledger was restored"):
                use()
    assert len(rows_of(book)) == 3


def test_forged_answers_are_found(book):
    claim = Claim.make(book, "run 1", ASKED, THREE, 1)
    claim.answering(book, "a", ONE).settle(book)
    rows = rows_of(book)
    assert problems(rows, "cohort") == []
    dear, free = (THREE + ONE).to_dict(), Cost().to_dict()
    for values in ({"cost": dear}, {"entry": 7}, {"totals": free}, {"settles": 1}):
        body = rows[2].values | values
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        assert problems([*rows[:2], replace(rows[2], body=text, hash=digest(text))], "cohort")
    # An answer after the outcome.
    assert "does not cover it" in problems([*rows[:2], *_again(rows)], "cohort")[0]


def _again(rows):
    """The outcome, and then the answer."""
    last, found = rows[1], []
    for number, row in enumerate((rows[3], rows[2]), 2):
        body = row.values | {"sequence": number, "previous": last.hash}
        if row is rows[2]:
            body["totals"] = last.values["totals"]
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        last = replace(row, sequence=number, body=text, hash=digest(text))
        found.append(last)
    return found
