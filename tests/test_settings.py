"""``privem.toml``: where it is looked up, what it may say, and what the library takes from it."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import privem
from privem import Budget, Ledger, LedgerError
from privem.settings import KEYS, Settings, SettingsError, current_settings, find_settings

X = np.random.default_rng(0).normal(size=(200, 2))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository in a home folder; the current folder is two levels down."""
    home = tmp_path / "home"
    here = home / "project" / "a" / "b"
    here.mkdir(parents=True)
    (home / "project" / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("PRIVEM_CONFIG", raising=False)
    monkeypatch.delenv("PRIVEM_LEDGER", raising=False)
    monkeypatch.chdir(here)
    return home / "project"


def write(path, text="epsilon = 0.5\n"):
    path.write_text(text)
    return path


def test_the_nearest_file_of_the_project_holds(project):
    assert find_settings() is None
    assert current_settings() == Settings()
    # Above the repository's root is another project.
    write(project.parent / "privem.toml")
    assert find_settings() is None
    root = write(project / "privem.toml")
    assert find_settings() == root
    near = write(project / "a" / "privem.toml", "epsilon = 2\n")
    assert find_settings() == near
    assert current_settings().values == {"epsilon": 2}


def test_outside_of_a_repository_home_is_the_end(project, monkeypatch):
    (project / ".git").rmdir()
    home = write(project.parent / "privem.toml")
    assert find_settings() == home
    home.unlink()
    write(project.parent.parent / "privem.toml")
    assert find_settings() is None
    # In nobody's home and no repository, other people's files above do not count.
    monkeypatch.setenv("HOME", "/nowhere")
    write(project / "privem.toml")
    assert find_settings() is None
    here = write(Path("privem.toml").absolute())
    assert find_settings() == here


def test_a_home_that_is_a_link_is_home(project, monkeypatch):
    (project / ".git").rmdir()
    monkeypatch.setenv("HOME", str(project.parent.parent / "link"))
    os.symlink(project.parent, os.environ["HOME"])
    assert find_settings() is None
    file = write(project / "privem.toml")
    assert find_settings() == file


def test_the_environment_names_another_file_or_none(project, monkeypatch, tmp_path):
    write(project / "privem.toml")
    other = write(tmp_path / "other.toml", "delta = 1e-9\n")
    monkeypatch.setenv("PRIVEM_CONFIG", str(other))
    assert current_settings().values == {"delta": 1e-9}
    monkeypatch.setenv("PRIVEM_CONFIG", "")
    assert find_settings() is None
    monkeypatch.setenv("PRIVEM_CONFIG", str(tmp_path / "lost.toml"))
    with pytest.raises(SettingsError, match=r"lost\.toml' cannot be read: No such file"):
        current_settings()


def test_what_bears_the_name_and_cannot_be_read_is_not_passed_over(project):
    (project / "privem.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        current_settings()
    (project / "privem.toml").rmdir()
    (project / "privem.toml").symlink_to(project / "lost.toml")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        current_settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ledgr = 'x'", "unknown key 'ledgr': did you mean 'ledger'"),
        ("colour = 'red'", "unknown key 'colour': keys are ledger, epsilon"),
        ("epsilon = 'much'", "epsilon is a number, got 'much'"),
        ("epsilon = true", "epsilon is a number, got True"),
        ("components = 2.5", "components is a whole number"),
        ("exclude = 'id'", "exclude is a list of texts"),
        ("[bounds]\nage = [0]", r"bounds is a table of columns, each \[low, high\]"),
        ("[categories]\nsex = 'f'", "categories is a table of columns, each a list of texts"),
        ("epsilon =", "is not TOML"),
    ],
)
def test_what_nobody_understands_is_refused(tmp_path, text, words):
    with pytest.raises(SettingsError, match=words):
        Settings.read(write(tmp_path / "privem.toml", text))


def test_dashes_are_as_good_and_paths_begin_at_the_file(tmp_path):
    path = write(tmp_path / "privem.toml", "n-jobs = 2\nledger = 'b.db#x'\nschema = '/s.toml'\n")
    found = Settings.read(path)
    assert found.values["n_jobs"] == 2
    assert found.ledger == f"{tmp_path / 'b.db'}#x"
    assert found.values["schema"] == "/s.toml"
    url = "postgresql://host/db#x"
    assert Settings.read(write(path, f"ledger = '{url}'")).ledger == url
    assert {"ledger", "epsilon", "delta", "bounds"} <= set(KEYS)


# What fits take from it


def fit(**more):
    return privem.GaussianMixture(1, epsilon=0.5, bounds=5.0, **more).fit(X)


def test_fits_are_charged_to_the_ledger_of_the_project(project, monkeypatch, tmp_path):
    pytest.importorskip("sqlalchemy")
    write(project / "privem.toml", "ledger = 'budget.db#cohort'\nepsilon = 9\n")
    with pytest.raises(LedgerError, match="there is no ledger"):
        fit()
    budget = Budget(epsilon=3, delta=1e-5)
    with Ledger(project / "budget.db", dataset="cohort", budget=budget) as ledger:
        model = fit()
        assert model.privacy_.epsilon == 0.5  # of the file the library takes the ledger alone
        assert len(ledger.history()) == 1
        privem.private_mean(X, epsilon=0.1, tau=2.0)
        assert len(ledger.history()) == 2
        # A fit's own ledger and the environment go first; an empty variable says there is none.
        with Ledger(tmp_path / "own.db", dataset="own", budget=budget) as own:
            fit(ledger=own)
            assert len(own.history()) == 1
        monkeypatch.setenv("PRIVEM_LEDGER", f"{tmp_path / 'own.db'}#own")
        fit()
        monkeypatch.setenv("PRIVEM_LEDGER", "")
        fit()
        monkeypatch.delenv("PRIVEM_LEDGER")
        monkeypatch.setenv("PRIVEM_CONFIG", "")
        fit()
        assert len(ledger.history()) == 2
        privem.GaussianMixture(1, epsilon=None).fit(X)


def test_a_bad_file_stops_a_private_fit_before_any_release(project):
    write(project / "privem.toml", "ledgr = 'budget.db'\n")
    model = privem.GaussianMixture(1, epsilon=0.5, bounds=5.0)
    with pytest.raises(SettingsError, match="did you mean 'ledger'"):
        model.fit(X)
    assert not hasattr(model, "privacy_")


def test_a_folder_that_was_removed_has_no_file(project):
    here = Path.cwd()
    os.rmdir(here)
    try:
        assert find_settings() is None
        assert fit().privacy_.epsilon == 0.5
    finally:
        here.mkdir()


def test_a_file_that_lies_above_and_does_not_hold_is_not_passed_over_in_silence(
    project, monkeypatch
):
    write(project.parent / "privem.toml", 'ledger = "budget.db#x"\n')
    with pytest.warns(UserWarning, match="lies above this folder"):
        privem.KMeans(2, bounds=4.0, n_iter=2).fit(X)
    # Noise may bring other warnings, about clusters that cannot be told apart.
    monkeypatch.setenv("PRIVEM_CONFIG", "")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        privem.KMeans(2, bounds=4.0, n_iter=2).fit(X)
    assert not [one for one in caught if "lies above" in str(one.message)]


def test_a_link_that_leads_nowhere_stops_a_private_fit(project):
    """The ledger that the file should name would be missed."""
    os.symlink(project / "gone.toml", project / "privem.toml")
    model = privem.KMeans(2, bounds=4.0, n_iter=2)
    with pytest.raises(SettingsError, match="cannot be read"):
        model.fit(X)
    assert not hasattr(model, "privacy_")
