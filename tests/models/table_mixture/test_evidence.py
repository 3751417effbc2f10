"""What tables say of dependence, before anything is fitted."""

import numpy as np
import pytest

from privem.models.table_mixture.bins import Bins
from privem.models.table_mixture.evidence import _VARIANCE, Evidence, _alike, _Excess, _moves
from privem.models.table_mixture.fitting import independent

from .test_fitting import fitted, records, releases


def shuffled(n: int, seed: int) -> np.ndarray:
    """Records with the same marginals, whose columns are independent."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(column) for column in records(n, seed).T], axis=1)


@pytest.mark.parametrize("target", [None, 3])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_classes_differ_as_much_as_the_tables_show(target, spread):
    found = {
        make: Evidence.of(*releases(make(3_000, 0), spread, target=target), 3_000.0).variance(10)
        for make in (records, shuffled)
    }
    assert found[records] == _VARIANCE
    assert found[shuffled] < 0.5


@pytest.mark.parametrize("values", [1, 3])
def test_noise_and_chance_explain_what_they_do(values):
    """Tables of independent columns have no excess on average, with the deviation that is said.

    The mean of 400 is five deviations from zero with a probability below 1e-6.
    """
    rng, n, spread = np.random.default_rng(0), 500, 0.01
    usual = np.einsum("v,i,j->vij", *(rng.dirichlet(np.ones(m)) for m in (values, 4, 5)))
    found = []
    for _ in range(400):
        counts = rng.multinomial(n, usual.ravel()).reshape(usual.shape) / n
        noisy = counts + spread * rng.normal(size=usual.shape)
        margins = counts.sum((1, 2)), counts.sum((0, 2)), counts.sum((0, 1))
        found.append(_Excess.of(noisy, *margins, spread, n, 1.0))
    excess = np.array([each.found for each in found])
    assert abs(excess.mean()) < 5 * excess.std() / 20
    assert np.sqrt(found[0].variance) == pytest.approx(excess.std(), rel=0.5)


def test_log_odds_move_probabilities_as_much_as_is_said():
    """The mean of 20,000 draws, small enough for probabilities to move in proportion."""
    rng, bins = np.random.default_rng(0), Bins(np.arange(7), np.ones(7), 6)
    law, alike = rng.dirichlet(np.ones(7)), _alike(bins)
    odds = np.log(law) + 1e-3 * rng.multivariate_normal(np.zeros(7), alike, 20_000)
    laws = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    found = np.sum((laws - law) ** 2, axis=1) * 1e6
    error = 5 * found.std() / np.sqrt(len(found))
    assert found.mean() == pytest.approx(_moves(law, alike), abs=error)


def test_independent_columns_stay_independent():
    """With a prior that knows nothing of the excess, 0.033 is lost."""
    X, test = shuffled(2_000, 0), shuffled(5_000, 1)
    bins, cells, tables = releases(X, 20.0)
    state = fitted(bins, cells, tables, 2_000.0, 0, 12, 2)
    single = independent(bins, cells, 2_000.0)
    lost = single.log_density(test).mean() - state.log_density(test).mean()
    assert lost < 0.02
    for i, j in ((0, 1), (2, 4)):
        product = np.outer(state.marginal(i), state.marginal(j))
        assert np.abs(state.marginal(i, j) - product).sum() / 2 < 0.03
