"""Recounting: from the saved statement alone, without the accountants."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from privem import GaussianMixture, KMeans
from privem.audit import audit_model_file, recount
from privem.audit.battery import tiny
from privem.core import Spent
from privem.meter import ReleaseRecord, Statement

X = np.linspace(-1, 1, 60)[:, None] * np.ones(2)
SOUND = Spent("count", "gaussian", 1, 1.0, 0.0, 2.0**-21, 2**24)


def statement(group, epsilon=0.6, **more):
    record = ReleaseRecord("count", (group,))
    made = Statement(epsilon, 1e-6, epsilon, "record", "add-remove", "auto", (record,))
    return replace(made, **more)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("name", ["GaussianMixture", "KMeans", "FactorAnalysis"])
def test_every_estimators_statement_adds_up(name, epsilon, neighbours):
    model = tiny(name, epsilon=epsilon, neighbours=neighbours, delta=1e-5).fit(X)
    found = recount(model.privacy_)
    assert found.passed, found
    assert found.recounted == pytest.approx(model.privacy_.spent, rel=1e-5)


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "rdp", "pld", "moments", "advanced"])
def test_every_accountant_covers_the_recount(accountant):
    model = tiny("KMeans", epsilon=1.0, accountant=accountant).fit(X)
    assert recount(model.privacy_).passed


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianMixture(2, mechanism="ggg", epsilon=1.0, bounds=(-1, 1), n_iter=2),
        GaussianMixture(2, mechanism="llg", epsilon=1.0, bounds=(-1, 1), n_iter=2),
        GaussianMixture(2, mechanism="laplace", epsilon=1.0, bounds=(-1, 1), n_iter=2),
        KMeans(2, mechanism="ll", epsilon=1.0, bounds=(-1, 1), n_iter=2),
        KMeans(2, mechanism="dplloyd", accountant="linear", epsilon=1.0, bounds=(-1, 1), n_iter=2),
        KMeans(2, mechanism="ll", accountant="pld", epsilon=1.0, bounds=(-1, 1), n_iter=2),
    ],
    ids=["ggg", "llg", "laplace", "ll", "dplloyd", "ll-pld"],
)
def test_laplace_noise_adds_up_too(estimator):
    found = recount(estimator.fit(X).privacy_)
    assert found.passed, found


def test_it_does_not_use_the_accountants():
    """Imported alone, the recount must not pull in the code it checks the work of."""
    import privem.audit.curves
    import privem.audit.recount

    for module in (privem.audit.curves, privem.audit.recount):
        names = vars(module).values()
        used = {getattr(value, "__module__", "") or "" for value in names}
        assert not any("privem.accounting" in name for name in used)
    assert "privem.accounting" in sys.modules  # it is there, by way of the estimators; not used


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sensitivity": 0.0}, "sensitivity is 0"),
        ({"sensitivity": -1.0}, "sensitivity is -1"),
        ({"slack": -0.1}, "slack is"),
        ({"grid": 3e-7}, "no power of two"),
        ({"grid": 0.0}, "no power of two"),
        ({"steps": 2**20}, "below 2^24"),
        ({"kind": "none"}, "kind is 'none'"),
        ({"dimension": 0}, "dimension is 0"),
    ],
)
def test_what_cannot_be_a_release_is_refused(change, complaint):
    report = recount(statement(replace(SOUND, **change), 50.0)).report
    assert any(complaint in finding.detail for finding in report.failures), report


def test_too_small_an_epsilon_is_refused():
    assert recount(statement(SOUND)).passed
    assert not recount(statement(SOUND, epsilon=0.5)).passed
    assert not recount(statement(SOUND, spent=0.4)).passed
    assert not recount(statement(SOUND, failure=1e-6)).passed
    assert not recount(statement(SOUND, releases=())).passed
    assert not recount(statement(SOUND, unit="household")).passed
    # The same release twice costs more than once.
    twice = statement(SOUND).releases * 2
    assert not recount(statement(SOUND, releases=twice)).passed


def test_half_the_sensitivity_is_not_something_a_recount_can_see():
    """It believes the sensitivities; those are the business of proofs, draws and distances."""
    assert recount(statement(replace(SOUND, sensitivity=0.5))).passed


@pytest.fixture
def model_file(tmp_path):
    """A model file as it is saved, statement included."""
    model = tiny("KMeans", epsilon=1.0).fit(X)
    parameters = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove"}
    attributes = {"privacy_": model.privacy_.to_dict()}
    content = {"format": "privem-model", "parameters": parameters, "attributes": attributes}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    return path


def test_a_saved_model_is_recounted(model_file):
    report = audit_model_file(model_file)
    assert report.passed, report
    assert report.title == str(model_file)
    assert json.loads(report.to_json())["passed"] is True


def test_a_tampered_model_is_found(model_file):
    content = json.loads(model_file.read_text())
    content["attributes"]["privacy_"]["epsilon"] = 0.5
    model_file.write_text(json.dumps(content))
    names = {finding.name for finding in audit_model_file(model_file).failures}
    assert names == {"recount against epsilon", "parameter epsilon"}
    del content["attributes"]["privacy_"]["releases"][0]["groups"][0]["grid"]
    model_file.write_text(json.dumps(content))
    assert "damaged" in str(audit_model_file(model_file))


def test_what_is_no_model_is_said_so(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[1, 2]")
    assert not audit_model_file(path).passed
    path.write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        audit_model_file(path)
