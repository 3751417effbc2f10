"""The command line: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app
from privem.cli.progress import FitProgress, WatchedRows
from privem.data import read_file
from privem.datasets import make_people
from privem.ledger.connections import library

# What is particular to private fits is in test_private.py.
EXACT = ("fit", "--exact")
COLUMNS = ["age", "height_cm", "weight_kg", "systolic_bp", "cholesterol", "income_k"]


def run(*args, code=0, env=None):
    """Run in this process; check the exit code."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], env=env)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def spawn(*args, env=None, **keywords):
    """Run in a process of its own, as a person would."""
    return subprocess.run(
        [sys.executable, "-m", "privem.cli", *map(str, args)],
        text=True,
        timeout=60,
        env=os.environ | {"COLUMNS": "80"} | (env or {}),
        **{"capture_output": True, **keywords},
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The same 400 people in three formats; a weight; a folder of files."""
    folder = tmp_path_factory.mktemp("data")
    people = make_people(400, 0)
    people.write_csv(folder / "people.csv")
    people.write_parquet(folder / "people.parquet")
    np.save(folder / "people.npy", people.to_numpy())
    weighted = people.with_columns(pl.Series("w", np.tile([0.5, 2.0], 200)))
    weighted.write_csv(folder / "weighted.csv")
    (folder / "parts").mkdir()
    people[:150].write_parquet(folder / "parts" / "a.parquet")
    people[150:].write_parquet(folder / "parts" / "b.parquet")
    return folder


@pytest.fixture(scope="session")
def models(data):
    """A model of each kind, and one that knows no names."""
    for kind in ("gmm", "kmeans", "fa"):
        run(*EXACT, data / "people.csv", "-m", kind, "-k", 2, "-o", data / f"{kind}.json", "-q")
    run(*EXACT, data / "people.npy", "-k", 2, "-o", data / "nameless.json", "-q")
    return data


# Fit


@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "people.npy", "parts"])
def test_fit_gives_what_the_library_gives(data, tmp_path, name):
    out = tmp_path / "model.json"
    run(*EXACT, data / name, "--model", "gmm", "--components", 3, "-o", out)
    expected = privem.GaussianMixture(3, epsilon=None).fit(make_people(400, 0))
    model = privem.load(out)
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-9)
    assert model.covariance_type == "full"
    assert hasattr(model, "feature_names_in_") == (name != "people.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_json_of_a_mixture_is_complete(data, tmp_path):
    out = tmp_path / "m.json"
    result = run(*EXACT, data / "people.csv", "-k", 2, "-o", out, "--covariance", "diag", "--json")
    summary = json.loads(result.stdout)
    model = privem.load(out)
    assert result.stderr == ""
    assert summary["model"] == "gmm"
    assert summary["covariance"] == "diag"
    assert summary["rows"] == 400
    assert summary["total_weight"] == 400
    assert summary["columns"] == COLUMNS
    assert summary["private"] is False
    assert summary["epsilon"] is summary["delta"] is None
    assert summary["statement"].startswith("exact fit: nothing here is private")
    assert summary["converged"] is True
    assert summary["iterations"] == model.n_iter_
    assert summary["mean_log_likelihood"] == model.lower_bound_
    assert summary["output"] == str(out)
    assert summary["warnings"] == []
    assert summary["seconds"] > 0
    np.testing.assert_array_equal(summary["parameters"]["means"], model.means_)
    np.testing.assert_array_equal(summary["parameters"]["covariances"], model.covariances_)


def test_json_of_kmeans_and_factor_analysis(data, tmp_path):
    out = tmp_path / "m.json"
    kmeans = json.loads(
        run(*EXACT, data / "people.csv", "-m", "kmeans", "-k", 3, "-o", out, "--json").stdout
    )
    model = privem.load(out)
    assert kmeans["inertia"] == model.inertia_
    assert kmeans["mean_squared_distance"] == pytest.approx(model.inertia_ / 400)
    assert sum(kmeans["shares"]) == pytest.approx(1)
    np.testing.assert_array_equal(kmeans["parameters"]["cluster_centers"], model.cluster_centers_)
    factors = json.loads(
        run(*EXACT, data / "people.csv", "-m", "fa", "-k", 2, "-o", out, "--json").stdout
    )
    model = privem.load(out)
    assert factors["mean_log_likelihood"] == pytest.approx(model.loglike_[-1] / 400)
    np.testing.assert_array_equal(factors["parameters"]["noise_variance"], model.noise_variance_)


def test_every_option_reaches_the_estimator(data, tmp_path):
    out = tmp_path / "m.json"
    options = "--covariance tied --max-iter 7 --tol 0.5 --n-init 2 --seed 9 --prior map --n-jobs 1"
    result = run(*EXACT, data / "people.csv", "-k", 2, "-o", out, *options.split(), "--json")
    parameters = privem.load(out).get_params()
    assert {name: parameters[name] for name in ("covariance_type", "max_iter", "tol")} == {
        "covariance_type": "tied",
        "max_iter": 7,
        "tol": 0.5,
    }
    assert (parameters["n_init"], parameters["random_state"]) == (2, 9)
    assert (parameters["prior"], parameters["n_jobs"]) == ("map", 1)
    assert "mean_log_posterior" in json.loads(result.stdout)


def test_columns_and_weight(data, tmp_path):
    out = tmp_path / "m.json"
    columns = ["--columns", "income_k, age", "--weight", "w"]
    result = run(*EXACT, data / "weighted.csv", "-k", 1, "-o", out, *columns, "--json")
    summary = json.loads(result.stdout)
    assert summary["columns"] == ["income_k", "age"]
    assert summary["total_weight"] == 500.0
    X = make_people(400, 0)[["income_k", "age"]].to_numpy()
    expected = np.average(X, axis=0, weights=np.tile([0.5, 2.0], 200))
    np.testing.assert_allclose(summary["parameters"]["means"][0], expected, rtol=1e-12)


def test_a_column_name_with_a_comma_is_quoted(tmp_path):
    pl.DataFrame({"a,b": [1.0, 2, 3], "c": [1.0, 2, 4]}).write_csv(tmp_path / "x.csv")
    out = tmp_path / "m.json"
    result = run(*EXACT, tmp_path / "x.csv", "-k", 1, "-o", out, "--columns", '"a,b",c', "--json")
    assert json.loads(result.stdout)["columns"] == ["a,b", "c"]


def test_what_people_read(data, tmp_path):
    out = tmp_path / "m.json"
    text = run(*EXACT, data / "people.csv", "-k", 2, "-o", out).stdout
    model = privem.load(out)
    assert "exact fit: nothing here is private" in text
    assert f"iterations             {model.n_iter_} (converged)" in text
    assert f"mean log likelihood    {model.lower_bound_:.6g}" in text
    assert f"Saved to {out}" in text
    header, rule, first = re.search(r"(k +weight.*)\n(.*)\n(0 .*)\n", text).groups()
    assert header.split() == ["k", "weight", *COLUMNS]
    assert set(rule) <= set("─-")
    shown = [float(cell) for cell in first.split()[1:]]
    np.testing.assert_allclose(shown, [model.weights_[0], *model.means_[0]], rtol=1e-3)


def test_quiet_prints_nothing(data, tmp_path):
    result = run(*EXACT, data / "people.csv", "-k", 2, "-o", tmp_path / "m.json", "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    assert (tmp_path / "m.json").exists()


def test_stopping_early_is_said_but_is_no_error(data, tmp_path):
    args = [*EXACT, data / "people.csv", "-k", 3, "-o", tmp_path / "m.json", "--max-iter", 2]
    result = run(*args)
    assert "2 (NOT converged)" in result.stdout
    assert result.stderr.startswith("note: Best performing initialization did not converge")
    summary = json.loads(run(*args, "--json").stdout)
    assert summary["converged"] is False
    assert len(summary["warnings"]) == 1


def test_wide_data_stay_within_80_columns(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"a_rather_long_column_name_number_{j}" for j in range(26)]
    pl.DataFrame(rng.normal(size=(60, 26)), schema=names).write_csv(tmp_path / "wide.csv")
    args = [*EXACT, tmp_path / "wide.csv", "-k", 30, "--covariance", "diag"]
    text = run(*args, "-o", tmp_path / "m.json", env={"COLUMNS": "80"}).stdout
    # Without the last line, the name of a file, which may be of any length.
    table = text[text.index("Weight and mean") : text.index("Saved to")]
    assert max(map(len, table.splitlines())) <= 80
    assert "a_rather_long_col..." in table
    assert "6 more rows and 3 more columns" in table


def test_column_names_are_not_markup(tmp_path):
    pl.DataFrame({"[red]x[/red]": [1.0, 2, 4], ":smile:": [1.0, 3, 2]}).write_csv(
        tmp_path / "x.csv"
    )
    text = run(*EXACT, tmp_path / "x.csv", "-k", 1, "-o", tmp_path / "m.json").stdout
    assert "[red]x[/red]" in text
    assert ":smile:" in text


# Sample


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("kind", ["gmm", "fa"])
def test_sample_writes_records_like_the_data(models, tmp_path, suffix, kind):
    out = tmp_path / f"drawn{suffix}"
    text = run("sample", models / f"{kind}.json", "-n", 3000, "-o", out, "--seed", 1).stdout
    assert text == f"Wrote 3,000 rows of 6 columns to {out}\n"
    if suffix == ".npy":
        drawn = np.load(out)
    else:
        frame = (pl.read_csv if suffix == ".csv" else pl.read_parquet)(out)
        assert frame.columns == COLUMNS
        drawn = frame.to_numpy()
    assert drawn.shape == (3000, 6)
    real = make_people(400, 0).to_numpy()
    gap = np.abs(drawn.mean(axis=0) - real.mean(axis=0)) / real.std(axis=0)
    assert (gap < 0.12).all()  # 6 standard errors of a mean of 3000.
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_seed_draws_the_same_records_in_every_format(models, tmp_path):
    for suffix in (".csv", ".parquet", ".npy"):
        run("sample", models / "gmm.json", "-n", 70_000, "-o", tmp_path / f"x{suffix}", "--seed", 5)
    array = np.load(tmp_path / "x.npy")
    assert len(array) == 70_000
    np.testing.assert_array_equal(array, pl.read_csv(tmp_path / "x.csv").to_numpy())
    np.testing.assert_array_equal(array, pl.read_parquet(tmp_path / "x.parquet").to_numpy())
    # The second batch is not the first one again, and no seed means other records.
    assert len(np.unique(array, axis=0)) > 69_000
    run("sample", models / "gmm.json", "-n", 5, "-o", tmp_path / "y.npy")
    run("sample", models / "gmm.json", "-n", 5, "-o", tmp_path / "z.npy")
    assert not np.array_equal(np.load(tmp_path / "y.npy"), np.load(tmp_path / "z.npy"))


def test_sample_prints_csv(models):
    lines = run("sample", models / "gmm.json", "-n", 4).stdout.splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 5
    nameless = run("sample", models / "nameless.json", "-n", 1).stdout.splitlines()
    assert nameless[0] == "x0,x1,x2,x3,x4,x5"


# Score


def test_score_is_the_library_s(models):
    X = make_people(400, 0)
    for kind in ("gmm", "fa"):
        result = run("score", models / f"{kind}.json", models / "people.csv", "--json")
        summary = json.loads(result.stdout)
        assert summary["rows"] == 400
        assert summary["model"] == kind
        expected = privem.load(models / f"{kind}.json").score(X)
        assert summary["mean_log_density"] == pytest.approx(expected, rel=1e-12)
    summary = json.loads(
        run("score", models / "kmeans.json", models / "people.npy", "--json").stdout
    )
    expected = privem.load(models / "kmeans.json").score(X)
    assert summary["minus_inertia"] == pytest.approx(expected, rel=1e-12)
    assert summary["mean_squared_distance"] == pytest.approx(-expected / 400)


def test_score_takes_columns_by_name(models, tmp_path):
    frame = make_people(400, 0)
    mixed = frame.select("income_k", pl.lit("x").alias("note"), *COLUMNS[:5])
    mixed.write_csv(tmp_path / "mixed.csv")
    text = run("score", models / "gmm.json", tmp_path / "mixed.csv").stdout
    assert text == run("score", models / "gmm.json", models / "people.csv").stdout
    assert re.match(r"rows +400\nmean log-density +-\d+\.\d+\n\nThis score is exact and not", text)


# Failures


def failing(*args, code, words):
    """The same failure for people and for programs."""
    result = run(*args, code=code)
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    assert words in line
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return line


def write(path, text):
    path.write_text(text)
    return path


BAD_DATA = {
    "missing.csv": (None, "no file or folder"),
    "empty.csv": ("", "is empty"),
    "header.csv": ("a,b\n", "no rows"),
    "nan.csv": ("a,b\n1,2\n3,\n5,6\n", "row 1, column number 2"),
    "strings.csv": ("a,b\n1,x\n2,y\n", "column number 2"),
    "few.csv": ("a,b\n1,2\n", "at least 2"),
    "data.txt": ("1 2 3", ".npy, .csv or .parquet"),
    "broken.parquet": ("this is no parquet file", "not a readable table"),
    "broken.npy": ("this is no array", "not a readable .npy file"),
    "huge.csv": ("a,b\n1e300,1\n-1e300,2\n1e300,3\n", "overflow"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_3(tmp_path, name):
    text, words = BAD_DATA[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    out = write(tmp_path / "m.json", "old")
    args = [*EXACT, tmp_path / name, "-k", 2, "-o", out]
    failing(*args, code=3, words=words)
    error = json.loads(run(*args, "--json", code=3).stdout)["error"]
    assert error["code"] == 3
    assert error["kind"] == "data"
    assert words in error["message"]
    assert out.read_text() == "old"


def test_more_bad_data_is_3(models, tmp_path):
    with_null = tmp_path / "null.parquet"
    pl.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]}).write_parquet(with_null)
    failing(*EXACT, with_null, "-k", 1, "-o", tmp_path / "m.json", code=3, words="column 'a'")
    args = [*EXACT, models / "people.csv", "-k", 1, "-o", tmp_path / "m.json"]
    failing(*args, "--columns", "age,nope", code=3, words="no column 'nope'")
    failing(*args, "--weight", "nope", code=3, words="no column 'nope'")
    narrow = write(tmp_path / "narrow.csv", "age\n1\n")
    failing("score", models / "gmm.json", narrow, code=3, words="no column 'height_cm'")
    failing("score", models / "nameless.json", narrow, code=3, words="expecting 6 features")
    none = write(tmp_path / "none.csv", ",".join(COLUMNS) + "\n")
    for kind in ("gmm", "fa", "kmeans"):
        failing("score", models / f"{kind}.json", none, code=3, words="no rows")
    far = write(tmp_path / "far.csv", ",".join(COLUMNS) + "\n" + ",".join(["1e300"] * 6) + "\n")
    for kind in ("gmm", "fa", "kmeans"):
        failing("score", models / f"{kind}.json", far, code=3, words="overflows")


def test_bad_usage_is_2(models, tmp_path):
    out = tmp_path / "m.json"
    fit = [*EXACT, models / "people.csv", "-o", out]
    failing(*fit, code=2, words="--components")
    failing(*fit, "-k", 0, code=2, words="--components")
    failing(*fit, "-k", 2, "--model", "svm", code=2, words="svm")
    failing(*fit, "-k", 2, "--tol", "nan", code=2, words="tol")
    failing(*fit, "-k", 2, "--n-jobs", 0, code=2, words="--n-jobs")
    failing(
        *fit, "-k", 2, "-m", "fa", "--n-init", 3, code=2, words="--n-init is for categorical, gmm,"
    )
    failing(*fit, "-k", 2, "-m", "kmeans", "--prior", "map", code=2, words="--prior is for gmm")
    failing(*fit, "-k", 2, "--columns", "age,,x", code=2, words="--columns")
    failing(*fit, "-k", 2, "--columns", "a,w", "--weight", "w", code=2, words="--weight")
    failing(*fit, "-k", 2, "--nonsense", code=2, words="--nonsense")
    assert not out.exists()
    error = json.loads(run(*fit, "--json", code=2).stdout)["error"]
    assert (error["code"], error["kind"]) == (2, "usage")
    assert "--components" in error["message"]
    csv = models / "people.csv"
    before = csv.read_bytes()
    failing(*EXACT, csv, "-k", 2, "-o", csv, code=2, words="overwrite the data")
    assert csv.read_bytes() == before
    sample = ["sample", models / "gmm.json"]
    failing(*sample, "-n", 0, code=2, words="--rows")
    failing(*sample, "-n", 5, "-o", tmp_path / "x.txt", code=2, words=".csv, .parquet, .npy")
    failing("sample", models / "kmeans.json", "-n", 5, code=2, words="k-means model has centres")


def test_bad_models_are_4(models, tmp_path):
    good = (models / "gmm.json").read_text()
    newer = json.loads(good) | {"version": 99}
    stripped = json.loads(good)
    del stripped["attributes"]["means_"]
    from privem.estimator.store import _checksum

    stripped["checksum"] = _checksum(stripped)
    cases = {
        "missing": (None, "there is no model file"),
        "text": ("hello", "not valid JSON"),
        "other": ("[1, 2]", "not a privem model"),
        "cut": (good[: len(good) // 2], "not valid JSON"),
        "changed": (good.replace("0.", "1.", 1), "damaged"),
        "newer": (json.dumps(newer), "upgrade privem"),
        "stripped": (json.dumps(stripped), "lacks means_"),
    }
    for name, (text, words) in cases.items():
        path = tmp_path / f"{name}.json"
        if text is not None:
            path.write_text(text)
        failing("sample", path, "-n", 5, code=4, words=words)
        failing("score", path, models / "people.csv", code=4, words=words)
    failing("sample", tmp_path, "-n", 5, code=4, words="is a folder")
    result = run("score", tmp_path / "missing.json", models / "people.csv", "--json", code=4)
    assert json.loads(result.stdout)["error"]["kind"] == "model"


def test_bad_destinations_are_5_and_found_before_the_fit(models, tmp_path, monkeypatch):
    def fitted(*args, **keywords):
        raise AssertionError("the destination should have been looked at first")

    monkeypatch.setattr(privem.GaussianMixture, "fit", fitted)
    fit = [*EXACT, models / "people.csv", "-k", 2, "-o"]
    failing(*fit, tmp_path / "no" / "m.json", code=5, words="there is no folder")
    failing(*fit, tmp_path, code=5, words="it is a folder")
    failing(*fit, write(tmp_path / "file", "x") / "m.json", code=5, words="no folder")
    # Not even root may make files there.
    failing(*fit, "/proc/m.json", code=5, words="cannot write '/proc/m.json'")
    # Replacing a device would break the machine.
    failing(*fit, "/dev/null", code=5, words="not a regular file")
    sample = ["sample", models / "gmm.json", "-n", 5, "-o"]
    failing(*sample, tmp_path / "no" / "x.csv", code=5, words="there is no folder")
    result = run(*fit, tmp_path / "no" / "m.json", "--json", code=5)
    assert json.loads(result.stdout)["error"]["kind"] == "output"


def refused(*args, code, words):
    """As :func:`failing`, with permissions heeded: root gives up what lets it pass them by."""
    give_up = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    if os.geteuid() != 0:
        give_up = []
    elif not shutil.which("setpriv"):
        pytest.skip("root needs setpriv to give up its rights")
    command = [*give_up, sys.executable, "-m", "privem.cli", *map(str, args)]
    result = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert words in result.stderr


def test_a_folder_without_permission_is_5(models, tmp_path):
    tmp_path.chmod(0o500)
    args = [*EXACT, models / "people.csv", "-k", 2, "-o", tmp_path / "m.json"]
    refused(*args, code=5, words="Permission denied")
    tmp_path.chmod(0o700)


def test_files_that_may_not_be_read_are_3_and_4(models, tmp_path):
    data, model = tmp_path / "people.csv", tmp_path / "m.json"
    shutil.copy(models / "people.csv", data)
    shutil.copy(models / "gmm.json", model)
    for path in (data, model):
        path.chmod(0)
    out = tmp_path / "out"
    refused(*EXACT, data, "-k", 2, "-o", out, code=3, words="Permission denied")
    refused("sample", model, "-n", 5, code=4, words="Permission denied")
    refused("report", model, "-o", tmp_path / "x.html", code=4, words="Permission denied")
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "m.json"}


def test_a_link_stays_a_link(models, tmp_path):
    real, link = write(tmp_path / "real.json", "old"), tmp_path / "link.json"
    link.symlink_to(real)
    run(*EXACT, models / "people.csv", "-k", 2, "-o", link, "-q")
    assert link.is_symlink()
    assert len(privem.load(real).weights_) == 2


def small_files():
    """Every file over 2 kB fails, as on a full disk; Python ignores the signal."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))


def test_a_full_disk_leaves_the_old_files(models, tmp_path):
    # Several commands in one process: starting one takes longer than the commands.
    script = (
        "import json, sys\n"
        "from privem.cli import app\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        app(command)\n"
        "    except SystemExit as end:\n"
        "        print(end.code)\n"
    )
    names = ("x.csv", "x.parquet", "x.npy", "m.json")
    outs = [str(write(tmp_path / name, "old")) for name in names]
    commands = [["sample", str(models / "gmm.json"), "-n", "5000", "-o", out] for out in outs[:3]]
    commands.append([*EXACT, str(models / "people.csv"), "-k", "4", "-o", outs[3], "--json"])
    result = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=small_files,
    )
    *codes, error, last = result.stdout.splitlines()
    assert [*codes, last] == ["5"] * 4, result.stderr
    assert json.loads(error)["error"]["kind"] == "output"
    for out, line in zip(outs, result.stderr.splitlines(), strict=True):
        assert line == f"Error: cannot write '{out}': File too large"
        assert Path(out).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


@pytest.fixture
def full_disk(tmp_path):
    """A real file system of 64 kB, where that is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_disk(models, full_disk):
    for name in ("x.csv", "x.parquet", "x.npy"):
        out = write(full_disk / name, "old")
        args = ["sample", models / "gmm.json", "-n", 20_000, "-o", out]
        failing(*args, code=5, words="No space left on device")
        assert out.read_text() == "old"
    assert len(list(full_disk.iterdir())) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_that_is_full_is_5(models):
    with open("/dev/full", "w") as full:
        result = spawn(
            "sample",
            models / "gmm.json",
            "-n",
            5,
            stdout=full,
            stderr=subprocess.PIPE,
            capture_output=False,
        )
    assert result.returncode == 5
    assert result.stderr == ("Error: cannot write to standard output: No space left on device\n")


# One for each way to print: by click for help, by rich for tables, by ourselves.
PRINTING = [["--help"], ["fit", "-h"], ["--version"], ["config"], ["ledger", "history", "b.db#x"]]


@pytest.mark.parametrize("words", PRINTING, ids=lambda words: words[0])
def test_every_output_heeds_who_reads_it(words, tmp_path):
    privem.Ledger(tmp_path / "b.db", dataset="x", budget=privem.Budget(1.0, 1e-6))
    how = {"cwd": tmp_path, "text": True, "timeout": 60, "check": False}
    command = f"{sys.executable} -m privem.cli {' '.join(words)}"
    # The reader has left before anything is written, and not only by chance.
    left = f"(sleep 0.3; {command}; echo $? >&2) | true"
    result = subprocess.run(["bash", "-c", left], capture_output=True, **how)
    assert result.stderr == "0\n"
    if Path("/dev/full").exists():
        full = f"{command} > /dev/full; echo $? >&2"
        result = subprocess.run(["bash", "-c", full], capture_output=True, **how)
        assert result.stderr.endswith(
            "cannot write to standard output: No space left on device\n5\n"
        )


def test_streams_that_are_closed_are_no_error(models, tmp_path):
    out = tmp_path / "m.json"
    fit = f"{sys.executable} -m privem.cli fit --exact {models / 'people.csv'} -k 2 -o {out}"
    closed = f"{fit} <&- >&- 2>{tmp_path / 'said'}; echo $?; {fit} 2>&-"
    how = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    result = subprocess.run(["bash", "-c", closed], **how)
    assert (tmp_path / "said").read_text() == ""
    assert result.stdout.startswith("0\nGaussian mixture, 2 components")
    assert (result.returncode, result.stderr) == (0, "")
    assert len(privem.load(out).weights_) == 2


def test_a_reader_who_leaves_hears_no_complaint(models):
    command = f"{sys.executable} -m privem.cli sample {models / 'gmm.json'} -n 200000"
    result = subprocess.run(
        ["bash", "-c", f"{command} | head -2; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert lines[-1] == "0"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_fit_leaves_the_old_model(data, tmp_path, number):
    make_people(100_000, 0).write_parquet(tmp_path / "many.parquet")
    out = write(tmp_path / "m.json", "old")
    options = ["-k", "8", "--tol", "0", "--max-iter", "100000", "--n-jobs", "1"]
    # It says on standard error when it is in the middle of EM.
    script = (
        "import sys, privem.cli.progress as p\n"
        "watch = p.FitProgress.watch\n"
        "def loud(self, stage, release):\n"
        "    print(stage.name, file=sys.stderr, flush=True)\n"
        "    watch(self, stage, release)\n"
        "p.FitProgress.watch = loud\n"
        "from privem.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, *EXACT, str(tmp_path / "many.parquet"), "-o", str(out)]
    process = subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        for line in process.stderr:
            if line.startswith("EM 2"):
                break
        process.send_signal(number)
        rest = process.communicate(timeout=30)
    finally:
        process.kill()
    expected = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert process.returncode == expected[number], rest
    assert "Traceback" not in rest[1]
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "many.parquet"]


def test_the_unexpected_is_1_and_debug_shows_it(models, tmp_path, monkeypatch):
    def fit(self, *args, **keywords):
        raise KeyError("a bug")

    monkeypatch.setattr(privem.GaussianMixture, "fit", fit)
    args = [*EXACT, models / "people.csv", "-k", 2, "-o", tmp_path / "m.json"]
    line = failing(*args, code=1, words="unexpected KeyError")
    assert "PRIVEM_DEBUG=1" in line
    monkeypatch.setenv("PRIVEM_DEBUG", "1")
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert isinstance(result.exception, KeyError)


def test_a_missing_extra_is_bad_usage_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    library.cache_clear()
    line = failing(
        "ledger", "show", "budget.db#cohort", code=2, words="pip install 'privem[ledger]'"
    )
    library.cache_clear()
    assert "unexpected" not in line


# Help and terminals


OPTIONS = {
    "fit": "--components --output --model --columns --weight --covariance --prior --max-iter --tol "
    "--n-init --seed --n-jobs --json --quiet DATA gmm kmeans fa full|tied|diag|spherical "
    "--epsilon --delta --bound --neighbours --n-iter add-remove|replace-one --exact --type "
    "--target --category --noise-variance --method auto|moments|gradient symmetric "
    "symmetric-regression missing-regression regression-mixture categorical",
    "audit": "--json MODEL",
    "sample": "--rows --output --seed MODEL",
    "score": "--json --target --epsilon --delta --groups MODEL DATA",
    "demo": "--out --rows --seed",
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_lists_every_option_and_exit_code(command):
    text = run(command, "--help").stdout
    for word in OPTIONS[command].split():
        assert word in text
    declared = app.commands[command]
    for parameter in declared.get_params(click.Context(declared)):
        assert all(option in text for option in parameter.opts if option.startswith("-"))
    assert "\\" not in text
    for argument in ("DATA", "MODEL"):
        assert (f"{argument} is a " in text) == (argument in OPTIONS[command])
    for code in range(6):
        assert re.search(rf"^ +{code}  \w", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


def test_help_lists_every_command_and_version():
    text = run("--help").stdout
    for command in OPTIONS:
        assert re.search(rf"^  {command} ", text, re.MULTILINE)
    assert "differentially private, with epsilon 1 unless said otherwise" in text
    assert run("--version").stdout == f"privem {privem.__version__}\n"


def test_a_dumb_terminal_gets_plain_text(models, tmp_path):
    fit = [*EXACT, models / "people.csv", "-k", 2, "-o", tmp_path / "m.json"]
    text = on_a_terminal(*fit, term="dumb").replace("\r\n", "\n")
    assert "nothing here is private" in text
    assert not set("\x1b\r\b") & set(text)
    # Only the names of files may be wider than the terminal.
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
    # A terminal that can do more gets a little more: the same words.
    rich = on_a_terminal(*fit, term="xterm").replace("\r\n", "\n")
    assert "\x1b[1m" in rich
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", rich)
    assert _without_time(plain) == _without_time(text)


def _without_time(text):
    return [line.rstrip() for line in re.sub(r"time +[\d.]+ s", "", text).splitlines()]


def on_a_terminal(*args, term="xterm", main="from privem.cli import main\nmain()"):
    """Everything a person would see on a terminal 80 columns wide."""
    import pty

    leader, follower = pty.openpty()
    env = os.environ | {"TERM": term, "COLUMNS": "80", "LINES": "24"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        env.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", main, *map(str, args)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=env,
    )
    os.close(follower)
    seen = b""
    try:
        while piece := os.read(leader, 65536):
            seen += piece
    except OSError:  # Linux's way of saying that the other end is closed.
        pass
    finally:
        os.close(leader)
    process.wait(timeout=60)
    return seen.decode()


SLOW = """
import time
import privem.cli.progress as p
p._PATIENCE_SECONDS = 0.02
watch = p.FitProgress.watch
def slow(self, stage, release):
    watch(self, stage, release)
    time.sleep(0.04)
p.FitProgress.watch = slow
from privem.cli import main
main()
"""


def test_progress_is_for_people_with_patience_spent(models, tmp_path):
    args = [*EXACT, models / "people.csv", "-k", 2, "-o", tmp_path / "m.json", "--max-iter", 5]
    text = on_a_terminal(*args, main=SLOW)
    assert re.search(r"pass \d+: EM \d", text)
    assert "objective" in text
    assert "400 rows" in text
    # Asked to be quiet, or not a terminal: no bar. (Over in no time, no bar either: see above,
    # where a plain fit says the same on a terminal with and without one.)
    assert on_a_terminal(*args, "--quiet", main=SLOW).strip() == ""
    command = [sys.executable, "-c", SLOW, *map(str, args), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(result.stdout)["rows"] == 400
    assert result.stderr == ""


def test_watched_rows_count_themselves(data):
    counts = []
    rows = WatchedRows(read_file(data / "weighted.csv", weight="w"), counts.append)
    assert sum(len(block.X) for block in rows.blocks(150)) == 400
    assert counts == [150, 300, 400]
    assert (rows.count, rows.total_weight) == (400, 500.0)
    assert rows.n_features == 6
    assert list(rows.names) == COLUMNS


def test_a_bar_never_shown_leaves_nothing_behind(capsys):
    with FitProgress(10, quiet=False):
        time.sleep(0.01)
    assert capsys.readouterr() == ("", "")


# Demo


def test_demo(tmp_path):
    out = tmp_path / "demo"
    text = run("demo", "--rows", 3000, "--out", out, env={"COLUMNS": "80"}).stdout
    tables = ("table.parquet", "synthetic-table.parquet", "table.png")
    for name in ("people.parquet", "model.json", "synthetic.parquet", "demo.png", *tables):
        assert (out / name).stat().st_size > 1000
        assert str(out / name) in text
    model = privem.load(out / "model.json")
    assert str(model.privacy_) in " ".join(text.split())
    assert "these numbers would themselves be a release" in " ".join(text.split())
    assert "a synthetic one, epsilon 1" in text
    scores = re.findall(r"(exact EM|private mixture|single Gaussian).*?(-\d+\.\d{3})", text)
    assert [name for name, _ in scores] == ["exact EM", "private mixture", "single Gaussian"]
    assert float(scores[1][1]) == pytest.approx(model.score(make_people(600, 1)), abs=6e-4)
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)


def test_demo_failures(tmp_path):
    in_the_way = write(tmp_path / "file", "x")
    result = run("demo", "--rows", 100, "--out", in_the_way / "demo", code=5)
    assert "cannot write" in result.stderr
    assert in_the_way.read_text() == "x"
    run("demo", "--rows", 5, "--out", tmp_path, code=2)


@pytest.mark.parametrize("how", ["module", "script"])
def test_it_is_installed(how):
    script = Path(sys.executable).with_name("privem")
    if how == "script" and not script.exists():
        pytest.skip("the script is not installed beside this interpreter")
    command = [str(script)] if how == "script" else [sys.executable, "-m", "privem"]
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"privem {privem.__version__}\n"


def test_nothing_asked_gets_help():
    result = run(code=2)
    assert "Usage: privem" in result.stdout + result.stderr
