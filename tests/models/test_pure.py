"""Pure differential privacy: delta = 0, by Laplace noise alone."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem import (
    GaussianMixture,
    KMeans,
    private_mean,
)
from privem.accounting import Composed, Laplace, calibrate, epsilon
from privem.audit import audit_fit, audit_release
from privem.audit.recount import recount
from privem.blocks.bounding import Clip, Robust
from privem.blocks.histograms import CountQuery
from privem.blocks.robust_mean import RobustMeanQuery
from privem.core import Block, Scratch
from privem.declaration import declarations
from privem.federation import Federation, Party
from privem.noise.discrete import Discrete

from ..examples import private

BOUNDS = (-5.0, 12.0)
ROUTES = [{"neighbours": "replace-one"}, {"max_rows": 5000}]
FITS = [
    (KMeans, "ll"),
    (KMeans, "dplloyd"),
    (KMeans, "auto"),
    (GaussianMixture, "laplace"),
    (GaussianMixture, "auto"),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 1, (1000, 2)) for c in ((0, 0), (6, 0), (0, 6))])


def model_of(cls, mechanism, **more):
    """Three components; a generous budget, so that the noise leaves a mixture."""
    given = {"epsilon": 8.0, "delta": 0, "bounds": BOUNDS, "random_state": 0}
    return cls(3, **given | {"mechanism": mechanism} | more)


def groups_of(statement):
    return [group for record in statement.releases for group in record.groups]


def check_statement(statement, budget):
    """Laplace noise alone, no failure, and epsilons that add up to what is stated."""
    assert (statement.delta, statement.failure, statement.epsilon) == (0.0, 0.0, budget)
    groups = groups_of(statement)
    assert {group.kind for group in groups} == {"laplace"}
    added = math.fsum(
        (g.sensitivity + g.slack + g.grid * g.dimension) / (g.steps * g.grid) for g in groups
    )
    assert 0.999 * budget < added <= statement.spent <= budget
    assert statement.recount() == statement.spent
    assert statement.priced_by == "linear"
    assert f"({budget:g}, 0)-differentially private" in str(statement)
    assert recount(json.loads(json.dumps(statement.to_dict()))).passed


@pytest.mark.parametrize("route", ROUTES, ids=["replace-one", "max_rows"])
@pytest.mark.parametrize(("cls", "mechanism"), FITS)
def test_a_fit_with_delta_zero_is_pure(data, cls, mechanism, route):
    model = model_of(cls, mechanism, **route).fit(data)
    check_statement(model.privacy_, 8.0)
    limited = "number of records at most 5000" in str(model.privacy_)
    assert limited == ("max_rows" in route)
    # The count is public when one is replaced, else a release of its own.
    first = model.privacy_.releases[0].name
    assert (first == "count") == limited


@pytest.mark.parametrize("mechanism", ["ll", "dplloyd"])
def test_a_pure_start_finds_clusters_where_records_are_many(data, mechanism):
    """At 60,000 records the noise on a centre is below a hundredth of its cluster's spread."""
    many = np.tile(data, (20, 1))
    model = model_of(KMeans, mechanism, max_rows=100_000).fit(many)
    assert -model.score(many) < 1.2 * KMeans(3, epsilon=None).fit(many).inertia_


@pytest.mark.parametrize("route", ROUTES, ids=["replace-one", "max_rows"])
@pytest.mark.parametrize("method", ["auto", "lemma 1"])
def test_a_mean_with_delta_zero_is_pure(data, route, method):
    mean = private_mean(data, epsilon=2.0, delta=0, tau=30.0, method=method, **route)
    check_statement(mean.privacy, 2.0)
    if method == "auto":
        # Fifteen deviations of Laplace noise: exp(-21) a coordinate; and clipping.
        assert np.abs(np.asarray(mean.value) - data.mean(axis=0)).max() < 15 * mean.deviation.max()


def test_weights_and_persons_are_pure_too(data):
    persons, weight = np.arange(len(data)) // 2, np.tile([0.5, 2.0], len(data) // 2)
    model = model_of(KMeans, "dplloyd", max_rows=5000, max_weight=2.0)
    check_statement(model.fit(data, sample_weight=weight, groups=persons).privacy_, 8.0)
    mean = private_mean(data, delta=0, tau=30.0, groups=persons, neighbours="replace-one")
    check_statement(mean.privacy, 1.0)


def test_the_noise_has_the_scale_that_pen_and_paper_give(data):
    """Five iterations, one replaced: 2 (1 + sqrt 2) in L1, five times that over epsilon."""
    model = model_of(KMeans, "dplloyd", epsilon=1.0, n_iter=5, neighbours="replace-one")
    groups = groups_of(model.fit(data).privacy_)
    assert [group.dimension for group in groups] == [9] * 5
    scale = 2 * (1 + math.sqrt(2)) * 5
    for group in groups:
        assert group.steps * group.grid == pytest.approx(scale, rel=1e-4)
        assert group.steps * group.grid > scale


def test_epsilons_of_laplace_releases_add_up():
    five = Composed(((Laplace(10.0), 5), (Laplace(4.0), 2)))
    for accountant in ("auto", "linear", "linear-classical"):
        assert epsilon(five, 0.0, accountant) == pytest.approx(1.0, rel=1e-9)
        found = calibrate(lambda m: Composed(((Laplace(m), 7),)), 0.5, 0.0, accountant)
        assert found == pytest.approx(14.0, rel=1e-9)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_where_noise_drowns_a_mixture_it_is_one_gaussian(data, kind):
    few = data[::100]  # their number is public: the choice below has no chance in it
    terms = {"epsilon": 0.5, "neighbours": "replace-one"}
    model = model_of(GaussianMixture, "auto", covariance_type=kind, **terms)
    with pytest.warns(UserWarning, match="too few"):
        model.fit(few)
    assert model.structure_ == "single"
    assert np.ptp(model.means_, axis=0).max() == 0
    groups = groups_of(model.privacy_)
    assert {group.kind for group in groups} == {"laplace"}
    assert model.privacy_.spent <= 0.5
    assert np.isfinite(model.score(few))


def test_a_limit_spares_any_fit_the_noisy_bound(data):
    """With a delta, too: no part of it is set aside, and the promise is the same."""
    for cls in (KMeans, GaussianMixture):
        plain, limited = cls(2, bounds=BOUNDS), cls(2, bounds=BOUNDS, max_rows=5000)
        assert plain.fit(data).privacy_.failure == 1e-9
        assert limited.fit(data).privacy_.failure == 0
        assert recount(limited.privacy_).passed


# A limit that is not kept.


def test_rows_beyond_the_limit_are_neither_said_nor_refused(data):
    """A comparison with the true number of rows would give that number away."""
    model = model_of(KMeans, "dplloyd", max_rows=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*(cannot be told apart|no more records than noise)")
        model.fit(data)
    check_statement(model.privacy_, 8.0)


@pytest.mark.parametrize(("cls", "mechanism"), FITS)
def test_a_limit_that_is_exceeded_costs_in_proportion_at_most(data, cls, mechanism):
    """Release.md, section 6: the slack grows with the rows, and nothing else does."""
    model = model_of(cls, mechanism, max_rows=1500).fit(data)
    times = len(data) / 1500
    really = math.fsum(
        (g.sensitivity + times * g.slack + g.grid * g.dimension) / (g.steps * g.grid)
        for g in groups_of(model.privacy_)
    )
    assert really <= times * model.privacy_.spent
    assert really <= 1.001 * model.privacy_.spent  # in practice rounding is next to nothing


# What cannot be pure says what can.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: model_of(KMeans, "gg", max_rows=9), "Gaussian noise needs a delta above 0"),
        (lambda: model_of(KMeans, "whitened", max_rows=9), "Gaussian noise needs a delta"),
        (lambda: model_of(GaussianMixture, "llg", max_rows=9), "Gaussian noise needs a delta"),
        (lambda: model_of(KMeans, "ll"), "needs max_rows here"),
        (lambda: model_of(KMeans, "ll", bounds=None, max_rows=9), "needs bounds"),
        (lambda: model_of(KMeans, "ll", max_rows=9, accountant="zcdp"), "'linear' does not"),
        (lambda: model_of(KMeans, "ll", max_rows=2**36 + 1), "at most 2"),
        (lambda: model_of(KMeans, "ll", max_rows=0), "max_rows must be at least 1"),
    ],
)
def test_everything_else_says_what_works(data, make, words):
    with pytest.raises(ValueError, match=words):
        make().fit(data)


@pytest.mark.parametrize(
    "each", [each for each in declarations() if each.estimator not in (KMeans, GaussianMixture)]
)
def test_other_models_say_what_works(each):
    with pytest.raises(ValueError, match=r"works with KMeans.*GaussianMixture"):
        private(each, delta=0).fit(*each.example().data)


def test_weights_under_replace_one_have_no_public_number(data):
    model = model_of(KMeans, "ll", neighbours="replace-one")
    with pytest.raises(ValueError, match="records with weights"):
        model.fit(data, sample_weight=np.ones(len(data)))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "needs max_rows here"),
        ({"max_rows": 9, "tau": None}, "needs bounds"),
        ({"max_rows": 9, "method": "theorem 2"}, "other than 'theorem 2'"),
        ({"trust": "local"}, "trust='central'"),
    ],
)
def test_other_means_say_what_works(data, more, words):
    with pytest.raises(ValueError, match=words):
        private_mean(data, **{"delta": 0, "tau": 30.0} | more)


def test_a_score_says_what_works(data):
    model = model_of(KMeans, "ll", max_rows=9)
    mixture = GaussianMixture(1, bounds=BOUNDS).fit(data)
    with pytest.raises(ValueError, match="works with KMeans"):
        mixture.private_score(data, epsilon=1.0, delta=0)
    parties = Federation([Party(data[i::3], f"p{i}") for i in range(3)], protection="plain")
    with pytest.raises(ValueError, match="parties share Gaussian noise"):
        model.fit(parties)
    with pytest.raises(ValueError, match="rows on this machine"):
        KMeans(3, bounds=BOUNDS, max_rows=9).fit(parties)
    with pytest.raises(ValueError, match="parties share Gaussian noise"):
        private_mean(parties, delta=0, tau=30.0, max_rows=9)


# The queries, attacked.


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=5),
    st.sampled_from([Clip(0.7), Clip(3.0), Robust(2.0, 1.0)]),
)
def test_no_record_moves_a_mean_further_than_charged_in_l1(record, bounding):
    p = len(record)
    query = RobustMeanQuery(np.zeros(p), np.ones(p), bounding, kind="laplace")
    (group,) = query.groups("add-remove")
    moved = query(Block(np.array([record])), Scratch()).total
    assert np.abs(moved).sum() <= group.sensitivity
    (twice,) = query.groups("replace-one")
    away = query(Block(-np.array([record])), Scratch()).total
    assert np.abs(moved - away).sum() <= twice.sensitivity


@pytest.mark.parametrize(
    "query",
    [
        CountQuery(kind="laplace"),
        RobustMeanQuery(np.zeros(3), np.ones(3), Clip(1.0), kind="laplace"),
    ],
)
def test_attacked_releases_claim_a_pure_epsilon_and_keep_it(query):
    X = np.concatenate([np.zeros((9, 3)), np.full((1, 3), 5.0)])
    found = audit_release(query, Discrete(1.0, "add-remove", 100.0), X, X[:9], 20_000, delta=0.0)
    assert not found.violated
    # Of the epsilon claimed, 1, a good part is seen (0.6 to 0.9; far from where chance reaches).
    assert found.evidence.claimed_epsilon == pytest.approx(1.0, rel=1e-6)
    assert found.evidence.epsilon > 0.25


@pytest.mark.slow
def test_attacked_fits_keep_a_pure_epsilon():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12, 1))
    X[0] = 1.0

    def make():
        return KMeans(
            2, epsilon=2.0, delta=0, bounds=(-1, 1), n_iter=2, max_rows=50, random_state=0
        )

    found = audit_fit(make, X, X[1:], fits=2000)
    assert not found.violated
