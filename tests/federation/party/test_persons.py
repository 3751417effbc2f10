"""Parties whose rows are persons': each person counts once, whoever asks, and is hidden whole."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privem import KMeans, private_mean
from privem.blocks.histograms import CountQuery
from privem.blocks.moments import SumsQuery
from privem.data import ArrayRows, read_file
from privem.declaration import declared
from privem.federation import Federation, InProcess, Party
from privem.federation.party.rows import PartyRows
from privem.federation.wire.messages import Question, Request
from privem.federation.wire.queries import pack, unpack
from privem.linalg import ravel
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..models import PRIVATE, WORDS, Case, columns_of, cut, fitted
from ..test_models_private import FIXED, fit
from .test_party import Server, asked


@dataclasses.dataclass(frozen=True)
class Blobs(Case):
    def data(self, n=600):
        rng = np.random.default_rng(3)
        return (np.concatenate([rng.normal(c, 1, (n // 2, 2)) for c in (-3, 3)]),)


OTHERS = [
    Blobs(declared(name), {"bounds": (-9.0, 9.0), **more})
    for name, more in (
        ("GaussianMixture", {"n_iter": 3}),
        ("KMeans", {}),
        ("FactorAnalysis", {"n_components": 1}),
    )
]


def whose(rows):
    """One person in ten has ten records, one five, the others one each; all at one party."""
    n = len(rows)
    labels = np.arange(n)
    labels[: n // 10] = 0
    labels[n // 10 : n // 10 + n // 20] = 1
    return labels


def federate(case, index, protection="plain", transport=InProcess, colluders=None, **party):
    more = columns_of(case.declared)
    parties = []
    for i, rows in enumerate(index):
        part = tuple(array[rows] for array in case.data())
        parties.append(Party(part[0], f"party {i}", *part[1:], groups=whose(rows), **more, **party))
    federation = Federation(parties, protection=protection, colluders=colluders)
    federation.transport = transport(parties)
    return federation


@pytest.mark.parametrize("case", [*PRIVATE, *OTHERS], ids=str)
def test_the_statement_is_about_persons(case):
    federation = federate(case, cut(600, "even"), "masked")
    model, _ = fit(case.model(epsilon=4.0), federation)
    assert model.privacy_.unit == "person"
    assert model.privacy_.recount() == model.privacy_.spent <= 4.0
    assert "a person who has some at k parties is hidden as k persons are" in str(model.privacy_)
    for party in federation.transport.parties.values():
        assert party.spent == pytest.approx(model.privacy_.spent, rel=1e-6)


@pytest.mark.parametrize("case", [*FIXED, *OTHERS[1:]], ids=str)
def test_without_noise_it_is_the_central_fit_of_persons(case, monkeypatch):
    zero = lambda spent, size, *rest: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr("privem.noise.discrete.draw", zero)
    index = cut(600, "even")
    federated, _ = fit(case.model(epsilon=4.0), federate(case, index, "masked", colluders=0))
    groups = np.empty(600, dtype=np.int64)
    for i, rows in enumerate(index):
        groups[rows] = 1000 * i + whose(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        central = case.model(epsilon=4.0).fit(*case.data(), groups=groups)
        records = case.model(epsilon=4.0).fit(*case.data())
    assert central.privacy_.unit == "person"
    found, wanted, other = map(fitted, (federated, central, records))
    assert wanted or hasattr(central, "cluster_centers_")
    if hasattr(central, "cluster_centers_"):
        found, wanted = ({"c": m.cluster_centers_} for m in (federated, central))
        other = {"c": records.cluster_centers_}
    for name, value in wanted.items():
        assert np.allclose(found[name], value, rtol=1e-3, atol=1e-3), name
    # And it is not that of records.
    assert any(not np.allclose(other[name], value, rtol=2e-3) for name, value in wanted.items())


class Questions(InProcess):
    """Keeps every question."""

    def __init__(self, parties):
        super().__init__(parties)
        self.asked = {}

    def exchange(self, mail):
        for message in mail.values():
            if question := Request.from_bytes(message).question:
                self.asked[question] = Question.from_bytes(question)
        return super().exchange(mail)


def _sums(held, query):
    source = held.source(True, 1, b"k" * 32)
    return ravel(source.total(query, True))


@pytest.mark.parametrize("case", [*PRIVATE, *OTHERS], ids=str)
def test_a_person_moves_no_sum_by_more_than_is_charged(case):
    """The last person, with thirty records as far out as can be, is there or is not."""
    federation = federate(case, cut(600, "even"), transport=Questions)
    fit(case.model(epsilon=4.0), federation)
    data = tuple(array[:90] for array in case.data())
    labels = whose(data[0])
    labels[60:] = 1000
    if not case.declared.categories:
        data = tuple(np.array(array) for array in data)
        far = np.where(np.arange(30) % 2, 1e6, -1e6)
        for array in data:
            array[60:] = far if array.ndim == 1 else far[:, None]
    said = {"categories": None} | columns_of(case.declared)

    def held(n, groups):
        y = data[1][:n] if len(data) > 1 else None
        return PartyRows.of(data[0][:n], y, groups=groups, **said)

    def used(more, less):
        """How much of what is charged each question's sums move by; the most of each."""
        found = []
        for question in federation.transport.asked.values():
            if getattr(question.query, "view", "rows") != "rows":
                continue  # one row of each person, drawn at random
            sums = [_sums(side, question.query) for side in (more, less)]
            groups = question.query.groups("add-remove")
            for group, spent in zip(groups, question.prices, strict=True):
                order = 2 if spent.kind == "gaussian" else 1
                moved = np.linalg.norm((sums[0] - sums[1])[group.where], order)
                found.append(moved / group.sensitivity)
        return np.array(found)

    persons = used(held(90, labels), held(60, labels[:60]))
    assert (persons <= 1 + 1e-9).all()
    assert persons.max() > 0.1
    # Not so if every record counted.
    assert used(held(90, None), held(60, None)).max() > 1.5


def test_a_question_that_caps_weights_below_one_is_refused():
    """Rows of a person with ten weigh a tenth: a cap of a tenth would charge a tenth, for all."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    noise = Discrete(40.0, "add-remove", 1000.0)
    for groups, right in ((np.arange(40) // 10, False), (None, True)):
        server = Server(X, groups=groups, epsilon=1.0)
        assert server.begin()[0]
        before = server.party.state()
        answered, words = server.ask(asked(CountQuery(0.1), noise))
        assert answered is right
        if not right:
            assert "caps the weight" in words
            assert server.party.state() == before
            assert server.ask(asked(CountQuery(1.0), noise))[0]


def test_caps_are_found_wherever_they_are():
    from privem.federation.wire.codec import BadMessage
    from privem.federation.wire.queries import check_persons, vocabulary

    from ..wire.test_forged import SOUND

    seen = 0
    for query in SOUND.values():
        try:
            check_persons(query)
        except BadMessage:
            continue
        low = _with_cap(query, 0.5)
        if low is query:
            assert query.view == "persons"
            continue
        with pytest.raises(BadMessage, match="caps the weight"):
            check_persons(low)
        seen += 1
    assert seen > 8
    # Every query that is answered with noise has a cap, or looks at one row of each.
    for kind, fields in vocabulary().values():
        if hasattr(kind, "groups") and not hasattr(kind, "view"):
            assert {"cap_weight", "bounded"} & set(fields), kind


def _with_cap(query, cap):
    fields = {f.name for f in dataclasses.fields(query)}
    if "cap_weight" in fields:
        return dataclasses.replace(query, cap_weight=cap)
    if "bounded" in fields and query.bounded is not None:
        bounded = _with_cap(query.bounded, cap)
        if bounded is not query.bounded:
            return dataclasses.replace(query, bounded=bounded)
    return query


def test_an_exact_fit_is_of_records():
    case = OTHERS[1]
    found = KMeans(2, epsilon=None).fit(federate(case, cut(600, "even")))
    wanted = KMeans(2, epsilon=None).fit(case.data()[0])
    assert np.allclose(found.cluster_centers_, wanted.cluster_centers_, rtol=1e-9)


def test_all_parties_have_persons_or_none():
    X = np.zeros((6, 2))
    some = [Party(X, "a", groups=np.arange(6) // 2), Party(X, "b"), Party(X, "c")]
    with pytest.raises(ValueError, match=r"'b': its rows have no persons \(groups=\)"):
        Federation(some, protection="plain")
    agreement = Federation([Party(X, f"{i}") for i in range(3)], protection="plain").agreement
    with pytest.raises(ValueError, match="weights or belong to persons"):
        dataclasses.replace(agreement, weighted=True, persons=True)
    with pytest.raises(ValueError, match="the agreement is about records"):
        Party(X, "0", groups=np.arange(6)).join(agreement)


def test_a_party_goes_on_with_rows_of_its_kind_only():
    """In the middle of a run rows without their persons would be charged as persons."""
    X = np.zeros((6, 2))
    groups = np.arange(6) // 2
    parties = [Party(X, f"{i}", groups=groups) for i in range(3)]
    Federation(parties, protection="plain")
    state = parties[0].state()
    with pytest.raises(ValueError, match="no persons"):
        Party(X, "0").restore(state)
    assert Party(X, "0", groups=groups).restore(state).state() == state


def test_an_account_is_of_records_or_of_persons():
    """What was charged for records says nothing of a person who has a hundred."""
    X = np.zeros((200, 2))
    groups = np.maximum(np.arange(200) - 99, 0)
    server = Server(X, epsilon=1.0)
    assert server.begin()[0]
    before = server.party.state()
    assert server.ask(asked(CountQuery()))[0]
    bare = dict(unpack(server.party.state(), "party", own=True), agreement=None)
    with pytest.raises(ValueError, match="its account is of records, which says nothing about per"):
        Party(X, "party 0", groups=groups).restore(pack("party", bare))
    fresh = dict(unpack(before, "party", own=True), agreement=None)
    assert Party(X, "party 0", groups=groups).restore(pack("party", fresh)).spent == 0


def test_the_number_of_records_is_not_taken_for_that_of_persons():
    case = OTHERS[2]
    parties = [Party(case.data()[0][i::3], f"{i}", groups=np.arange(200) // 10) for i in range(3)]
    federation = Federation(parties, rows=600)
    assert federation.rows is None
    model, _ = fit(case.model(epsilon=4.0, neighbours="replace-one"), federation)
    assert "number of persons" not in model.privacy_.public
    assert model.privacy_.releases[0].name == "count"


def test_a_party_of_nobody():
    X = OTHERS[0].data()[0]
    parties = [Party(X[:0], "nobody", groups=[])]
    parties += [Party(X[i::2], f"{i}", groups=np.arange(300)) for i in range(2)]
    model, _ = fit(OTHERS[2].model(epsilon=4.0), Federation(parties))
    assert model.privacy_.unit == "person"


def test_persons_by_name_and_by_values(tmp_path):
    table = pl.DataFrame({"who": ["x", "y", "x"], "a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    table.write_csv(tmp_path / "rows.csv")
    table.write_parquet(tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", table.select("a", "b").to_numpy())
    values = np.array(["x", "y", "x"])
    parties = [
        Party(tmp_path / "rows.csv", "p", groups="who"),
        Party(tmp_path / "rows.parquet", "p", groups="who"),
        Party(str(tmp_path / "rows.npy"), "p", groups=values),
        Party(read_file(tmp_path / "rows.csv", groups="who"), "p"),
        Party(table, "p", groups="who"),
        Party(pd.DataFrame(table.to_dict(as_series=False)), "p", groups="who"),
        Party(
            pd.DataFrame({"groups": [1.0, 2.0, 3.0], "blocks": [4.0, 5.0, 6.0]}), "p", groups=values
        ),
        Party(table.select("a", "b").to_numpy(), "p", groups=values),
    ]
    targets = [
        Party(tmp_path / "rows.csv", "p", "b", groups="who"),
        Party(table, "p", "b", groups="who"),
        Party(np.array([[1.0], [2.0], [3.0]]), "p", np.array([4.0, 5.0, 6.0]), groups=values),
    ]
    for party in (*parties, *targets):
        assert party.persons
        assert party.features == 2
        assert not party.weighted
        block = next(iter(party._held.source(True, 1, b"").rows.blocks(9)))
        assert block.weight.tolist() == [0.5, 1.0, 0.5]
        assert block.X.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
        assert party._held.table.owned.count == 2
    (tmp_path / "kinds.csv").write_text("who,a,b\nx,no,yes\ny,yes,yes\nx,no,no\n")
    coded = Party(tmp_path / "kinds.csv", "p", categories=WORDS, groups="who")
    assert next(iter(coded._held.source(True, 1, b"").rows.blocks(9))).weight.tolist() == [
        0.5,
        1.0,
        0.5,
    ]
    assert coded.columns == ("a", "b")


@pytest.mark.parametrize(
    ("rows", "groups", "words"),
    [
        (np.zeros((3, 2)), "who", "which arrays do not have"),
        (np.zeros((3, 2)), [1, 2], "groups has shape"),
        (np.zeros((3, 2)), [1, None, 2], "missing values"),
        (pl.DataFrame({"a": [1.0]}), "who", "'who'"),
        (ArrayRows(np.zeros((3, 2)), np.ones(3)), [1, 1, 2], "weights or persons, not both"),
        (ArrayRows(np.zeros((3, 2)), groups=np.arange(3)), [1, 1, 2], "name the groups once"),
        (np.zeros((3, 2)), [{1}, {2}, {1}], "cannot be compared"),
        (np.zeros((3, 2)), [frozenset({1}), frozenset({2}), frozenset({1})], "cannot be compared"),
    ],
    ids=["no columns", "length", "nobody", "no such column", "weights", "twice", "sets", "frozen"],
)
def test_persons_that_are_none_are_refused_at_once(rows, groups, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Party(rows, "a", groups=groups)


def test_a_private_mean_of_persons():
    federation = federate(OTHERS[0], cut(600, "even"), "masked")
    mean = private_mean(federation, epsilon=8.0, tau=4.0)
    assert mean.privacy.unit == "person"


def test_exact_questions_do_not_need_a_cap():
    server = Server(np.ones((4, 2)), groups=[1, 1, 2, 3])
    assert server.begin()[0]
    assert server.ask(asked(SumsQuery(), Exact()))[0]
