"""PoissonMixture: exact, private, by person, federated, at the command line, and sampled from."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy.stats import poisson

import privem
from privem import PoissonMixture
from privem.audit import audit_model_file
from privem.cli import app
from privem.federation import Federation, Party
from privem.models.poisson_mixture import plan
from privem.models.poisson_mixture.model import Poissons
from privem.models.poisson_mixture.start import Restarts, from_grid, useless

RATES = np.array([[1.0, 4.0, 8.0], [9.0, 2.0, 3.0]])


def counts(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(RATES[(rng.random(n) < 0.4).astype(int)])


def in_order(model: PoissonMixture) -> np.ndarray:
    return model.rates_[model.rates_[:, 0].argsort()]


def test_an_exact_fit_is_a_fixed_point_of_em_written_anew():
    X = counts(3000)
    model = PoissonMixture(2, epsilon=None, tol=1e-13, max_iter=2000).fit(X)
    assert model.converged_
    densities = np.stack([poisson.pmf(X, rates).prod(axis=1) for rates in model.rates_])
    joint = model.weights_[:, None] * densities
    share = joint / joint.sum(axis=0)
    assert np.allclose(share.mean(axis=1), model.weights_, atol=1e-6)
    assert np.allclose(share @ X / share.sum(axis=1)[:, None], model.rates_, atol=1e-5)
    assert np.allclose(model.predict_proba(X), share.T, atol=1e-9)
    assert np.allclose(model.score_samples(X), np.log(joint.sum(axis=0)), atol=1e-9)
    assert model.lower_bound_ == pytest.approx(model.score(X), abs=1e-9)
    assert (model.predict(X) == share.argmax(axis=0)).all()


def test_weights_repeat_records():
    X, weight = counts(400), np.random.default_rng(1).integers(0, 4, 400)
    kwargs = {"epsilon": None, "tol": 1e-12, "max_iter": 500}
    weighted = PoissonMixture(2, **kwargs).fit(X, sample_weight=weight)
    repeated = PoissonMixture(2, **kwargs).fit(np.repeat(X, weight, axis=0))
    assert np.allclose(weighted.rates_, repeated.rates_, rtol=1e-6)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_private_fit_finds_the_rates(neighbours, tmp_path):
    """Noise of a rate is below 0.05 here: the limit is more than 10 deviations away."""
    model = PoissonMixture(2, bounds=(0, 40), neighbours=neighbours, random_state=0)
    model.fit(counts(40_000))
    assert np.abs(in_order(model) - RATES).max() < 0.5
    assert model.structure_ == "full"
    assert 0.99 < model.privacy_.spent <= 1.0
    assert audit_model_file(model.save(tmp_path / "m.json") and tmp_path / "m.json").passed
    assert np.array_equal(privem.load(tmp_path / "m.json").rates_, model.rates_)


def test_bounds_may_be_estimated():
    model = PoissonMixture(2, epsilon=4.0, random_state=0).fit(counts(40_000))
    low, high = model.bounds_
    assert (low >= 0).all()
    assert (high > RATES.max(axis=0)).all()
    assert np.abs(in_order(model) - RATES).max() < 1.0


def test_a_person_counts_once_however_many_rows():
    """One person with half of the rows moves a fit of persons no more than anyone."""
    X = np.concatenate([counts(4000), np.full((4000, 3), 40)])
    who = np.concatenate([np.arange(4000), np.full(4000, -1)])
    model = PoissonMixture(1, epsilon=4.0, bounds=(0, 40), random_state=0).fit(X, groups=who)
    assert model.privacy_.unit == "person"
    assert np.abs(model.rates_[0] - RATES.T @ [0.6, 0.4]).max() < 1.0


def test_too_few_records_are_said_and_one_rate_serves_all():
    model = PoissonMixture(3, epsilon=0.05, bounds=(0, 40), neighbours="replace-one")
    with pytest.warns(UserWarning, match="200 records are too few for 3 components"):
        model.fit(counts(200))
    assert model.structure_ == "single"
    assert (model.rates_ == model.rates_[0]).all()


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_parties_fit_what_one_holder_would(protection):
    X = counts(900).astype(float)
    kwargs = {"epsilon": None, "max_iter": 30, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops at max_iter
        alone = PoissonMixture(2, **kwargs).fit(X)
        parties = [Party(part, f"p{i}") for i, part in enumerate(np.array_split(X, 3))]
        shared = Federation(parties, protection=protection, bounds=(0, 60), rows=2000)
        together = PoissonMixture(2, **kwargs).fit(shared)
    assert np.allclose(together.rates_, alone.rates_, rtol=1e-6)


def test_parties_fit_privately():
    parties = [Party(part, f"p{i}") for i, part in enumerate(np.array_split(counts(30_000), 3))]
    federation = Federation(parties, protection="masked", rows=40_000)
    model = PoissonMixture(2, epsilon=2.0, bounds=(0, 40), random_state=0)
    model.fit(federation)
    assert np.abs(in_order(model) - RATES).max() < 0.5
    assert model.privacy_.parties


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [(10.0, 0, 10), ((-1, 5), 0, 5), ((0, 0.5), 0, 1), ((2, 1e12), 2, 1e9)],
)
def test_bounds_are_cut_to_where_counts_can_lie(bounds, low, high):
    model = PoissonMixture(1, bounds=bounds).fit(counts(500))
    assert model.bounds_[0].tolist() == [low] * 3
    assert model.bounds_[1].tolist() == [high] * 3
    assert f"[{low:g}, {high:g}]" in model.privacy_.public["bounds"]


def test_negative_values_are_refused_exactly_and_pulled_in_privately():
    X = counts(500).astype(float)
    X[3, 1] = -2
    with pytest.raises(ValueError, match="Negative values"):
        PoissonMixture(2, epsilon=None).fit(X)
    assert (PoissonMixture(1, bounds=(0, 40)).fit(X).rates_ >= 0).all()


def test_samples_have_the_rates_and_types():
    """50,000 draws: a mean is within 6 of its deviations, at most 0.02."""
    frame = pl.DataFrame(counts(5000), schema=["a", "b", "c"])
    model = PoissonMixture(2, epsilon=None, random_state=0).fit(frame)
    X, label = model.sample(50_000)
    assert X.dtype.kind == "i"
    for k in range(2):
        assert np.abs(X[label == k].mean(axis=0) - model.rates_[k]).max() < 0.15
    drawn = model.sample_frame(100)
    assert drawn.columns == ["a", "b", "c"]
    assert drawn.schema == frame.schema


def test_the_command_line_fits_and_samples(tmp_path):
    table, model = tmp_path / "visits.csv", tmp_path / "m.json"
    pl.DataFrame(counts(4000), schema=["a", "b", "c"]).write_csv(table)
    bounds = "--bound a=0:40 --bound b=0:40 --bound c=0:40"
    command = f"fit {table} --model poisson -k 2 {bounds} --seed 0 -o {model} --json"
    run = CliRunner().invoke(app, command.split())
    assert run.exit_code == 0, run.output
    assert len(json.loads(run.stdout)["parameters"]["rates"]) == 2
    run = CliRunner().invoke(app, f"sample {model} -n 20 -o {tmp_path / 's.csv'}".split())
    assert run.exit_code == 0, run.output
    assert pl.read_csv(tmp_path / "s.csv").shape == (20, 3)


def state_of(weights, rates, evidence, excess):
    return Poissons(*(np.array(part, dtype=float) for part in (weights, rates, evidence, excess)))


def test_what_is_of_no_use_takes_half_of_what_is_spread_too_far():
    rates = [[9.0, 9.0], [30.0, 1.0], [9.1, 9.0], [2.0, 20.0]]
    state = state_of([0.4, 0.3, 0.1, 0.2], rates, [9.0, 9.0, 9.0, 1.0], [0.1, 5.0, 0.0, 0.0])
    assert useless(state) == [2, 3]  # the rates of another one, and too few records
    path = Restarts(state, 20, np.random.default_rng(0))
    moved = path.step(1, state, state)
    # One of them goes to component 1, on the other side; nothing else is spread too far.
    assert (moved.rates[[0, 3]] == state.rates[[0, 3]]).all()
    np.testing.assert_allclose(moved.rates[1] + moved.rates[2], 2 * state.rates[1], atol=1.0)
    assert np.linalg.norm(moved.rates[1] - moved.rates[2]) > 1
    assert moved.weights[1] == moved.weights[2]
    assert moved.weights.sum() == pytest.approx(1)
    for t in (0, 8, 12):  # the first step, and where there is no time to settle
        assert path.step(t, state, state) is state


def test_a_component_that_covers_two_groups_is_split():
    """From a start in which two share one group: without restarts 10 of 10 fits stay there."""
    rng = np.random.default_rng(0)
    rates = np.array([[2.0, 20, 5, 9], [20.0, 2, 5, 9], [9.0, 9, 30, 1]])
    X = rng.poisson(rates[rng.integers(3, size=6000)])
    model = PoissonMixture(3, bounds=(0, 60), random_state=0, n_iter=20)
    bad = Poissons(
        np.full(3, 1 / 3), np.array([[9.0, 9, 30, 1], [9.1, 9, 30, 1], [11.0, 11, 5, 9]])
    )
    with pytest.MonkeyPatch.context() as patch:

        def from_bad(mean, covariance, k, ground, rng):
            yield from from_grid(mean, covariance, k, ground, rng)
            return bad

        patch.setattr(plan, "from_grid", from_bad)
        model.fit(X)
    assert np.abs(in_order(model) - rates[[0, 2, 1]]).max() < 1.0


def test_one_component_is_the_mean_however_far_records_spread():
    """Noise of a rate is below 0.1; squares are ten times what a Poisson's would be."""
    X = np.random.default_rng(0).poisson([[2.0, 5.0]] * 5000 + [[40.0, 5.0]] * 5000)
    model = PoissonMixture(1, bounds=(0, 80)).fit(X)
    assert np.abs(model.rates_[0] - X.mean(axis=0)).max() < 1.0
    assert model.structure_ == "full"
    assert model.n_iter_ == 2
