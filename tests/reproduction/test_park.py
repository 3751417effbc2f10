"""Park et al. 2016 and 2017: what would be wrong without anybody seeing it."""

from __future__ import annotations

import math
import sys
from importlib import import_module

import numpy as np
import pytest

from privem.accounting import Composed, Gaussian, epsilon


@pytest.fixture(scope="module")
def papers(root):
    """Both folders, imported as the runner imports them."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "experiments"))
        yield lambda name: import_module(name)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("park2016", "park2017", "reproduction"):
                del sys.modules[name]


@pytest.mark.parametrize(
    ("composition", "accountant"), [("zCDP", "zcdp-loose"), ("moments", "moments")]
)
def test_printed_noise_is_that_of_the_librarys_accountants(papers, composition, accountant):
    noise = papers("park2017.printed").multiplier(composition, 1.0, 1e-4, 420, 1e-6)
    spent = epsilon(Composed(((Gaussian(noise), 420),)), 1e-4, accountant)
    assert spent == pytest.approx(1.0, rel=1e-6)


def test_moments_of_few_orders_may_not_exist(papers):
    noise = papers("park2017.printed").multiplier
    assert math.isinf(noise("moments", 0.1, 1e-4, 420, 1e-6, 32))
    assert math.isfinite(noise("moments", 0.5, 1e-4, 420, 1e-6, 32))


def test_budget_of_cdp_is_what_its_releases_spend(papers):
    printed, spending = papers("park2016.printed"), papers("park2016.spending")
    share = printed.cdp_share(0.9, 10, 7, 0, 1.0)
    assert 10 * 7 * share**2 / 2 == pytest.approx(0.9)
    told = spending.cdp_epsilon(0.9, 1e-4)
    assert told == pytest.approx(spending.laplace_epsilon(share, 70, 1e-4), rel=1e-6)
    # No more than the simple conversion.
    assert told < 0.9 + 2 * math.sqrt(0.9 * math.log(1e4))


def test_printed_methods_without_noise_are_em_and_lloyd(papers):
    printed, rng = papers("park2016.printed"), np.random.default_rng(0)
    centres = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.2, -0.4]])
    X = centres[rng.integers(3, size=3000)] + 0.05 * rng.normal(size=(3000, 2))
    found = printed.mixture(X, 3, 20, 1e9, rng, "spherical", start=centres + 0.05)
    np.testing.assert_allclose(found.means, centres, atol=0.01)
    np.testing.assert_allclose(found.covariances[:, 0, 0], 0.0025, rtol=0.15)
    assert np.allclose(printed.kmeans(X, centres + 0.05, 5, 1e9, rng), centres, atol=0.01)
    assert np.allclose(printed.dplloyd(X, centres + 0.05, 5, 1e-9, rng), centres, atol=0.01)


def test_a_guesser_without_knowledge_has_no_advantage(papers):
    advantage, rng = papers("park2016.leaks").advantage, np.random.default_rng(1)
    apart = np.linspace(1, 2, 200)
    assert advantage(apart, apart + 5) >= 0.99
    # 2,000 guesses of each kind: six deviations are 0.13.
    assert abs(advantage(rng.normal(size=4000), rng.normal(size=4000))) < 0.15


def test_needed_records_are_interpolated(papers):
    rows = papers("reproduction").Rows(
        {"n": n, "method": method, "score": score}
        for n, lost in ((100, 1.0), (10_000, 0.0))
        for method, score in (("exact EM", 0.0), ("slow", -lost))
    )
    assert papers("park2016.run")._needed(rows, "slow") == pytest.approx(100 * 100**0.9)
    assert papers("park2016.run")._needed(rows, "exact EM") == 0.0


def peers(spent):
    return [
        {"data": "S1", "epsilon": None, "method": "scikit-learn", "nicv": 0.5},
        *(
            {
                "data": "S1",
                "epsilon": epsilon,
                "repetition": i,
                "method": method,
                "nicv": value + i / 100,
                "spent": spent * epsilon,
            }
            for epsilon in (0.1, 1.0)
            for i in range(3)
            for method, value in (("privem", 1 / epsilon), ("another", 2.0))
        ),
    ]


def test_peers_are_judged_at_every_budget_and_may_not_overspend(papers):
    run, Rows = papers("park2017.run"), papers("reproduction").Rows
    found = run.peers_judge(Rows(peers(0.99)))["S1"]
    assert found.verdict == "does not hold"
    assert "Ahead in 1 of 2 budgets" in found.reason
    assert "99.0%" in found.reason
    with pytest.raises(ValueError, match=r"spends 1\.1 times"):
        run.peers_judge(Rows(peers(1.1)))


def test_tables_of_peers_have_a_column_for_each_budget(papers):
    table = papers("park2017.run").peers_table(papers("reproduction").Rows(peers(1.0)))
    assert table == [
        ["data", "method", "epsilon 0.1", "epsilon 1", "not private"],
        ["S1", "scikit-learn", "", "", "0.5"],
        ["S1", "privem", "10 (10 to 10)", "1.01 (1 to 1.02)", ""],
        ["S1", "another", "2.01 (2 to 2.02)", "2.01 (2 to 2.02)", ""],
    ]
