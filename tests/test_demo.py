"""The demonstration, small."""

from __future__ import annotations

import re
import sys
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import privem
from privem.datasets import make_people
from privem.demo import run_demo
from privem.report import draw_pairs


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("demo") / "new" / "folder", rows=3000)


def test_files_hold_what_they_say(demo):
    people = pl.read_parquet(demo.files["people"])
    synthetic = pl.read_parquet(demo.files["synthetic"])
    assert people.shape == synthetic.shape == (3000, 6)
    assert people.columns == synthetic.columns
    low, high = demo.model.bounds_
    assert (synthetic.to_numpy() >= low).all()
    assert (synthetic.to_numpy() <= high).all()
    model = privem.load(demo.files["model"])
    np.testing.assert_array_equal(model.means_, demo.model.means_)
    assert sorted(p.name for p in demo.files["model"].parent.iterdir()) == [
        "demo.png",
        "model.json",
        "people.parquet",
        "synthetic-table.parquet",
        "synthetic.parquet",
        "table.parquet",
        "table.png",
    ]


def test_the_synthetic_table_is_like_the_table(demo):
    one, other = (pl.read_parquet(demo.files[name]) for name in ("table", "synthetic_table"))
    assert one.schema == other.schema
    assert (other["years_employed"] <= other["age"]).all()
    assert 0 < other["income_k"].null_count() < 1500
    # Far less than between independent draws of nothing: these are sums over the people themselves.
    assert 0 < demo.columns < 0.3
    assert 0 < demo.pairs < 0.5
    assert demo.table.privacy_.epsilon == 1.0


def test_synthetic_rows_are_not_sorted_by_component(demo):
    labels = demo.model.predict(demo.files["synthetic"])
    assert len(set(labels[:100])) >= 4


def test_the_model_is_private_and_says_so(demo):
    statement = privem.load(demo.files["model"]).privacy_
    assert (statement.epsilon, statement.delta) == (1.0, 1e-6)
    assert statement.recount() <= 1.0
    # The bounds are plausible limits, not the data's.
    people = pl.read_parquet(demo.files["people"]).to_numpy()
    low, high = demo.model.bounds_
    assert (low < people.min(axis=0)).all()
    assert (high > people.max(axis=0)).all()
    assert not hasattr(demo.model, "lower_bound_")


def test_the_scores_are_of_people_no_fit_has_seen(demo):
    others = make_people(600, 1)
    assert demo.held_out == 600
    assert demo.private == pytest.approx(privem.load(demo.files["model"]).score(others))
    people = pl.read_parquet(demo.files["people"])
    exact = privem.GaussianMixture(5, max_iter=100, epsilon=None).fit(people)
    assert demo.exact == pytest.approx(exact.score(others))
    # One Gaussian, exact or not, is far from five.
    assert demo.exact > demo.single + 0.5


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
    from privem.report.shapes import COLOURS

    for colour in COLOURS[:5]:
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
    assert set(demo.files) == {"people", "model", "synthetic", "table", "synthetic_table"}
    assert all(path.stat().st_size > 0 for path in demo.files.values())
    assert not list(tmp_path.glob("*.png"))


def test_progress_names_every_step(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEM_LEDGER", "lost.db")  # people who do not exist need no budget
    said = []
    run_demo(tmp_path, rows=300, say=said.append)
    text = "".join(said)
    assert "make 300 people who do not exist ..." in text
    assert "with epsilon 1" in text
    assert "single Gaussian" in text
    assert text.count(" s\n") == 8


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        run_demo(tmp_path / "file" / "demo", rows=300)
    assert (tmp_path / "file").read_text() == "in the way"


def test_every_panel_says_what_it_shows(demo, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **more: figures.append(self))
    columns = pl.read_parquet(demo.files["people"]).to_dict(as_series=False)
    real = {name: np.asarray(values) for name, values in columns.items()}
    pairs = [("age", "income_k"), ("age", "systolic_bp")]
    with suppress(OSError):
        draw_pairs(tmp_path / "x.png", demo.model, real, real, pairs, labels={"age": "age, years"})
    titles = [axes.get_title("left") for axes in figures[0].axes]
    first = r"3,000 records, and the 5 components fitted to them with epsilon 1"
    heads = [text.get_text() for text in figures[0].axes[0].texts]
    assert any(re.fullmatch(rf"{first} \(and a background of 0\.\d+\)", head) for head in heads)
    assert titles[0] == "\nincome_k by age"
    assert titles[1] == "\nsystolic_bp by age"
    assert figures[0].axes[2].texts[0].get_text() == "3,000 records drawn from the private model"
    assert all(axes.get_xlabel() == "age, years" for axes in figures[0].axes)
