"""Looks for numbers in files: as eight bytes, as hexadecimal digits, as decimal text.

Numbers of few digits are passed over, for they are everywhere: integers below 2^20 or with sixteen
zeros at their end, doubles that are whole. Decimal text is found from twelve digits on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

_TEXT = re.compile(rb"-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d{7,}")
_CHUNK = 2**20


def telling(numbers: Iterable[np.ndarray]) -> np.ndarray:
    """Those of many digits, each once."""
    every = np.concatenate([np.ravel(n) for n in numbers])
    if every.dtype == np.int64:
        return np.unique(every[(np.abs(every) >= 2**20) & (every % 2**16 != 0)])
    return np.unique(every[np.rint(every) != every])


def _words(numbers: np.ndarray) -> np.ndarray:
    """As eight bytes, either end first; integers as doubles too."""
    both = [numbers] if numbers.dtype == np.float64 else [numbers, numbers.astype(np.float64)]
    raw = b"".join(n.astype(n.dtype.newbyteorder(end)).tobytes() for n in both for end in "<>")
    return np.unique(np.frombuffer(raw, np.uint64))


class Search:
    """Knows what to look for.

    Parameters
    ----------
    integers, doubles : iterables of arrays
    """

    def __init__(self, integers: Iterable[np.ndarray], doubles: Iterable[np.ndarray]) -> None:
        self.integers = telling([np.empty(0, np.int64), *integers])
        self.doubles = telling([np.empty(0), *doubles])
        self.words = np.union1d(_words(self.integers), _words(self.doubles))
        self.hex = {int(w).to_bytes(8, "little").hex().encode() for w in self.words}
        self.whole = {int(n) for n in self.integers}
        self.sizes = np.sort(np.abs(np.concatenate([self.doubles, self.integers.astype(float)])))

    def __len__(self) -> int:
        return len(self.integers) + len(self.doubles)

    def inside(self, content: bytes) -> int:
        """How many of the numbers' spellings are in some bytes."""
        return self._raw(content) + self._hex(content) + self._text(content)

    def files(self, paths: Iterable[Path]) -> dict[Path, int]:
        """The files that hold any, and how many."""
        found = {path: self.inside(path.read_bytes()) for path in paths}
        return {path: hits for path, hits in found.items() if hits}

    def _raw(self, content: bytes) -> int:
        hits = 0
        for start in range(0, len(content), _CHUNK):
            part = np.frombuffer(content[start : start + _CHUNK + 7], np.uint8)
            if part.size >= 8:
                every = np.lib.stride_tricks.sliding_window_view(part, 8)
                seen = np.ascontiguousarray(every).view(np.uint64)
                hits += int(np.isin(seen, self.words).sum())
        return hits

    def _hex(self, content: bytes) -> int:
        hits = 0
        for run in re.findall(rb"[0-9a-fA-F]{16,}", content):
            text = run.lower()
            hits += sum(text[at : at + 16] in self.hex for at in range(len(text) - 15))
        return hits

    def _text(self, content: bytes) -> int:
        hits = 0
        for token in _TEXT.findall(content):
            if b"." not in token:
                hits += int(token) in self.whole
            elif len(token.lstrip(b"-0.")) >= 12 and self.sizes.size:
                size = abs(float(token))
                near = self.sizes[np.searchsorted(self.sizes, size * (1 - 1e-12)) :][:1]
                hits += bool(near.size) and float(near[0]) <= size * (1 + 1e-12)
        return hits
