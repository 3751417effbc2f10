"""Saved models: exact, checked, atomic, never code."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import privem
from privem import FactorAnalysis, GaussianMixture, KMeans, ModelFileError
from privem.estimator import store
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) / 3 + 5.0 * rng.integers(0, 3, size=(n, 1))


MODELS = {
    **{
        k: GaussianMixture(3, covariance_type=k, random_state=1, epsilon=None)
        for k in COVARIANCE_TYPES
    },
    "map": GaussianMixture(
        3, prior="map", covariance_prior=[[1.0, 0, 0], [0, 2, 0], [0, 0, 3]], epsilon=None
    ),
    "given": GaussianMixture(
        2,
        means_init=np.arange(6, dtype=np.float32).reshape(2, 3),
        weights_init=(0.5, 0.5),
        epsilon=None,
    ),
    "KMeans": KMeans(3, random_state=4, epsilon=None),
    "KMeans given": KMeans(2, init=data()[:2], n_init=1, epsilon=None),
    "FactorAnalysis": FactorAnalysis(2, rotation="varimax", epsilon=None),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize("named", [False, True])
def test_a_round_trip_keeps_every_bit(model, named, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data(), columns=["a b", "é", "c\n"]) if named else data()
    model.fit(frame)
    assert model.save(tmp_path / "m.json") is model
    again = privem.load(tmp_path / "m.json")
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(
        {k: list(v) if isinstance(v, tuple) else v for k, v in model.get_params().items()}
    )
    for name in (*model._needed, *store._COMMON):
        assert hasattr(again, name) == hasattr(model, name), name
        if hasattr(model, name):
            before, after = getattr(model, name), getattr(again, name)
            assert type(after) is type(before), name
            a, b = np.asarray(before), np.asarray(after)
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            assert a.dtype == object or a.tobytes() == b.tobytes(), name
            assert a.tolist() == b.tolist(), name
    new = pandas.DataFrame(data(seed=2), columns=frame.columns) if named else data(seed=2)
    for method in ("predict", "score_samples", "predict_proba", "transform"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(new), getattr(model, method)(new))


def test_a_loaded_model_goes_on_warm_and_samples(tmp_path):
    model = GaussianMixture(3, warm_start=True, random_state=3, epsilon=None).fit(data())
    again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
    np.testing.assert_array_equal(again.sample(9)[0], model.sample(9)[0])
    np.testing.assert_array_equal(again.fit(data()).means_, model.fit(data()).means_)


def test_infinities_survive(tmp_path):
    model = GaussianMixture(2, max_iter=0, epsilon=None).fit(data())
    assert model.lower_bound_ == -np.inf
    assert privem.load(model.save(tmp_path / "m") and tmp_path / "m").lower_bound_ == -np.inf


def test_the_file_is_plain_json_and_holds_no_rows(tmp_path):
    path = tmp_path / "m.json"
    KMeans(3, epsilon=None).fit(data()).save(path)
    content = json.loads(path.read_text("utf-8"))
    assert content["format"] == "privem-model"
    assert "labels_" not in content["attributes"]
    assert path.read_text("utf-8").isascii()
    assert "pickle" not in (vars(store).keys() | set(sys.modules[store.__name__].__dict__))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.json"
    GaussianMixture(2, epsilon=None).fit(data()).save(path)
    return path


def refused(path, *words):
    with pytest.raises(ModelFileError) as error:
        privem.load(path)
    for word in (repr(str(path)), *words):
        assert word in str(error.value)


def test_a_truncated_file_is_refused_wherever_it_ends(saved):
    whole = saved.read_bytes()
    for size in [*range(0, len(whole) - 2, 97), len(whole) - 3, len(whole) - 2]:
        saved.write_bytes(whole[:size])
        refused(saved, "not valid JSON")


def test_any_changed_digit_is_noticed(saved):
    text = saved.read_text()
    digits = [i for i, c in enumerate(text) if c in "123456789"]
    for i in digits[:: len(digits) // 60]:
        changed = text[:i] + str(int(text[i]) % 9 + 1) + text[i + 1 :]
        if json.loads(changed) == json.loads(text):
            continue  # beyond the last digit that matters
        saved.write_text(changed)
        with pytest.raises(ModelFileError, match=r"damaged|version"):
            privem.load(saved)


def edited(path, seal=True, **changes):
    content = json.loads(path.read_text())
    content.update(changes)
    if seal:
        content["checksum"] = store._checksum(content)
    path.write_text(json.dumps(content))


def test_other_files_are_refused_with_the_reason(saved, tmp_path):
    whole = saved.read_text()
    edited(saved, seal=False, checksum="0" * 64)
    refused(saved, "damaged", "checksum")
    for text in ("[1, 2]", '{"a": 1}', "3", "null", '"privem-model"'):
        saved.write_text(text)
        refused(saved, "JSON of another kind")
    for text in ("", "hello", "{'a': 1}", whole + "x"):
        saved.write_text(text)
        refused(saved, "not valid JSON")
    saved.write_bytes(np.random.default_rng(0).bytes(500))
    refused(saved, "not valid JSON")
    saved.write_bytes(b"\x80\x04\x95" + b"\0" * 20)  # how a pickle begins
    refused(saved, "not valid JSON")
    refused(tmp_path, "folder")
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        privem.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 5}, ["version 5", "upgrade privem"]),
        ({"version": "1"}, ["version '1'"]),
        ({"version": None}, ["version None"]),
        ({"kind": "Oracle"}, ["unknown kind 'Oracle'"]),
        ({"kind": "KMeans"}, ["damaged"]),
        ({"parameters": {"n_components": 2, "evil": 1}}, ["damaged", "evil"]),
        ({"parameters": [1]}, ["damaged"]),
        ({"attributes": {}}, ["damaged", "lacks n_features_in_"]),
        ({"attributes": {"fit": 1}}, ["damaged", "unexpected attribute 'fit'"]),
        ({"attributes": {"means_": {"array": [1], "shape": [2], "dtype": "float64"}}}, ["damaged"]),
        (
            {"attributes": {"means_": {"array": ["x"], "shape": [1], "dtype": "float64"}}},
            ["damaged"],
        ),
        ({"attributes": {"means_": {"code": "exec"}}}, ["damaged", "code"]),
    ],
)
def test_a_sealed_file_with_nonsense_is_refused(saved, changes, words):
    edited(saved, **changes)
    refused(saved, *words)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5000, '{"format": "privem-model", "version": 1, "x": NaN}']
)
def test_hostile_json_is_refused(saved, text):
    saved.write_text(text)
    refused(saved)


def test_what_cannot_be_written_is_said_and_the_earlier_file_stays(saved):
    before = saved.read_bytes()
    model = KMeans(2, init=lambda X, n_clusters, random_state: X[:n_clusters], epsilon=None).fit(
        data()
    )
    with pytest.raises(TypeError, match=r"init=.* cannot be written to a model file"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_full_disk_leaves_the_earlier_file_and_no_litter(saved):
    """The write fails half way: a limit on the size of files stands in for a full disk."""
    before = saved.read_bytes()
    script = f"""
        import resource, signal
        import numpy as np
        from privem import GaussianMixture
        rows = np.random.default_rng(0).normal(size=(50, 30))
        model = GaussianMixture(2, epsilon=None).fit(rows)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        try:
            model.save({str(saved)!r})
        except OSError as error:
            print("refused:", error.strerror)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "refused: File too large\n"
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]
    privem.load(saved)


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    model = KMeans(2, epsilon=None).fit(data())
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "absent" / "m.json")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        model.save(tmp_path / "file" / "m.json")
    with pytest.raises(OSError, match="not a regular file"):
        model.save(tmp_path)
    assert os.listdir(tmp_path) == ["file"]
    if os.geteuid() != 0:  # root may write anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError):
            model.save(tmp_path / "m.json")


def test_a_saved_file_has_the_usual_permissions(saved, tmp_path):
    (tmp_path / "other").write_text("x")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_unfinished_fits_are_saved_too(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model = GaussianMixture(3, max_iter=1, tol=0, epsilon=None).fit(data())
    assert not privem.load(model.save(tmp_path / "m") and tmp_path / "m").converged_
