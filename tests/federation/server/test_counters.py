"""Parties number their answers; a server notices whoever goes back, or is there twice."""

import pytest

from privem import GaussianMixture, KMeans
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import SumsQuery
from privem.federation import Federation, FederationError, InProcess, Journal, Party
from privem.federation.errors import OlderState
from privem.federation.server.journal import Counters
from privem.noise.exact import Exact

from ..conftest import federate, split
from ..party.test_party import Server, asked
from ..party.test_rollback import BEGIN


class Restoring(InProcess):
    """Puts a party back to the state it had so many exchanges ago."""

    def __init__(self, parties, rows, at=9, back=2):
        super().__init__(parties)
        self.rows, self.at, self.back = rows, at, back
        self.states = []

    def exchange(self, mail):
        party = self.parties["party 1"]
        self.states.append(party.state())
        if len(self.states) == self.at:
            party.restore(self.states[-1 - self.back])
        return super().exchange(mail)


@pytest.mark.parametrize("protection", ["plain", "masked"])
@pytest.mark.parametrize("back", [1, 3])
def test_a_party_that_has_gone_back_is_named(blobs, protection, back):
    parts = split(blobs, "even")
    federation = federate(parts, protection)
    parties = federation.transport.parties.values()
    federation.transport = Restoring(parties, parts[1], at=6, back=back)
    with pytest.raises(OlderState, match="'party 1' has answered more than it remembers"):
        GaussianMixture(2, epsilon=4.0, n_iter=4, bounds=(-20.0, 20.0)).fit(federation)


class Twins(InProcess):
    """One of the parties runs twice, from a copied folder; whoever is quicker answers."""

    def __init__(self, parties, twin):
        super().__init__(parties)
        self.twins, self.turn = [self.parties["party 1"], twin], 0

    def exchange(self, mail):
        self.turn += 1
        self.parties["party 1"] = self.twins[self.turn % 2]
        return super().exchange(mail)


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_two_of_one_party_are_noticed(blobs, protection):
    parts = split(blobs, "even")
    federation = federate(parts, protection)
    parties = federation.transport.parties
    twin = Party(parts[1], "party 1").restore(parties["party 1"].state())
    federation.transport = Twins(parties.values(), twin)
    with pytest.raises(OlderState, match="'party 1'"):
        KMeans(2, epsilon=1.0, bounds=(-20.0, 20.0)).fit(federation)


def test_a_server_remembers_from_run_to_run(blobs, tmp_path):
    parts = split(blobs, "even")
    agreed = federate(parts, "plain")
    parties = agreed.transport.parties
    old = parties["party 2"].state()
    model = GaussianMixture(2, epsilon=4.0, n_iter=1, bounds=(-20.0, 20.0))

    def fit(run):
        journal = Journal(tmp_path / run, tmp_path / "counters")
        model.fit(Federation.over(agreed.agreement, InProcess(parties.values()), journal))

    fit("one")
    fit("two")
    parties["party 2"].restore(old)
    with pytest.raises(OlderState, match="'party 2'"):
        fit("three")
    assert issubclass(OlderState, FederationError)


def test_a_message_that_is_sent_again_is_no_alarm(blobs):
    """The same request, the same number; a later one, a higher one; a refusal, the last one."""
    server = Server(blobs)
    counters = Counters()
    first = server.request(round=0, step=0, payload=BEGIN)
    later = server.request(round=1, question=asked(CountQuery()))
    bad = server.request(round=1, question=asked(SumsQuery(), Exact()))
    for request in (first, first, later, later, bad):
        counters.hear("party 0", request, server.party.handle(request.to_bytes()))
    # An old reply that comes again belongs to no request; nonsense is nobody's.
    stale = server.party.handle(later.to_bytes())
    assert server.ask(asked(CountQuery()), round=2)[0]
    last = server.request(round=3, question=asked(CountQuery()))
    counters.hear("party 0", last, server.party.handle(last.to_bytes()))
    counters.hear("party 0", last, stale)
    counters.hear("party 0", last, b"nonsense")
