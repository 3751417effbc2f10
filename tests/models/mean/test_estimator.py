"""private_mean: what it returns, how far it is off, what it refuses."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

from privem import PrivateMean, private_mean
from privem.audit import recount
from privem.blocks.robust_mean import best_clip, bias_bound, papers_scale
from privem.data import read_file

pandas = pytest.importorskip("pandas")
METHODS = ("auto", "theorem 2", "lemma 1")


def heavy(n, d=None, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_t(3, size=n if d is None else (n, d)) + 1.0


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d", [None, 3])
def test_close_to_the_truth(d, method, neighbours):
    x = heavy(50_000, d)
    mean = private_mean(x, tau=4.0, method=method, neighbours=neighbours)
    sampling = 6 * np.sqrt(3 * (d or 1) / 50_000)
    # Six deviations of everything and the proved bias: fails less than once in a million.
    noise = 6 * np.linalg.norm(mean.deviation)
    assert np.linalg.norm(np.asarray(mean) - 1.0) < noise + mean.bias + sampling
    assert mean.privacy.spent <= 1.0
    assert recount(mean.privacy).passed
    assert len(mean.privacy.releases) == (2 if neighbours == "add-remove" else 1)


def test_scale_and_place_are_found():
    x = 1e6 + 50.0 * heavy(30_000, 2)
    mean = private_mean(x, epsilon=2.0)
    assert np.abs(mean.value - (1e6 + 50)).max() < 20
    assert recount(mean.privacy).passed


def test_the_deviation_is_that_of_all_noise():
    """Far from the centre most of it comes from the count. False alarms: 2e-7."""
    x = np.full(500, 3.0)
    means = [private_mean(x, tau=10.0, epsilon=4.0) for _ in range(80)]
    z = np.array([(mean.value - 3.0) / mean.deviation for mean in means])
    assert chi2.ppf(1e-7, 80) < np.sum(z**2) < chi2.ppf(1 - 1e-7, 80)


def test_what_is_returned():
    x = heavy(5000)
    one = private_mean(x, tau=4.0)
    assert isinstance(one, PrivateMean)
    assert isinstance(one.value, float)
    assert float(one) == one.value == one[0]
    assert isinstance(one.deviation, float)
    many = private_mean(heavy(5000, 3), tau=[4.0, 4.0, 5.0], centre=[1.0, 0.0, 1.0])
    assert np.asarray(many).shape == (3,)
    assert np.asarray(many, dtype=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match="there are 3 numbers"):
        float(many)
    with pytest.raises(KeyError, match="no column 'a'"):
        many["a"]
    assert list(many.to_dict()) == ["0", "1", "2"]
    assert "centre 1, 0, 1" in str(many.privacy)


def test_frames_columns_and_files(tmp_path):
    x = heavy(4000, 2)
    frame = pl.DataFrame({"age": x[:, 0], "height": x[:, 1]})
    frame.write_parquet(tmp_path / "x.parquet")
    for given in (
        frame,
        pandas.DataFrame(x, columns=["age", "height"]),
        tmp_path / "x.parquet",
        read_file(tmp_path / "x.parquet"),
    ):
        mean = private_mean(given, tau=4.0, epsilon=5.0)
        assert mean.names == ("age", "height")
        assert mean["height"] == mean.value[1]
        assert abs(mean["age"] - 1.0) < 0.5
    for column in (frame["age"], pandas.Series(x[:, 0], name="age"), frame.select("age")):
        mean = private_mean(column, tau=4.0, epsilon=5.0)
        assert mean.names == ("age",)
        assert abs(float(mean) - 1.0) < 0.5


def test_persons():
    x = np.repeat([0.0, 10.0], [900, 100])
    groups = np.concatenate([np.zeros(900), np.arange(1, 101)])
    mean = private_mean(x, tau=100.0, epsilon=50.0, groups=groups)
    # One person has nine records in ten, and counts once.
    assert float(mean) > 8.0
    assert mean.privacy.unit == "person"


def test_outliers_and_infinities_are_pulled_in():
    x = heavy(20_000)
    x[:3] = [np.inf, -np.inf, 1e308]
    for method in METHODS:
        mean = private_mean(x, tau=4.0, method=method)
        assert abs(float(mean) - 1.0) < 0.3


def test_small_and_odd_inputs():
    assert np.isfinite(float(private_mean(np.array([]), tau=1.0)))
    assert np.isfinite(float(private_mean([3], tau=10.0)))
    assert np.isfinite(float(private_mean(np.zeros(50, dtype=bool), tau=1.0)))
    x32 = heavy(5000).astype(np.float32)
    assert abs(float(private_mean(x32, tau=4.0, epsilon=5.0)) - 1.0) < 0.4


BAD = [
    ({"tau": 0.0}, "tau must be above 0"),
    ({"tau": -1.0}, "tau must be above 0"),
    ({"tau": [1.0, 2.0]}, "one per column"),
    ({"tau": np.nan}, "tau must be finite"),
    ({"centre": "middle"}, "centre must be a number"),
    ({"epsilon": 0.0}, "epsilon must be above 0"),
    ({"delta": 1.0}, "delta must be below 1"),
    ({"method": "mean"}, "method must be one of"),
    ({"failure": 1.5}, "failure is a probability"),
    ({"trust": "none"}, "trust must be one of"),
    ({"trust": "local"}, "needs tau"),
    ({"trust": "local", "tau": 1.0, "groups": [0] * 9}, "has no groups"),
    ({"neighbours": "near"}, "neighbours must be one of"),
    ({"groups": [1, 2]}, "groups has shape"),
]


@pytest.mark.parametrize(("given", "complaint"), BAD, ids=str)
def test_bad_parameters_cost_nothing(given, complaint, monkeypatch):
    monkeypatch.setattr("privem.fit.run", lambda *a: pytest.fail("it ran"))
    with pytest.raises((ValueError, TypeError), match=complaint):
        private_mean(np.ones(9), **given)


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        (np.array([1.0, np.nan]), "contains NaN"),
        (["a", "b"], "x must be numbers"),
        (np.ones((2, 2, 2)), "one or two dimensions"),
        (np.ones((3, 0)), "no columns"),
        (pl.DataFrame({"a": ["x"]}), "could not convert column"),
    ],
)
def test_bad_values(x, complaint):
    with pytest.raises(ValueError, match=complaint):
        private_mean(x, tau=1.0)


def test_the_bounds_on_bias_hold_where_they_are_tight():
    """The worst distribution for a ball: a rare point twice as far out as the ball."""
    for p in (1, 4):
        clip = best_clip(1.0, 1e4, 5.0, p, 1.0)
        far = 2 * clip.radius
        share = p / far**2  # so that every coordinate's second moment is one
        lost = share * (far - clip.radius)
        assert lost == pytest.approx(bias_bound(clip, 1.0, p))
    # And by simulation for the papers' truncation: the proved bias is never exceeded.
    from privem.kernels.robust import smoothed_truncation

    robust = papers_scale("theorem 2", 1.0, 100.0, 1.0, 1e-6, 0.05)
    for far in np.logspace(-1, 2, 60):
        share = min(1.0, 1 / far**2)
        a = np.array([far / robust.scale])
        kept = robust.scale * float(smoothed_truncation(a, a / np.sqrt(robust.beta))[0])
        assert share * (far - kept) <= bias_bound(robust, 1.0, 1)


def test_half_the_best_ball_costs_a_quarter_at_most():
    for noise in (1e-4, 1e-2):
        clip = best_clip(1.0, 1.0, noise, 3, 1.0)

        def proved(radius, noise=noise):
            return 3 / (4 * radius) + np.sqrt(3) * noise * radius

        least = min(proved(r) for r in np.logspace(-2, 4, 4000))
        assert proved(clip.radius) <= 1.2501 * least
