"""Bugs of privacy-math.md, planted one by one: noise, and reading the data past the releases."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from privem import GaussianMixture, KMeans
from privem.audit import (
    Dataset,
    attacks,
    audit_release,
    check_fork,
    check_lattice,
    check_noise,
    structure_checks,
)
from privem.audit.battery import tiny
from privem.audit.fits import watched_fit
from privem.data.table import People
from privem.estimator import base
from privem.noise.discrete import Discrete
from privem.noise.sampler import (
    InsecureEntropyWarning,
    discrete_gaussian,
    insecure_seeded_entropy_for_tests,
)

PRIVATE = {"epsilon": 4.0, "bounds": (-1.0, 1.0), "n_iter": 2, "random_state": 0, "n_jobs": 1}


def pair_named(name, neighbours="add-remove", d=2):
    return next(pair for pair in attacks(neighbours, d) if pair.name == name)


def two_clusters(d=1):
    return pair_named("outlier at the bound", d=d).data


def failures(report):
    return {finding.name for finding in report.failures}


# -- Noise -----------------------------------------------------------------------------------------


class EmptyBare(Discrete):
    """What is empty is published as it is."""

    def _publish(self, exact, spent):
        return np.where(exact == 0, 0.0, super()._publish(exact, spent))


def test_empty_component_without_noise(make_query):
    query, noise = make_query("k-means joint"), EmptyBare(1.0, "add-remove", 100.0)
    pair = pair_named("empty component")
    assert "too little noise" in check_noise(query, noise, pair.neighbour).detail
    found = audit_release(query, noise, pair.data, pair.neighbour, 2000)
    assert found.evidence.violated
    assert "equals" in found.evidence.event


class OneSided(Discrete):
    def _publish(self, exact, spent):
        rounded = np.rint(exact / spent.grid) * spent.grid
        return rounded + np.abs(super()._publish(exact, spent) - rounded)


def test_one_sided_noise(make_query):
    query, noise = make_query("count"), OneSided(1.0, "add-remove", 100.0)
    pair = pair_named("outlier at the bound")
    assert "one-sided" in check_noise(query, noise, pair.data).detail
    found = audit_release(query, noise, pair.data, pair.neighbour, 3000)
    assert found.evidence.violated
    assert found.evidence.mu > 2 * found.evidence.claimed_mu


class Unrounded(Discrete):
    def _publish(self, exact, spent):
        return exact + discrete_gaussian(spent.steps**2, exact.size, self.entropy) * spent.grid


def test_integer_noise_on_an_unrounded_sum(make_query):
    query, noise = make_query("moments"), Unrounded(1.0, "add-remove", 100.0)
    pair = pair_named("duplicated record")
    found = audit_release(query, noise, pair.data, pair.neighbour, 400)
    assert found.evidence.violated
    assert "low bits" in found.evidence.event


def test_unrounded_and_floating_point_noise_leave_the_lattice(monkeypatch):
    rng = np.random.default_rng(0)

    def continuous(self, exact, spent):
        return exact + rng.normal(0.0, spent.scale, exact.shape)

    for publish in (Unrounded._publish, continuous):
        monkeypatch.setattr(Discrete, "_publish", publish)
        _, transcript = watched_fit(tiny("KMeans"), two_clusters())
        assert "off its grid" in check_lattice(transcript).detail
        assert "lattice" in failures(structure_checks(tiny("KMeans"), two_clusters()))


class OneForAll(Discrete):
    """One draw, added to every number."""

    def _publish(self, exact, spent):
        noise = discrete_gaussian(spent.steps**2, 1, self.entropy)
        return (np.rint(exact / spent.grid) + noise) * spent.grid


def test_noise_reused_across_leaves(make_query, monkeypatch):
    pair = pair_named("outlier at the bound")
    noise = OneForAll(1.0, "add-remove", 100.0)
    detail = check_noise(make_query("mixture whitened"), noise, pair.data).detail
    assert "the same noise in two numbers" in detail
    # Groups drawn apart but from the same bytes: seen in the fit itself.
    monkeypatch.setattr(Discrete, "_publish", OneForAll._publish)
    report = structure_checks(tiny("KMeans"), two_clusters())
    assert {"noise of k-means 1", "noise of k-means 2"} <= failures(report)


def test_noise_reused_between_releases(monkeypatch):
    """Every release begins the stream anew."""

    def again(self, exact, spent):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureEntropyWarning)
            entropy = insecure_seeded_entropy_for_tests(7)
        noise = discrete_gaussian(spent.steps**2, exact.size, entropy)
        return (np.rint(exact / spent.grid) + noise) * spent.grid

    monkeypatch.setattr(Discrete, "_publish", again)
    report = structure_checks(tiny("KMeans"), two_clusters())
    assert "noise of the fit itself" in failures(report)
    assert any("the same noise again" in f.detail for f in report.failures)


def test_noise_reused_across_fork(make_query):
    pair = pair_named("outlier at the bound")
    with pytest.warns(InsecureEntropyWarning):
        entropy = insecure_seeded_entropy_for_tests(3)
    seeded = Discrete(1.0, "add-remove", 100.0, entropy)
    found = check_fork(make_query("moments"), seeded, pair.data)
    assert not found.passed
    assert found.detail == "16 of 16 numbers alike in parent and child"


def test_the_operating_system_gives_a_child_its_own_noise(make_query):
    pair = pair_named("outlier at the bound")
    noise = Discrete(1.0, "add-remove", 100.0)
    assert check_fork(make_query("moments"), noise, pair.data).passed


def test_a_price_that_overstates_the_noise(make_query):
    class Boastful(Discrete):
        def _publish(self, exact, spent):
            return super()._publish(exact, replace(spent, steps=spent.steps // 2))

    pair = pair_named("outlier at the bound")
    for name in ("moments", "k-means dplloyd"):
        detail = check_noise(make_query(name), Boastful(1.0, "add-remove", 100.0), pair.data).detail
        assert "too little noise" in detail


# -- Reading the data past the releases: replay ----------------------------------------------------


class BoundRead(GaussianMixture):
    def fit(self, X, y=None, *, sample_weight=None, groups=None):
        self.bounds = (X.min(axis=0), X.max(axis=0))
        return super().fit(X, sample_weight=sample_weight, groups=groups)


class StartRead(KMeans):
    def fit(self, X, y=None, *, sample_weight=None, groups=None):
        self.init = X[:2]
        return super().fit(X, sample_weight=sample_weight, groups=groups)


class WeightRead(GaussianMixture):
    def fit(self, X, y=None, *, sample_weight=None, groups=None):
        share = np.clip(np.mean(X[:, 0] > 0), 0.1, 0.9)
        self.weights_init = [share, 1 - share]
        self.means_init = np.vstack([np.full(X.shape[1], 0.5), np.full(X.shape[1], -0.5)])
        self.precisions_init = np.stack([np.eye(X.shape[1])] * 2)
        return super().fit(X, sample_weight=sample_weight, groups=groups)


class ClusterCountRead(KMeans):
    """The centres are right; they are then weighed by the true number of records in each."""

    def fit(self, X, y=None, *, sample_weight=None, groups=None):
        super().fit(X, sample_weight=sample_weight, groups=groups)
        counts = np.bincount(self.predict(X), minlength=2)
        self.cluster_centers_ = self.cluster_centers_ / (counts[:, None] + 1.0)
        return self


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("culprit", [BoundRead, StartRead, WeightRead, ClusterCountRead])
def test_what_is_read_from_the_data_shows_in_the_replay(culprit, neighbours):
    estimator = culprit(2, **{**PRIVATE, "neighbours": neighbours})
    assert "replay" in failures(structure_checks(estimator, two_clusters(), repeats=60))


def test_true_number_of_records_in_a_division(monkeypatch):
    """Under add-remove nobody knows n; a plan that divides by it is found out."""
    monkeypatch.setattr(People, "public_count", lambda self, neighbours: float(self.count))
    for name in ("GaussianMixture", "KMeans", "FactorAnalysis"):
        assert "replay" in failures(structure_checks(tiny(name), two_clusters(), repeats=60))


def test_a_query_that_knows_the_data_shows_in_the_replay(monkeypatch):
    """Nothing public changes but a question: the frame is set by the first record."""
    original = base.Estimator._region

    def peeking(self, d):
        region = original(self, d)
        return replace(region, centre=region.centre + 1e-9 * self._first)

    monkeypatch.setattr(base.Estimator, "_region", peeking)
    opened = base.Estimator._open_table

    def remember(self, X, *more):
        self._first = float(X[0, 0])
        return opened(self, X, *more)

    monkeypatch.setattr(base.Estimator, "_open_table", remember)
    report = structure_checks(tiny("KMeans"), two_clusters(), repeats=60)
    detail = next(finding.detail for finding in report.failures if finding.name == "replay")
    assert "questions" in detail


def test_replay_takes_any_other_data():
    other = Dataset(np.random.default_rng(0).normal(size=(7, 1)))
    assert structure_checks(tiny("KMeans"), two_clusters(), other, repeats=60).passed
