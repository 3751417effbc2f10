"""``privem federate`` with targets and categories: what is agreed, what a party reads, refusals."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("flwr")

from privem import CategoricalMixture, RegressionMixture
from privem.cli import app
from privem.cli.federation_folders import agreed
from privem.cli.federation_run import _rows, _set_bounds
from privem.cli.fit import Request
from privem.declaration import declarations
from privem.federation import Federation, InProcess
from privem.federation.flower.folders import PartyFolder, Terms

from .models import CASES

MODELS = {model.command: model for model in declarations()}
PARTIES = ("north", "west", "south")
TARGET = ["--bound", "a=-6:6", "--bound", "outcome=-15:15", "--bound", "b=-7:7"]
TARGET += ["--target", "outcome", "--rows", "2000"]
CATEGORIES = [word for name in "abc" for word in ("--category", f"{name}=no,yes")]


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def set_up(folder, *terms):
    names = [word for name in PARTIES for word in ("--party", name)]
    return command("federate", "init", folder, *names, *terms)


def federation(folder, files):
    """The federation that was founded, in this process."""
    parties = []
    for name in PARTIES:
        place = PartyFolder(folder / name)
        rows, more = _rows(place.terms, files / f"{name}.csv")
        parties.append(place.party(rows, None, 1e-6, **more))
    return Federation.over(place.terms.agreement, InProcess(parties))


def test_a_target_column(tmp_path):
    done = set_up(tmp_path / "fed", *TARGET, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["target"] == "outcome"
    assert facts["columns"] == ["a", "b", "outcome"]
    terms = Terms.load(tmp_path / "fed" / "server")
    assert terms.agreement.target
    assert terms.agreement.high == (6.0, 7.0, 15.0)
    X, y = CASES["RegressionMixture"].data()
    for i, name in enumerate(PARTIES):
        table = np.column_stack([y, X[:, :2]])[i::3]
        path = tmp_path / f"{name}.csv"
        np.savetxt(path, table, delimiter=",", header="outcome,a,b", comments="")
    model = RegressionMixture(2, epsilon=None, random_state=0)
    model.fit(federation(tmp_path / "fed", tmp_path))
    central = RegressionMixture(2, epsilon=None, random_state=0).fit(X[:, :2], y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert np.allclose(model.coef_, central.coef_, atol=1e-9)
    server = tmp_path / "fed" / "server"
    columns = agreed(server, MODELS["regression-mixture"])
    assert columns == {"target": "outcome"}
    request = Request(MODELS["regression-mixture"], False, {"components": 2, **columns})
    private = request.estimator()
    _set_bounds(private, request, terms.agreement)
    assert private.bounds == ((-6.0, -7.0), (6.0, 7.0))
    assert private.target_bounds == (-15.0, 15.0)


def test_categories(tmp_path):
    assert set_up(tmp_path / "fed", *CATEGORIES, "--rows", "2000").exit_code == 0
    (X,) = CASES["CategoricalMixture"].data()
    for i, name in enumerate(PARTIES):
        lines = [",".join(row) for row in X[i::3]]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    model = CategoricalMixture(2, epsilon=None, random_state=0)
    model.fit(federation(tmp_path / "fed", tmp_path))
    central = CategoricalMixture(2, categories=["no", "yes"], epsilon=None, random_state=0).fit(X)
    assert np.allclose(model.weights_, central.weights_, atol=1e-9)
    columns = agreed(tmp_path / "fed" / "server", MODELS["categorical"])
    request = Request(MODELS["categorical"], False, {"components": 2, **columns})
    assert request.estimator().categories == [["no", "yes"]] * 3


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (["--target", "y"], "--target names one of the columns"),
        (["--target", "y", "--columns", "y"], "--target names one of the columns"),
        ([*CATEGORIES, "--target", "a"], "--category names the columns"),
        ([*CATEGORIES, "--bound", "a=0:1"], "--category names the columns"),
        (["--protection", "threshold"], "'threshold' is not one of"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, terms, words):
    done = set_up(tmp_path / "fed", *terms)
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "fed").exists()


@pytest.mark.parametrize(
    ("terms", "model", "words"),
    [
        (TARGET, "gmm", "has no target, and this federation has one"),
        (TARGET, "categorical", "has no target, and this federation has one"),
        (CATEGORIES, "kmeans", "go together"),
        (["--columns", "a,b"], "missing-regression", "this federation has none"),
        (["--columns", "a,b"], "categorical", "go together"),
    ],
)
def test_other_models_are_refused_before_anybody_is_asked(tmp_path, terms, model, words):
    assert set_up(tmp_path / "fed", *terms).exit_code == 0
    server, output = tmp_path / "fed" / "server", tmp_path / "model.json"
    done = command("federate", "run", server, "-m", model, "-k", 2, "-o", output)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not list(server.glob("runs/*"))


def test_the_number_of_components_is_asked_for_where_there_is_one(tmp_path):
    assert set_up(tmp_path / "fed", "--columns", "a,b").exit_code == 0
    server, output = tmp_path / "fed" / "server", tmp_path / "model.json"
    done = command("federate", "run", server, "-m", "gmm", "-o", output)
    assert done.exit_code == 2
    assert "--components" in done.output
    words = ["-m", "symmetric", "--covariance", "tied", "-o", output]
    done = command("federate", "run", server, *words)
    assert done.exit_code == 2
    assert "--covariance is for" in done.output


def test_a_folder_of_another_kind_is_named(tmp_path):
    fed, output = tmp_path / "fed", tmp_path / "model.json"
    assert set_up(fed, "--columns", "a,b").exit_code == 0
    done = command("federate", "run", fed / "north", "-k", 2, "-o", output)
    assert done.exit_code == 2
    assert "is not the folder of a server" in done.output
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for place in (fed, fed / "server"):
        done = command("federate", "party", place, tmp_path / "rows.csv")
        assert done.exit_code == 2
        assert "is not the folder of a party" in done.output


def test_the_federations_folder_stands_for_its_servers(tmp_path):
    fed = tmp_path / "fed"
    assert set_up(fed, "--columns", "a,b").exit_code == 0
    run = fed / "server" / "runs" / "0001"
    run.mkdir(parents=True)
    fit = {"run": "0001", "state": "finished", "rounds": 3, "stage": "EM 1", "problem": ""}
    (run / "progress.json").write_text(json.dumps(fit))
    said = {command("federate", "status", place).output for place in (fed, fed / "server")}
    assert len(said) == 1
    assert "Fit 0001: finished" in said.pop()
    assert agreed(fed, MODELS["gmm"]) == agreed(fed / "server", MODELS["gmm"]) == {}


def test_files_without_column_names(tmp_path):
    """Their columns are called x0, x1, as privem fit and privem sample do."""
    bounds = ["--bound", "x0=-6:6", "--bound", "x1=-7:7", "--rows", "2000"]
    assert set_up(tmp_path / "fed", *bounds).exit_code == 0
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, (90, 2))
    np.save(tmp_path / "north.npy", X)
    terms = PartyFolder(tmp_path / "fed" / "north").terms
    rows, more = _rows(terms, tmp_path / "north.npy")
    assert tuple(rows.names) == ("x0", "x1")
    assert more == {}
    np.testing.assert_array_equal(next(iter(rows.blocks(90))).X, X)
    np.save(tmp_path / "wide.npy", np.zeros((3, 3)))
    with pytest.raises(ValueError, match="are called x0, x1, x2; the federation agreed on x0, x1"):
        _rows(terms, tmp_path / "wide.npy")


def test_the_status_of_a_party_with_a_target(tmp_path):
    assert set_up(tmp_path / "fed", *TARGET).exit_code == 0
    place = PartyFolder(tmp_path / "fed" / "north")
    (tmp_path / "north.csv").write_text("outcome,a,b\n1,2,3\n4,5,6\n")
    rows, more = _rows(place.terms, tmp_path / "north.csv")
    place.party(rows, 1.0, 1e-6, **more)
    status = command("federate", "status", tmp_path / "fed" / "north")
    assert status.exit_code == 0, status.output
    assert "north" in status.stdout


def test_persons(tmp_path):
    bounds = ["--bound", "a=-6:6", "--bound", "b=-7:7"]
    done = set_up(tmp_path / "fed", *bounds, "--persons")
    assert done.exit_code == 0, done.output
    assert "--groups COLUMN" in done.stdout
    assert "hidden as k persons are" in " ".join(done.stdout.split())
    place = PartyFolder(tmp_path / "fed" / "north")
    assert place.terms.agreement.persons
    (tmp_path / "north.csv").write_text("b,who,a\n1,x,2\n3,y,4\n5,x,6\n")
    rows, more = _rows(place.terms, tmp_path / "north.csv", groups="who")
    party = place.party(rows, 1.0, 1e-6, **more)
    assert party.persons
    assert party.columns == ("a", "b")
    status = command("federate", "status", tmp_path / "fed" / "north", "--json")
    assert status.exit_code == 0, status.output
    assert json.loads(status.stdout)["epsilon_spent"] == 0.0
    rows, more = _rows(place.terms, tmp_path / "north.csv")
    for name in ("west", "north"):  # who has not joined yet, and who has
        with pytest.raises(ValueError, match="no persons"):
            PartyFolder(tmp_path / "fed" / name).party(rows, 1.0, 1e-6, **more)
    # Another agreement, about records, in the same folder: the account goes on.
    terms = dataclasses.replace(
        place.terms, agreement=dataclasses.replace(place.terms.agreement, persons=False)
    )
    terms.save(tmp_path / "fed" / "north")
    again = PartyFolder(tmp_path / "fed" / "north").party(rows, 1.0, 1e-6, **more)
    assert not again.persons
