"""The demonstration, small."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest

import privem
from privem.demo import Clock, _per_iteration, run_demo
from privem.report import CannotWrite


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("demo") / "new" / "folder", rows=3000)


def test_files_hold_what_they_say(demo):
    people = pl.read_parquet(demo.files["people"])
    synthetic = pl.read_parquet(demo.files["synthetic"])
    assert people.shape == synthetic.shape == (3000, 6)
    assert people.columns == synthetic.columns
    spread = people.to_numpy().std(axis=0)
    gap = np.abs(people.to_numpy().mean(axis=0) - synthetic.to_numpy().mean(axis=0)) / spread
    # Each mean of 3000 draws is off by 1/sqrt(3000); 6 such is 0.11 (false alarms below 1e-8).
    assert (gap < 0.16).all()
    model = privem.load(demo.files["model"])
    np.testing.assert_array_equal(model.means_, demo.model.means_)
    assert sorted(p.name for p in demo.files["model"].parent.iterdir()) == [
        "demo.png",
        "model.json",
        "people.parquet",
        "synthetic.parquet",
    ]


def test_synthetic_rows_are_not_sorted_by_component(demo):
    labels = demo.model.predict(demo.files["synthetic"])
    assert len(set(labels[:100])) >= 4


def test_both_libraries_take_the_same_way(demo):
    assert demo.privem.iterations == demo.peer.iterations > 1
    assert demo.difference < 1e-8
    assert demo.privem.log_likelihood == pytest.approx(demo.peer.log_likelihood, rel=1e-9)
    assert demo.held_out_score > demo.single + 0.5
    for measured in (demo.privem, demo.peer):
        for clock in (measured.whole, measured.per_iteration, measured.per_iteration_threaded):
            assert clock.wall > 0
            assert clock.cpu > 0


def test_the_picture_is_a_picture(demo):
    image = pytest.importorskip("matplotlib.image")
    pixels = image.imread(demo.files["picture"])
    height, width = pixels.shape[:2]
    assert height > 800
    assert width > 1200
    grey = pixels[..., :3].mean(axis=2)
    # Six panels: each ninth or so of the page has ink of many shades, and there is white between.
    for rows in (slice(0, height // 2), slice(height // 2, height)):
        for column in range(3):
            panel = grey[rows, column * width // 3 : (column + 1) * width // 3]
            assert 0.02 < (panel < 0.9).mean() < 0.9
            assert len(np.unique(panel.round(2))) > 30
    # Every component's colour is there.
    from privem.report.pairs import _COLOURS

    for colour in _COLOURS[:5]:
        wanted = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        assert (np.abs(pixels[..., :3] - wanted).max(axis=2) < 0.02).sum() > 100


def test_without_matplotlib_all_but_the_picture(tmp_path, monkeypatch):
    for name in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    demo = run_demo(tmp_path, rows=300)
    assert demo.remark == (
        'no picture: matplotlib is not installed; for pictures: pip install "privem[plot]"'
    )
    assert set(demo.files) == {"people", "model", "synthetic"}
    assert all(path.stat().st_size > 0 for path in demo.files.values())
    assert not (tmp_path / "demo.png").exists()


def test_progress_names_every_step(tmp_path):
    said = []
    run_demo(tmp_path, rows=300, say=said.append)
    text = "".join(said)
    assert "make 300 people ..." in text
    assert "scikit-learn" in text
    assert text.count(" s\n") == 7


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CannotWrite, match="file"):
        run_demo(tmp_path / "file" / "demo", rows=300)
    assert (tmp_path / "file").read_text() == "in the way"


def test_time_of_an_iteration_is_a_difference():
    each = _per_iteration(Clock(7.0, 13.0), Clock(2.0, 3.0), 6)
    assert (each.wall, each.cpu) == (1.0, 2.0)
    # A clock too coarse to see it must not give zero or less.
    assert _per_iteration(Clock(1.0, 0.0), Clock(2.0, 0.0), 6).wall > 0
    assert _per_iteration(Clock(1.0, 0.0), Clock(2.0, 0.0), 6).cpu > 0
