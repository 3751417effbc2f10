"""Loaders of public data: from a folder, or from a server with a checksum and a cache."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from privem.datasets import (
    DataNotFound,
    load_adult,
    load_gowalla,
    load_ipums,
    load_life_sciences,
    load_olivetti,
    load_parkinsons,
    real,
)
from privem.datasets.files import File, cache

TRAIN = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K\n"
    "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, "
    "0, 0, 60, South, >50K\n\n"
)
TEST = (
    "|1x3 Cross validator\n"
    "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, "
    "0, 0, 40, United-States, <=50K.\n\n"
)
# The folder of real data, before tests hide it.
REAL = os.environ.get("PRIVEM_DATA")
VOICES = "name,MDVP:Fo(Hz),status,PPE\nphon_R01_S01_1,119.99200,1,0.284654\nphon_2,120,0,1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's folder and cache, both empty; nothing is fetched from the real sources."""
    monkeypatch.setenv("PRIVEM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("_ADULT", "_PARKINSONS"):
        files = getattr(real, name)
        away = {"url": "http://127.0.0.1:9/nothing"}
        moved = (
            replace(files, **away)
            if isinstance(files, File)
            else tuple(replace(file, **away) for file in files)
        )
        monkeypatch.setattr(real, name, moved)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def server():
    """A web server on this machine: ``pages``, and what was asked for."""
    pages: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = pages.get(self.path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *words):
            pass

    link = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=link.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{link.server_port}", pages, asked
    link.shutdown()
    link.server_close()


def remote(url, content, **other):
    digest = hashlib.sha256(content).hexdigest()
    return File(
        "x.csv", "Ask somebody.", **{"url": url, "sha256": digest, "size": len(content), **other}
    )


def test_a_file_is_fetched_once(server):
    url, pages, asked = server
    pages["/x"] = content = b"1,2\n" * 50_000
    file = remote(f"{url}/x", content)
    assert file.read() == content
    assert file.read() == content
    assert asked == ["/x"]
    assert (cache() / "x.csv").read_bytes() == content


def test_what_was_changed_in_the_cache_is_fetched_again(server):
    url, pages, asked = server
    pages["/x"] = content = b"1,2\n"
    file = remote(f"{url}/x", content)
    file.read()
    (cache() / "x.csv").write_bytes(b"1,3\n")
    with pytest.raises(DataNotFound):
        file.read(download=False)
    assert file.read() == content
    assert asked == ["/x", "/x"]


def test_the_users_folder_goes_first_and_may_be_packed(server, folder):
    url, _, asked = server
    (folder / "x.csv.gz").write_bytes(gzip.compress(b"mine"))
    assert remote(f"{url}/x", b"theirs").read() == b"mine"
    assert asked == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (b"2,1\n", "its SHA-256 is another"),
        (b"1,2\n1,2\n" * 100_000, "its SHA-256 is another"),
        (None, "404"),
    ],
)
def test_what_is_not_as_it_should_be_is_not_kept(server, page, said):
    url, pages, _ = server
    if page is not None:
        pages["/x"] = page
    with pytest.raises(DataNotFound, match=said) as caught:
        remote(f"{url}/x", b"1,2\n").read()
    assert str(caught.value).endswith("Ask somebody.")
    assert "PRIVEM_DATA" in str(caught.value)
    assert not (cache() / "x.csv").exists()


def test_nothing_is_fetched_where_it_may_not_be_or_cannot(server):
    url, pages, asked = server
    pages["/x"] = b"1"
    with pytest.raises(DataNotFound, match="it is not fetched"):
        remote(f"{url}/x", b"1").read(download=False)
    with pytest.raises(DataNotFound, match=r"privem'\. Ask somebody"):
        remote(None, b"1").read()
    assert asked == []


def test_adult(folder):
    (folder / "adult.data.gz").write_bytes(gzip.compress(TRAIN.encode()))
    with pytest.raises(DataNotFound, match=r"adult\.test"):
        load_adult(download=False)
    (folder / "adult.test").write_text(TEST)
    people = load_adult()
    assert people.shape == (3, 15)
    assert people["age"].to_list() == [39, 54, 25]
    assert people["income"].to_list() == ["<=50K", ">50K", "<=50K"]
    assert people["workclass"].to_list() == ["State-gov", None, "Private"]
    assert people["capital-gain"].sum() == 2174
    assert people.drop_nulls().height == 2


def test_parkinsons(folder):
    with pytest.raises(DataNotFound, match="could not be read"):
        load_parkinsons()
    (folder / "parkinsons.data").write_text(VOICES)
    voices = load_parkinsons()
    assert voices.columns == ["name", "MDVP:Fo(Hz)", "status", "PPE"]
    assert voices["MDVP:Fo(Hz)"].to_list() == [119.992, 120.0]
    assert voices["PPE"].to_list() == [0.284654, 1.0]


def test_life_sciences(folder):
    with pytest.raises(DataNotFound, match="komarix"):
        load_life_sciences()
    content = b"-4.1,2.5,0\n1,-6e-1,1\n"
    (folder / "lifesci_ds1.10.csv.gz").write_bytes(gzip.compress(content))
    assert load_life_sciences().tolist() == [[-4.1, 2.5], [1.0, -0.6]]


def test_olivetti(folder, monkeypatch):
    with pytest.raises(DataNotFound, match="olivetti_faces"):
        load_olivetti(download=False)

    def fails():
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_olivetti_faces", fails)
    with pytest.raises(DataNotFound, match="no network"):
        load_olivetti()
    images = np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4) + 7
    np.savez(folder / "olivetti_faces.npz", images_u8=images, target=np.arange(3))
    faces = load_olivetti()
    assert (faces.shape, faces.dtype) == ((3, 16), np.float64)
    assert (faces[0, 0], faces[2, 15]) == (0.0, 1.0)


def test_gowalla(folder):
    with pytest.raises(DataNotFound, match="snap"):
        load_gowalla()
    with pytest.raises(DataNotFound, match="totalCheckins"):
        load_gowalla(sample=False)
    np.savez(folder / "gowalla_locations.npz", rand_users_union_latlon=[[1.5, 2.0]])
    assert load_gowalla().tolist() == [[1.5, 2.0]]
    lines = "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n7\t2010-10-18T22:17:43Z\t30.3\t-97.8\t4\n"
    lines += "3\t2010-10-17T23:42:03Z\t30.2\t-97.7\t22847\n"
    (folder / "loc-gowalla_totalCheckins.txt.gz").write_bytes(gzip.compress(lines.encode()))
    assert load_gowalla(sample=False).tolist() == [[30.2, -97.7], [30.3, -97.8]]


def test_ipums(folder, tmp_path):
    with pytest.raises(DataNotFound, match="terms forbid"):
        load_ipums(["AGE"])
    (folder / "ipums.csv").write_text("YEAR,AGE,SEX\n2000,40,1\n2000,7,2\n")
    assert load_ipums(["AGE"])["AGE"].to_list() == [40, 7]
    (tmp_path / "other.csv").write_text("AGE\n1\n")
    assert load_ipums(["AGE"], tmp_path / "other.csv").height == 1
    with pytest.raises(ValueError, match=r"no columns \['INCTOT'\]"):
        load_ipums(["INCTOT"])


def test_real_files_have_the_shapes_that_are_documented(monkeypatch, root):
    given = Path(REAL or root.parent / "shared" / "data")
    if not given.is_dir():
        pytest.skip("set PRIVEM_DATA to the folder of real data")
    monkeypatch.setenv("PRIVEM_DATA", str(given))
    assert load_adult(download=False).shape == (48_842, 15)
    assert load_adult(download=False).drop_nulls().height == 45_222
    assert load_parkinsons(download=False).shape == (195, 24)
    assert load_life_sciences().shape == (26_733, 10)
    assert load_olivetti(download=False).shape == (400, 4096)
    assert load_gowalla().shape == (101_920, 2)
