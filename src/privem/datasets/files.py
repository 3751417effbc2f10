"""Where files of public data are: in a folder of the user's, in a cache, or at their source."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ..files import write_whole

FOLDER = "PRIVEM_DATA"
_TIMEOUT = 30.0
_CHUNK = 1 << 16


class DataNotFound(FileNotFoundError):
    """A data set is not here and could not be fetched; the message says how to get it.

    Examples
    --------
    >>> raise DataNotFound("no adult.data")
    Traceback (most recent call last):
        ...
    privem.datasets.files.DataNotFound: no adult.data
    """


@dataclass(frozen=True)
class File:
    """A file of a public data set.

    Parameters
    ----------
    name : str
        As it is called in the user's folder, where ``.gz`` may be added, and in the cache.
    how : str
        Where it is from and how to get it, for the message if it is missing.
    url : str, optional
        Its original source, if it can be fetched and is known by its checksum.
    sha256 : str
        Of what lies there.
    size : int
        In bytes: no more is read.
    """

    name: str
    how: str
    url: str | None = None
    sha256: str = ""
    size: int = 0

    def read(self, download: bool = True) -> bytes:
        """Its content, unpacked."""
        path = self.path(download)
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content

    def path(self, download: bool = True) -> Path:
        """Where it is, after it was fetched if it had to be."""
        folder = os.environ.get(FOLDER)
        places = [Path(folder)] if folder else []
        names = (self.name, self.name if self.name.endswith(".gz") else f"{self.name}.gz")
        for path in (place / name for place in (*places, cache()) for name in names):
            if path.is_file() and not self._spoilt(path):
                return path
        if self.url is None or not download:
            raise self._missing("it is not fetched" if self.url else "")
        return self._fetch(self.url)

    def _spoilt(self, path: Path) -> bool:
        """Whether it was fetched, and is not what it was then."""
        fetched = bool(self.sha256) and path == cache() / self.name
        return fetched and hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256

    def _fetch(self, url: str) -> Path:
        """From its source to the cache, if it is what it should be."""
        content = b""
        try:
            with urlopen(Request(url, headers={"User-Agent": "privem"}), timeout=_TIMEOUT) as reply:
                while len(content) <= self.size and (more := reply.read(_CHUNK)):
                    content += more
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            raise self._missing(f"{url} could not be read ({error})") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise self._missing(f"{url} is not what it was: its SHA-256 is another")
        target = cache() / self.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(target) as temporary:
            temporary.write_bytes(content)
        return target

    def _missing(self, why: str) -> DataNotFound:
        said = f"{self.name} is not in the folder that {FOLDER} names, nor in {str(cache())!r}"
        return DataNotFound(f"{said}{'; ' if why else ''}{why}. {self.how}")


def cache() -> Path:
    """The folder of files that were fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "privem"
