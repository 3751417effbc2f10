"""The public data sets that the papers use, as they come; nothing is scaled.

A row is often no person. What privacy would protect is said of each.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .files import FOLDER, DataNotFound, File

Array = NDArray[np.float64]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_ADULT = (
    File(
        "adult.data",
        "Get it from the UCI Machine Learning Repository (Adult).",
        f"{_UCI}/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        3_974_305,
    ),
    File(
        "adult.test",
        "Get it from the UCI Machine Learning Repository (Adult).",
        f"{_UCI}/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        2_003_153,
    ),
)
_PARKINSONS = File(
    "parkinsons.data",
    "Get it from the UCI Machine Learning Repository (Parkinsons).",
    f"{_UCI}/parkinsons/parkinsons.data",
    "a36116c2deac07895b79ce97a2f99a1b3720ac4892995ff5c3b9ccb397ed2bc5",
    40_697,
)
_LIFE = File(
    "lifesci_ds1.10.csv.gz",
    "It is ds1.10 of Paul Komarek's data sets (http://komarix.org/ac/ds/): put it there as CSV, "
    "packed by gzip, without a header.",
)
_OLIVETTI = File(
    "olivetti_faces.npz",
    "Allow it to be fetched (download=True): scikit-learn does that.",
)
_GOWALLA = File(
    "gowalla_locations.npz",
    "It has latitudes and longitudes of places, as an array named rand_users_union_latlon. All of "
    "Gowalla is at https://snap.stanford.edu/data/loc-gowalla.html: see sample=False.",
)
_CHECKINS = File(
    "loc-gowalla_totalCheckins.txt.gz",
    "Get it from https://snap.stanford.edu/data/loc-gowalla.html.",
)

_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


def load_adult(*, download: bool = True) -> pl.DataFrame:
    r"""UCI Adult (Becker and Kohavi): 48,842 people of the census of 1994, a row each.

    Both files, the one for training first. The file for tests has a comment above and a dot after
    each label, which are left out; question marks are nulls.

    Parameters
    ----------
    download : bool, default=True
        Whether to fetch it if it is neither in the folder of ``PRIVEM_DATA`` nor in the cache.

    Returns
    -------
    polars.DataFrame
        Six columns of integers (``age``, ``fnlwgt``, ...), nine of texts; the last is ``income``.

    Raises
    ------
    DataNotFound
        If it is not here and could not be fetched.

    Examples
    --------
    >>> people = load_adult()  # doctest: +SKIP
    >>> people.drop_nulls().select("age", "hours-per-week").shape  # doctest: +SKIP
    (45222, 2)

    From your own folder (here a made-up file of the same form):

    >>> import tempfile
    >>> from unittest import mock
    >>> folder = Path(tempfile.mkdtemp())
    >>> ann = "39, State-gov, 77516, HS-grad, 9, Divorced, ?, Unmarried, White, Female, 0, 0, 40, ?"
    >>> _ = (folder / "adult.data").write_text(f"{ann}, <=50K\n")
    >>> _ = (folder / "adult.test").write_text(f"|1x3 Cross validator\n{ann}, >50K.\n")
    >>> with mock.patch.dict(os.environ, PRIVEM_DATA=str(folder)):
    ...     load_adult()["income"].to_list()
    ['<=50K', '>50K']
    """
    rows = []
    for file in _ADULT:
        for line in file.read(download).decode("ascii").splitlines():
            fields = [None if field == "?" else field for field in line.rstrip(".").split(", ")]
            if len(fields) == len(_ADULT_COLUMNS):
                rows.append(fields)
    frame = pl.DataFrame(rows, schema=dict.fromkeys(_ADULT_COLUMNS, pl.String), orient="row")
    return frame.with_columns(pl.col(*_NUMBERS).cast(pl.Int64))


def load_parkinsons(*, download: bool = True) -> pl.DataFrame:
    r"""UCI Parkinsons (Little and others): 195 recordings of 31 people, six or seven of each.

    Parameters
    ----------
    download : bool, default=True
        As in :func:`load_adult`.

    Returns
    -------
    polars.DataFrame
        ``name`` (person and recording), 22 measures of the voice, and ``status`` (1: ill).

    Raises
    ------
    DataNotFound
        If it is not here and could not be fetched.

    Examples
    --------
    >>> load_parkinsons().drop("name", "status").shape  # doctest: +SKIP
    (195, 22)

    From your own folder (here a made-up file of the same form):

    >>> import tempfile
    >>> from unittest import mock
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "parkinsons.data").write_text("name,Jitter,status\nS01_1,1,1\nS01_2,2,1\n")
    >>> with mock.patch.dict(os.environ, PRIVEM_DATA=str(folder)):
    ...     load_parkinsons().shape
    (2, 3)
    """
    frame = pl.read_csv(io.BytesIO(_PARKINSONS.read(download)))
    return frame.with_columns(pl.exclude("name", "status").cast(pl.Float64))


def load_life_sciences() -> Array:
    """Life Sciences ds1.10 (Komarek): ten principal components of 26,733 compounds.

    The label is left out. There are no people in it. It cannot be fetched.

    Returns
    -------
    ndarray of shape (26733, 10)

    Raises
    ------
    DataNotFound
        If it is not in the folder of ``PRIVEM_DATA``.

    Examples
    --------
    >>> load_life_sciences().shape  # doctest: +SKIP
    (26733, 10)

    From your own folder (here a made-up file of the same form):

    >>> import tempfile
    >>> from unittest import mock
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savetxt(folder / "lifesci_ds1.10.csv.gz", np.zeros((3, 11)), delimiter=",")
    >>> with mock.patch.dict(os.environ, PRIVEM_DATA=str(folder)):
    ...     load_life_sciences().shape
    (3, 10)
    """
    return np.loadtxt(io.BytesIO(_LIFE.read()), delimiter=",")[:, :-1]


def load_olivetti(*, download: bool = True) -> Array:
    """The Olivetti faces: 400 pictures of 40 people, ten of each, 64 x 64 pixels.

    Parameters
    ----------
    download : bool, default=True
        Whether scikit-learn may fetch them, if they are not in the folder of ``PRIVEM_DATA``.

    Returns
    -------
    ndarray of shape (400, 4096)
        Between 0 and 1.

    Raises
    ------
    DataNotFound
        If they are not here and could not be fetched.

    Examples
    --------
    >>> load_olivetti().shape  # doctest: +SKIP
    (400, 4096)

    From your own folder (here a made-up file of the same form):

    >>> import tempfile
    >>> from unittest import mock
    >>> folder = Path(tempfile.mkdtemp())
    >>> faces = np.arange(2 * 64 * 64).reshape(2, 64, 64) % 256
    >>> np.savez(folder / "olivetti_faces.npz", images_u8=faces)
    >>> with mock.patch.dict(os.environ, PRIVEM_DATA=str(folder)):
    ...     load_olivetti().shape
    (2, 4096)
    """
    try:
        with np.load(_OLIVETTI.path()) as file:
            faces = file["images_u8"].reshape(len(file["images_u8"]), -1).astype(np.float32)
    except DataNotFound:
        if not download:
            raise
        from sklearn.datasets import fetch_olivetti_faces

        try:
            faces = fetch_olivetti_faces().data
        except OSError as error:
            raise DataNotFound(f"the Olivetti faces could not be fetched ({error})") from error
    faces = faces - faces.min()
    return np.asarray(faces / faces.max(), dtype=np.float64)


def load_gowalla(*, sample: bool = True) -> Array:
    """Gowalla: latitudes and longitudes of places where people checked in. It cannot be fetched.

    Parameters
    ----------
    sample : bool, default=True
        The 101,920 distinct places of a few thousand users. ``False``: the distinct places of all,
        from the file of check-ins of the Stanford Large Network Dataset Collection; a minute's
        work.

    Returns
    -------
    ndarray of shape (n, 2)
        Degrees. A row is a place, and no person.

    Raises
    ------
    DataNotFound
        If it is not in the folder of ``PRIVEM_DATA``.

    Examples
    --------
    >>> load_gowalla().shape  # doctest: +SKIP
    (101920, 2)

    From your own folder (here a made-up file of the same form):

    >>> import tempfile
    >>> from unittest import mock
    >>> folder = Path(tempfile.mkdtemp())
    >>> places = [[48.2, 16.4], [30.3, -97.7]]
    >>> np.savez(folder / "gowalla_locations.npz", rand_users_union_latlon=places)
    >>> with mock.patch.dict(os.environ, PRIVEM_DATA=str(folder)):
    ...     load_gowalla().shape
    (2, 2)
    """
    if sample:
        with np.load(_GOWALLA.path()) as file:
            return np.asarray(file["rand_users_union_latlon"], dtype=np.float64)
    frame = pl.read_csv(
        io.BytesIO(_CHECKINS.read()),
        separator="\t",
        has_header=False,
        new_columns=["user", "time", "latitude", "longitude", "place"],
    )
    places = frame.unique("place", maintain_order=True).select("latitude", "longitude")
    return places.to_numpy().astype(np.float64)


def load_ipums(columns: Sequence[str], path: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """Columns of your own extract of IPUMS; its terms forbid passing extracts on.

    Parameters
    ----------
    columns : sequence of str
        Names of columns, as ``["AGE", "INCTOT"]``.
    path : path-like, optional
        The extract, as CSV; ``ipums.csv`` or ``ipums.csv.gz`` in the folder of ``PRIVEM_DATA`` by
        default.

    Returns
    -------
    polars.DataFrame
        A row for each person.

    Raises
    ------
    DataNotFound
        If there is no such file.
    ValueError
        If it lacks a column.

    Examples
    --------
    >>> load_ipums(["AGE"], "nowhere.csv")
    Traceback (most recent call last):
        ...
    privem.datasets.files.DataNotFound: no extract of IPUMS at 'nowhere.csv'. Make one ...
    """
    how = (
        "Make one at https://usa.ipums.org (its terms forbid passing extracts on), as CSV, and "
        f"name it ipums.csv in the folder that {FOLDER} names"
    )
    if path is None:
        source = File("ipums.csv", f"{how}.").path()
    else:
        source = Path(path)
        if not source.is_file():
            raise DataNotFound(f"no extract of IPUMS at {os.fspath(path)!r}. {how}.")
    frame = pl.read_csv(source)
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise ValueError(f"{str(source)!r} has no columns {lacking}; it has {frame.columns}")
    return frame.select(columns)
