"""Advice about too few records comes from the noisy count, which was paid for, and nothing else."""

import re
import warnings

import numpy as np

from privem import GaussianMixture


def _advice(neighbours: str) -> tuple[str, GaussianMixture]:
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = GaussianMixture(5, epsilon=0.1, bounds=5.0, neighbours=neighbours)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert model.structure_ == "single"
    return str(caught[0].message), model


def test_the_number_named_is_the_noisy_one() -> None:
    """At epsilon 0.1 the count's noise has a deviation above 300: 200 itself is unlikely.

    The advice of two fits differs though the data are the same (they agree with a probability below
    1e-3 each time; ten fits all alike: below 1e-27).
    """
    told = [re.match(r"about ([\d,]+) records are too few", _advice("add-remove")[0])]
    told += [re.match(r"about ([\d,]+) records", _advice("add-remove")[0]) for _ in range(9)]
    assert len({found.group(1) for found in told if found}) > 1


def test_a_public_number_is_named_as_it_is() -> None:
    text, _ = _advice("replace-one")
    assert text.startswith("200 records are too few for 5 components at epsilon=0.1")


def test_enough_records_bring_no_advice() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert GaussianMixture(2, epsilon=1.0, bounds=5.0).fit(X).structure_ == "full"


def test_one_component_is_no_news() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMixture(1, epsilon=0.1, bounds=5.0).fit(X)
