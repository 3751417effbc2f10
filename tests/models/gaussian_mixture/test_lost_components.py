"""Components that the noise swallows get another try, and never stay as ghosts."""

import numpy as np
import pytest

from privem import GaussianMixture
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.private_m_step import Estimate, Moments, halved, halves_of
from privem.models.gaussian_mixture.structure import as_type, replaced
from privem.run import Tape

COVARIANCES = {
    "full": np.stack([np.diag([4.0, 1.0, 0.5]), np.eye(3), np.eye(3)]),
    "tied": np.diag([4.0, 1.0, 0.5]),
    "diag": np.array([[4.0, 1.0, 0.5], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    "spherical": np.array([4.0, 1.0, 1.0]),
}
LOST = np.array([False, True, False])
HALVES = [(1, 0)]


def mixture(kind):
    means = np.array([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0], [-5.0, 0.0, 0.0]])
    return Mixture(kind, np.array([0.7, 0.02, 0.28]), means, COVARIANCES[kind])


def full(state, k):
    c = state.covariances
    match state.covariance_type:
        case "full":
            return c[k]
        case "tied":
            return c
        case "diag":
            return np.diag(c[k])
        case _:
            return c[k] * np.eye(3)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_halves_have_the_moments_of_the_whole(kind):
    before, after = mixture(kind), halved(mixture(kind), HALVES)
    assert np.allclose(after.weights, np.array([0.35, 0.35, 0.28]) / 0.98)
    halves = after.means[:2]
    assert np.allclose(halves.mean(axis=0), before.means[0])
    assert np.linalg.norm(halves[0] - halves[1]) > 1
    between = np.cov(halves.T, bias=True)
    within = (full(after, 0) + full(after, 1)) / 2
    if kind == "full" or kind == "diag":
        assert np.allclose(within + between, full(before, 0))
    elif kind == "spherical":
        assert np.isclose(np.trace(within + between), np.trace(full(before, 0)))
    for k in range(3):
        assert np.linalg.eigvalsh(full(after, k)).min() > 0
    assert np.array_equal(after.means[2], before.means[2])


@pytest.mark.parametrize("kind", COVARIANCES)
def test_copies_leave_the_density_of_the_others(kind):
    after = halved(mixture(kind), HALVES, apart=0.0)
    assert np.array_equal(after.means[1], after.means[0])
    assert np.array_equal(full(after, 1), full(after, 0))
    assert np.allclose(after.weights, np.array([0.35, 0.35, 0.28]) / 0.98)


def seen(often):
    """Where a fit stands that has seen its components so often."""
    state = mixture("full")
    moments = Moments(
        1000 * state.weights, state.means, state.covariances, np.full(3, 0.1), np.array(often), 0.01
    )
    estimate = Estimate(None, state, moments)
    vars(estimate)["mixture"] = state  # valid as it is
    return estimate


def test_noise_that_is_drawn_anew_restarts_nothing_else():
    """A component on the edge of being seen would jump, and its standard error be the jump."""
    tape = Tape()
    with tape.recording(None):
        first = seen([1.0, 0.0, 1.0]).restarted()
        kept = seen([1.0, 1.0, 1.0])
        assert kept.restarted() is kept
    with tape.playing(lambda release: release):
        assert seen([0.0, 1.0, 1.0]).restarted() is first
        other = seen([0.0, 1.0, 1.0])
        assert other.restarted() is other


OVERALL = Mixture("full", np.ones(1), np.array([[-1.0, 2.0, 0.0]]), 16.0 * np.eye(3)[None])


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_the_background_is_all_records_and_weighs_what_noise_hides(kind):
    before = mixture(kind)
    after = replaced(before, LOST, as_type(OVERALL, kind), 0.03)
    assert np.allclose(after.weights, [0.97 * 0.7 / 0.98, 0.03, 0.97 * 0.28 / 0.98])
    assert np.array_equal(after.means[1], OVERALL.means[0])
    assert np.array_equal(full(after, 1), OVERALL.covariances[0])
    for k in (0, 2):
        assert np.array_equal(after.means[k], before.means[k])
        assert np.array_equal(full(after, k), full(before, k))
    both = replaced(before, ~LOST, as_type(OVERALL, kind), 0.03)
    assert np.allclose(both.weights, [0.015, 0.97, 0.015])


def test_where_all_are_lost():
    before, every = mixture("full"), np.ones(3, dtype=bool)
    assert halved(before, halves_of(before.weights, every)) is before
    after = replaced(before, every, OVERALL, 0.03)
    assert np.array_equal(after.means, np.repeat(OVERALL.means, 3, axis=0))
    assert np.isclose(after.weights.sum(), 1)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_nobody_lives_where_nobody_is(kind):
    """A start in an empty corner: its component ends where records are.

    Of a lost component nothing is left but the start, so this has no chance in it, save that of
    noise which makes 0 of 20,000 records look like more than two of its deviations in most of the
    last iterations.
    """
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 0.5, (10_000, 2)), rng.normal(2, 0.5, (10_000, 2))])
    start = np.array([[-2.0, -2.0], [9.0, -9.0]])
    precisions = {"full": np.stack([np.eye(2)] * 2), "tied": np.eye(2), "diag": np.ones((2, 2))}
    model = GaussianMixture(
        2,
        covariance_type=kind,
        epsilon=5.0,
        bounds=10.0,
        weights_init=[0.5, 0.5],
        means_init=start,
        precisions_init=precisions.get(kind, np.ones(2)),
    ).fit(X)
    assert np.abs(model.means_).max() < 3.5
    assert model.score(X) > -3.0
