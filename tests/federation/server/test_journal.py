"""A server that is killed at any moment goes on where it was; nobody is charged or noised twice."""

import warnings

import numpy as np
import pytest

from privem import GaussianMixture, KMeans
from privem.federation import Federation, FederationError, InProcess, Journal, TooFewParties

from ..conftest import federate, split


class Killed(Exception):
    pass


class Dying(InProcess):
    """Loses the replies to one exchange, and the server with them."""

    def __init__(self, parties, lost_at, before=False):
        super().__init__(parties)
        self.left, self.before, self.sent = lost_at, before, 0

    def exchange(self, mail):
        self.left -= 1
        self.sent += 1
        if self.left == 0 and self.before:
            raise Killed
        replies = super().exchange(mail)
        if self.left == 0:
            raise Killed
        return replies


def model():
    return GaussianMixture(2, epsilon=4.0, n_iter=2, bounds=(-20.0, 20.0), random_state=0)


def exchanges(rows, protection):
    federation = federate(rows, protection)
    federation.transport = Dying(federation.transport.parties.values(), -1)
    model().fit(federation)
    return federation.transport.sent


@pytest.mark.parametrize("before", [True, False], ids=["unsent", "unheard"])
@pytest.mark.parametrize("protection", ["plain", "encrypted", "masked"])
def test_killed_in_every_exchange(blobs, tmp_path, protection, before):
    rows = split(blobs, "even")
    count = exchanges(rows, protection)
    # Every exchange of the first rounds, the last one, and some between.
    for lost_at in sorted({*range(1, min(count, 8)), count // 2, count}):
        agreed = federate(rows, protection)
        parties = list(agreed.transport.parties.values())
        folder = tmp_path / f"{protection} {lost_at} {before}"
        dying = Dying(parties, lost_at, before)
        with pytest.raises(Killed):
            model().fit(Federation.over(agreed.agreement, dying, Journal(folder)))
        rest = Dying(parties, -1)
        fitted = model().fit(Federation.over(agreed.agreement, rest, Journal(folder)))
        assert dying.sent + rest.sent == count + 1
        for party in parties:
            assert party.spent == pytest.approx(fitted.privacy_.spent, rel=1e-6)
        # A third time nobody is asked, and the model is the same.
        silent = Federation.over(agreed.agreement, InProcess([]), Journal(folder))
        assert np.array_equal(model().fit(silent).means_, fitted.means_)


def test_a_killed_exact_fit_is_the_whole_fit(blobs, tmp_path):
    rows = split(blobs, "even")
    whole = KMeans(3, epsilon=None).fit(blobs)
    agreed = federate(rows, "plain")
    parties = list(agreed.transport.parties.values())
    with pytest.raises(Killed):
        KMeans(3, epsilon=None).fit(
            Federation.over(agreed.agreement, Dying(parties, 5), Journal(tmp_path))
        )
    again = Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path))
    found = KMeans(3, epsilon=None).fit(again)
    assert np.allclose(found.cluster_centers_, whole.cluster_centers_, rtol=1e-12)


@pytest.mark.parametrize("away", range(2, 7))
@pytest.mark.parametrize("protection", ["plain", "encrypted", "masked"])
def test_a_round_that_failed_is_tried_again(blobs, tmp_path, protection, away):
    """A party is away from some exchange on: the fit stops, and goes on when it is back.

    Of a masked round exchanges 2 to 6 are all phases, the last with the others' shares open.
    """
    agreed = federate(split(blobs, "even"), protection)
    parties = list(agreed.transport.parties.values())

    class Away(InProcess):
        turn = 0

        def exchange(self, mail):
            self.turn += 1
            here = {k: v for k, v in mail.items() if self.turn < away or k != "party 1"}
            return super().exchange(here)

    for _ in range(2):  # a second time in vain
        with pytest.raises(TooFewParties):
            model().fit(Federation.over(agreed.agreement, Away(parties), Journal(tmp_path)))
        away = 0
    again = Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path))
    fitted = model().fit(again)
    for party in parties:
        assert party.spent == pytest.approx(fitted.privacy_.spent, rel=1e-6)


def test_a_torn_entry_is_dropped(blobs, tmp_path):
    agreed = federate(split(blobs, "even"))
    parties = list(agreed.transport.parties.values())
    with pytest.raises(Killed):
        model().fit(Federation.over(agreed.agreement, Dying(parties, 4), Journal(tmp_path)))
    for name in ("rounds", "current"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes() + b"torn entry")
    assert Journal(tmp_path).rounds == 2
    model().fit(Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path)))


def test_one_state_is_kept_and_nothing_goes_on_without_it(blobs, tmp_path):
    agreed = federate(split(blobs, "even"), "masked")
    parties = list(agreed.transport.parties.values())
    with pytest.raises(Killed):
        model().fit(Federation.over(agreed.agreement, Dying(parties, 13), Journal(tmp_path)))
    kept = sorted(path.name for path in tmp_path.glob("state-*"))
    assert kept == [f"state-{Journal(tmp_path).rounds}"]
    assert Journal(tmp_path).rounds == 3
    (tmp_path / "state-4").write_bytes(b"torn")  # killed while it was written
    (tmp_path / "state-3").rename(tmp_path / "away")
    with pytest.raises(FederationError, match="no state-3"):
        model().fit(Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path)))
    (tmp_path / "away").rename(tmp_path / "state-3")
    model().fit(Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path)))


def test_another_fit_needs_another_journal(blobs, tmp_path):
    agreed = federate(split(blobs, "even"))
    parties = list(agreed.transport.parties.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model().fit(Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path)))
        other = Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path))
        with pytest.raises(FederationError, match="other parameters"):
            model().set_params(n_components=3).fit(other)


def test_what_a_server_writes_is_its_owners_to_read(blobs, tmp_path):
    agreed = federate(split(blobs, "even"), "masked")
    parties = agreed.transport.parties.values()
    model().fit(Federation.over(agreed.agreement, InProcess(parties), Journal(tmp_path)))
    modes = {path.name.split("-")[0]: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("rounds", "current", "state", "counters"), 0o600)
