"""A fit ends with its plan or fails and leaves no trace; a private fit shows no times."""

import re
from typing import Any

import numpy as np
import pytest

from privem import GaussianMixture, KMeans
from privem.blocks.moments import FramePlan
from privem.cli.progress import FitProgress
from privem.core import Stage
from privem.federation.server.conversation import Conversation, Counters
from privem.federation.wire.messages import Request
from privem.run import run

from ..examples import every_model, fit, private

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 2))


class Interrupted(Exception):
    """What a user's Ctrl-C or a full disk would be."""


def interrupt(stage: Any, release: Any) -> None:
    raise Interrupted


@every_model
@pytest.mark.parametrize("epsilon", [1.0, None], ids=["private", "exact"])
def test_a_refit_that_fails_leaves_the_last_fit_as_it_was(declared: Any, epsilon: Any) -> None:
    rows, *target = declared.example().data
    model = fit(private(declared, epsilon=1.0), rows, *target)
    model.set_params(epsilon=epsilon)
    model._watch = interrupt
    before = dict(vars(model))
    with pytest.raises(Interrupted):
        fit(model, rows[:, :2], *target)
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    assert (model.n_features_in_, model.privacy_.epsilon) == (3, 1.0)


def test_a_first_fit_that_fails_leaves_nothing() -> None:
    model = GaussianMixture()
    model._watch = interrupt
    with pytest.raises(Interrupted):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]


class Leaking:
    """A source, and a transport, with a bug: an empty iterator's end gets out."""

    def release(self, stage: Stage) -> Any:
        return next(iter(()))

    def exchange(self, requests: Any) -> Any:
        return next(iter(()))


def test_an_iterator_that_ends_inside_a_source_does_not_end_the_fit() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(FramePlan(["a"]), Leaking())


def test_nor_does_one_inside_a_transport() -> None:
    def protocol() -> Any:
        yield {"clinic": b"question"}

    head = Request("federation", "run", "plan", 1, 0, b"", b"")
    with pytest.raises(RuntimeError, match="StopIteration"):
        Conversation(Leaking(), None, head, {}, Counters()).drive(protocol())


@pytest.mark.parametrize("kind", [GaussianMixture, KMeans])
def test_a_private_fit_prints_no_times(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = kind(2, bounds=5.0, n_iter=12, mechanism="whitened", verbose=2)
    model.fit(X)
    said = capsys.readouterr().out
    assert "Iteration 10" in said
    assert not re.search(r"\d s\b|seconds", said), said


def test_a_progress_bar_shows_times_of_exact_fits_only() -> None:
    def columns(timed: bool) -> set[str]:
        return {type(column).__name__ for column in FitProgress(9, False, timed)._bar.columns}

    assert columns(True) - columns(False) == {"TimeElapsedColumn"}


@pytest.mark.filterwarnings("always")
def test_advice_names_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="too few for 5 components") as caught:
        GaussianMixture(5, bounds=5.0).fit(X[:9])
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("error")
def test_advice_that_is_an_error_does_not_lose_what_was_paid_for() -> None:
    model = GaussianMixture(5, bounds=5.0)
    with pytest.raises(UserWarning, match="too few for 5 components"):
        model.fit(X[:9])
    assert model.privacy_.epsilon == 1.0
    assert model.means_.shape == (5, 2)
