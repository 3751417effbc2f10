"""The auditor accuses nobody wrongly, and sees what is there to see."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from privem.audit import Claim, attacks, audit_fit, audit_release, judge
from privem.audit.battery import tiny
from privem.audit.curves import epsilon_at, hockey_stick, mu_at
from privem.audit.evidence import clopper_pearson
from privem.blocks.histograms import CountQuery
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.noise.discrete import Discrete

RELATIONS = ("add-remove", "replace-one")


def at_the_claim(kind, rng, n):
    """Two samples exactly as far apart as the claim allows, and the claim."""
    if kind == "gaussian":
        noise = rng.normal(size=(2, n, 3))
        shift = np.array([0.6, 0.0, 0.8])  # of length one
        a, b = noise[0] + shift, noise[1]
        return {"projection": (a @ shift, b @ shift), "x": (a[:, 0], b[:, 0])}, Claim(mu=1.0)
    if kind == "laplace":
        return {"x": (rng.laplace(size=n) + 1.0, rng.laplace(size=n))}, Claim(pure=1.0)
    # Randomized response is the worst mechanism with this epsilon: it attains it everywhere.
    truth = math.e / (1 + math.e)
    first, second = rng.random(n) < truth, rng.random(n) >= truth
    return {"answer": (first.astype(float), second.astype(float))}, Claim(pure=1.0)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "response"])
def test_no_false_alarm_exactly_at_the_claim(kind):
    rng = np.random.default_rng(1)
    for _ in range(60):
        samples, claim = at_the_claim(kind, rng, 2000)
        assert not judge(samples, claim, alpha=1e-6).violated


def test_the_false_alarm_rate_is_what_it_says():
    """At alpha = 0.2, where alarms could be seen; exact limits are conservative, so few are."""
    rng = np.random.default_rng(2)
    runs = 200
    alarms = sum(
        judge(*at_the_claim("response", rng, 400), alpha=0.2).violated for _ in range(runs)
    )
    assert alarms <= binom.isf(1e-6, runs, 0.2)
    assert alarms > 0  # the test is not so lax that nothing could ever sound


def test_many_statistics_do_not_raise_the_rate():
    """What is chosen on one half is tested on the other: fishing does not help."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(30):
        samples = {str(j): (rng.normal(size=300), rng.normal(size=300)) for j in range(20)}
        alarms += judge(samples, Claim(mu=1e-9), alpha=0.05).violated
    assert alarms <= binom.isf(1e-6, 30, 0.05)


def test_certain_mu_and_epsilon_never_exceed_the_truth():
    rng = np.random.default_rng(4)
    for _ in range(30):
        samples, claim = at_the_claim("gaussian", rng, 3000)
        found = judge(samples, claim, delta=1e-3)
        assert found.mu <= 1.0
        assert found.epsilon <= epsilon_at(1.0, 1e-3)


def test_clopper_pearson_covers():
    """Exact, against a sum of binomial tails."""
    for n, k in ((50, 0), (50, 3), (50, 50), (1000, 7)):
        low, high = (float(v) for v in clopper_pearson(k, n, 1e-3))
        assert low == 0 if k == 0 else binom.sf(k - 1, n, low) == pytest.approx(1e-3)
        assert high == 1 if k == n else binom.cdf(k, n, high) == pytest.approx(1e-3)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_correct_releases_are_never_accused(query, neighbours):
    noise = Discrete(1.0, neighbours, 100.0)
    for pair in attacks(neighbours):
        draws = 60 if hasattr(query, "view") else 600
        found = audit_release(query, noise, pair.data, pair.neighbour, draws, name=pair.name)
        assert not found.violated, found.finding()


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_attacks_come_close_to_the_sensitivity(query, neighbours):
    """An attack that moves the sum little finds nothing: some pair must move it nearly fully."""
    noise = Discrete(1.0, neighbours, 100.0)
    moved = [
        audit_release(query, noise, pair.data, pair.neighbour, 2).share
        for pair in attacks(neighbours)
    ]
    if isinstance(query, BoundedQuery) and query.whitened:
        # Where a whitened record moves most: on the sphere beyond which it counts less. One factor
        # for all components makes that smaller by 2 log 2, and leaves that of the bound unused.
        w, means = query.weights, query.mixture.means
        q = w.radius**2 - 2 * np.log(2.0) * query.shared
        most = np.sqrt((w.w0**2 + w.w1**2 * q + w.w2**2 * q**2) / w.bound)
        reach = 0.1 * np.sqrt(q)
        shared, edge = means.repeat(5, axis=0), means[1] + [reach, 0.0]
        other = np.vstack([shared, means[0] + [0.0, reach]])
        other = shared if neighbours == "add-remove" else other
        share = audit_release(query, noise, np.vstack([shared, edge]), other, 2).share
        assert share > 0.99 * most
        moved.append(share)
    assert max(moved) <= 1 + 1e-12
    if isinstance(query, CountQuery) and neighbours == "replace-one":
        return  # unweighted records, one for another: nothing to move
    assert max(moved) > 0.7


def test_an_exact_mechanism_at_its_claim_is_not_accused():
    """The count moves by its sensitivity, and the rounding widens it by next to nothing."""
    X = np.zeros((20, 1))
    found = audit_release(CountQuery(), Discrete(1.0, "add-remove", 100.0), X, X[1:], 50_000)
    assert not found.violated
    assert 0.85 < found.evidence.mu <= 1.0


@pytest.mark.parametrize("multiplier", [1.0, 4.0])
def test_half_the_noise_is_found_with_the_default_draws(multiplier, monkeypatch):
    original = Discrete._publish
    monkeypatch.setattr(
        Discrete,
        "_publish",
        lambda self, exact, spent: exact + (original(self, exact, spent) - exact) / 2,
    )
    X = np.zeros((20, 1))
    noise = Discrete(multiplier, "add-remove", 100.0)
    found = audit_release(CountQuery(), noise, X, X[1:])
    assert found.evidence.violated
    assert not found.too_far  # it took the draws to see it


def test_half_the_noise_is_found_at_epsilon_one():
    """The claim of a fit at (1, 1e-6), in one release: the default draws are enough."""
    mu = mu_at(1.0, 1e-6)
    rng = np.random.default_rng(5)
    samples = {"x": (rng.normal(2 * mu, 1, 100_000), rng.normal(0, 1, 100_000))}
    assert judge(samples, Claim(mu=mu)).violated


def test_correct_fits_are_not_accused():
    pair = attacks("add-remove", d=1, finite=True)[0]
    for name in ("GaussianMixture", "KMeans", "FactorAnalysis"):
        found = audit_fit(lambda n=name: tiny(n), pair.data, pair.neighbour, fits=20)
        assert not found.violated, found.finding()


def test_a_fit_with_too_little_noise_is_found(monkeypatch):
    original = Discrete._publish
    monkeypatch.setattr(
        Discrete,
        "_publish",
        lambda self, exact, spent: exact + (original(self, exact, spent) - exact) / 4,
    )
    pair = attacks("add-remove", d=1, finite=True)[0]
    found = audit_fit(
        lambda: tiny("FactorAnalysis"),
        pair.data,
        pair.neighbour,
        fits=160,
        statistic=lambda m: m.mean_[0],
    )
    assert found.violated
    assert found.evidence.epsilon > 0


def test_the_audits_formulas():
    """The auditor's own curve against a sum over a fine grid, and its inverses against itself."""
    x = np.linspace(-12, 12, 200_001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    shifted = np.exp(-((x - 0.7) ** 2) / 2) / math.sqrt(2 * math.pi)
    direct = np.trapezoid(np.maximum(shifted - math.exp(0.5) * density, 0), x)
    assert hockey_stick(0.7, 0.5) == pytest.approx(direct, abs=1e-7)
    assert epsilon_at(0.7, hockey_stick(0.7, 0.5)) == pytest.approx(0.5, rel=1e-9)
    assert hockey_stick(mu_at(0.3, 1e-5), 0.3) == pytest.approx(1e-5, rel=1e-6)
    assert math.isinf(epsilon_at(0.5, 1e-6, apart=1e-6))
    # The best test between Gaussians, and pure differential privacy, as trade-offs.
    assert float(Claim(mu=0.7).most(0.2)) == pytest.approx(float(ndtr(-0.8416212335729143 + 0.7)))
    assert float(Claim(pure=2.0).most(0.5)) == 1.0
    assert float(Claim(epsilon=1.0, delta=0.01, mu=50.0).most(0.1)) == pytest.approx(0.2818281828)


def test_an_audit_says_when_it_could_not_have_found_anything():
    pair = attacks("add-remove", d=1, finite=True)[0]
    found = audit_fit(lambda: tiny("FactorAnalysis"), pair.data, pair.neighbour, fits=10)
    assert found.evidence.reach < found.evidence.claimed_mu
    assert "too few fits" in found.finding().detail
    samples = {"x": (np.ones(1000), np.zeros(1000))}
    found = judge(samples, Claim(mu=1.0))
    assert found.mu == pytest.approx(found.reach)
    assert found.violated


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="at least two draws"):
        judge({"x": ([1.0], [1.0])}, Claim(mu=1.0))
    with pytest.raises(ValueError, match="nothing to look at"):
        audit_fit(lambda: None, np.zeros((2, 1)), np.zeros((1, 1)), transcript=False)
    with pytest.raises(ValueError, match="neighbours must be one of"):
        attacks("bounded")
