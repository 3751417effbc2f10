"""The bytes that parties and server exchange: versioned, canonical, checked before use.

A message is::

    b"PVEM" | version, 1 byte | header length, 4 bytes little-endian | header | arrays

The header is canonical JSON (ASCII, sorted keys, no spaces): ``{"arrays": [[dtype, shape], ...],
"body": ..., "kind": ...}``. Arrays follow in that order, raw and little-endian: ``<f8``, ``<i8``,
``<u8``, or ``bytes`` of shape ``[length]``. In the body ``{"#": i}`` stands for array i, ``{"@":
name, "fields": {...}}`` for a public value (:mod:`privem.federation.wire.queries`),
``{"=": {...}}`` for a mapping; lists are tuples; numbers, strings, true, false and null are
themselves. Doubles survive exactly.

Decoding refuses whatever encoding would not have produced: another version, another spelling of
the header, unknown dtypes, numbers that are not finite, arrays unused or used twice, trailing or
missing bytes, and messages or headers above a size. There is no pickle, and no code travels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

MAGIC = b"PVEM"
# Of messages, states, journals and agreements alike: no version reads what another wrote.
VERSION = 2
MAX_BYTES = 2**26
# Of the header: a byte of JSON takes a hundred in memory, a byte of an array one.
MAX_HEADER = 2**20
_MAX_DEPTH = 12
_DTYPES = ("<f8", "<i8", "<u8")

Pack = Callable[[Any], "tuple[str, dict[str, Any]] | None"]
Build = Callable[[str, "dict[str, Any]"], Any]


class BadMessage(ValueError):
    """Bytes that are not a message of this format. The error does not show them."""


def of_another_version(found: Any) -> str:
    """Why something of another version is not read, in words."""
    text = f"of privem's federation format {found!s:.20}, and this version reads {VERSION}"
    if found == 1:
        text += (
            ". In format 1 'ckks' was the name of what is 'encrypted' now, and 'ckks' now is the "
            "scheme of Abu Hussein and Rodel (2023), which protects less: so nothing of format 1 "
            "is taken over. Found the federation anew; what a party has spent before stays spent"
        )
    return text


def encode(kind: str, body: Any, pack: Pack | None = None) -> bytes:
    """A message of some kind.

    ``pack`` takes a public value apart into its name and fields; it returns ``None`` for what it
    does not know.

    Examples
    --------
    >>> decode(encode("greeting", {"x": np.array([1.5, 2.0]), "n": 3}))
    ('greeting', {'n': 3, 'x': array([1.5, 2. ])})
    """
    arrays: list[tuple[str, list[int]]] = []
    raw: list[bytes] = []
    plain = _to_plain(body, arrays, raw, pack)
    header = _canonical({"kind": kind, "body": plain, "arrays": arrays})
    return b"".join([MAGIC, bytes([VERSION]), len(header).to_bytes(4, "little"), header, *raw])


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


# Made once: json.dumps and json.loads make new ones in every call.
_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_READER = json.JSONDecoder(parse_constant=_refuse_constant)


def _canonical(value: Any) -> bytes:
    return _WRITER.encode(value).encode("ascii")


def _to_plain(
    value: Any, arrays: list[tuple[str, list[int]]], raw: list[bytes], pack: Pack | None
) -> Any:
    def inner(part: Any) -> Any:
        return _to_plain(part, arrays, raw, pack)

    # Tuples of types: a union takes three times as long, for every part of every message.
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        arrays.append(("bytes", [len(value)]))
        raw.append(value)
        return {"#": len(arrays) - 1}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise TypeError(f"arrays of dtype {array.dtype} are not part of the message format")
        arrays.append((dtype, list(array.shape)))
        raw.append(np.ascontiguousarray(array.astype(dtype, copy=False)).tobytes())
        return {"#": len(arrays) - 1}
    if isinstance(value, (tuple, list)):
        return [inner(part) for part in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("mappings in messages have strings for keys")
        return {"=": {key: inner(value[key]) for key in sorted(value)}}
    packed = pack(value) if pack is not None else None
    if packed is None:
        raise TypeError(f"{type(value).__name__} is not part of the message format")
    name, fields = packed
    return {"@": name, "fields": {key: inner(part) for key, part in fields.items()}}


def decode(message: bytes, build: Build | None = None, own: bool = False) -> tuple[str, Any]:
    """The kind and body of a message; raises :class:`BadMessage`.

    ``build`` makes a public value from its name and fields, or raises. ``own``: the caller wrote
    the bytes itself, so they may be of any size.
    """
    if len(message) > MAX_BYTES and not own:
        raise BadMessage(f"the message is larger than {MAX_BYTES} bytes")
    if len(message) < 9 or message[:4] != MAGIC:
        raise BadMessage("the message does not begin as a message of privem")
    if message[4] != VERSION:
        raise BadMessage(f"this is {of_another_version(message[4])}")
    end = 9 + int.from_bytes(message[5:9], "little")
    if end > 9 + MAX_HEADER and not own:
        raise BadMessage(f"the message's header is larger than {MAX_HEADER} bytes")
    header = message[9:end]
    try:
        values = _READER.decode(header.decode("ascii"))
        if _canonical(values) != header or sorted(values) != ["arrays", "body", "kind"]:
            raise ValueError
        specs = [(dtype, shape) for dtype, shape in values["arrays"]]
        for _, shape in specs:
            if type(shape) is not list or any(type(n) is not int for n in shape):
                raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise BadMessage("the message's header is malformed") from None
    arrays = _read_arrays(message, end, specs)
    used: list[int] = []
    body = _from_plain(values["body"], arrays, used, build, _MAX_DEPTH)
    if sorted(used) != list(range(len(arrays))) or not isinstance(values["kind"], str):
        raise BadMessage("the message's arrays do not match its body")
    return values["kind"], body


def _read_arrays(message: bytes, at: int, specs: list[tuple[str, list[int]]]) -> list[Any]:
    found: list[Any] = []
    for dtype, shape in specs:
        if dtype not in (*_DTYPES, "bytes") or any(n < 0 for n in shape) or len(shape) > 4:
            raise BadMessage("the message holds an array of an unknown kind")
        size = math.prod(shape) * (1 if dtype == "bytes" else 8)
        if at + size > len(message):
            raise BadMessage("the message is truncated")
        part = message[at : at + size]
        at += size
        if dtype == "bytes":
            if len(shape) != 1:
                raise BadMessage("the message holds an array of an unknown kind")
            found.append(part)
            continue
        try:
            array = np.frombuffer(part, dtype=dtype).reshape(shape)
        except (ValueError, OverflowError):
            raise BadMessage("the message holds an array of an unknown kind") from None
        if dtype == "<f8" and not np.isfinite(array).all():
            raise BadMessage("the message holds numbers that are not finite")
        found.append(array)
    if at != len(message):
        raise BadMessage("the message has bytes after its end")
    return found


def _from_plain(
    value: Any, arrays: list[Any], used: list[int], build: Build | None, depth: int
) -> Any:
    if depth == 0:
        raise BadMessage("the message is nested too deeply")

    def inner(part: Any) -> Any:
        return _from_plain(part, arrays, used, build, depth - 1)

    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, list):
        return tuple(inner(part) for part in value)
    # What is left is a dict. Not a match statement, which takes twice as long for every part.
    index, parts, name = value.get("#"), value.get("="), value.get("@")
    if len(value) == 1 and type(index) is int and 0 <= index < len(arrays):
        used.append(index)
        return arrays[index]
    if len(value) == 1 and isinstance(parts, dict):
        return {key: inner(part) for key, part in parts.items()}
    fields = value.get("fields")
    if len(value) == 2 and isinstance(name, str) and isinstance(fields, dict) and build is not None:
        return build(name, {key: inner(part) for key, part in fields.items()})
    raise BadMessage("the message's body is malformed")
