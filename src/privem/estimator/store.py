"""Models as JSON files: versioned, checked, never pickled."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..declaration import declarations
from ..em import Stream
from ..files import write_whole
from ..meter import Statement
from ..schema import Schema

_FORMAT = "privem-model"
# 1: at first. 2: with the types of the columns, which older models lack. 3: with backgrounds and
# standard errors. 4: with the entry in a ledger, and what a selection chose from, if there are any.
_VERSION = 4
# What older files lack, and what it would have been.
_SINCE = {"background_weight_": 0.0}
# What estimators have beside what they need: of the columns, of an exact fit, of a private one.
_COMMON = (
    *("n_features_in_", "feature_names_in_", "feature_types_in_", "target_name_in_"),
    *("n_iter_", "converged_", "lower_bound_", "lower_bounds_", "inertia_", "loglike_"),
    *("privacy_", "bounds_", "target_bounds_", "outside_", "structure_", "missing_probability_"),
    *("_uncertainty", "selection_", "_stream"),
)


class ModelFileError(ValueError):
    """A file that is not a model this version can read."""


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator's parameters and saved attributes."""
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": type(estimator).__name__,
        "parameters": {
            name: _encode(name, value) for name, value in estimator._saved_parameters().items()
        },
        "attributes": {
            name: _encode(name, getattr(estimator, name))
            for name in (*estimator._needed, *_COMMON)
            if hasattr(estimator, name) and not (name == "_stream" and _goes_private(estimator))
        },
    }
    content["checksum"] = _checksum(content)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _goes_private(estimator: Any) -> bool:
    """Whether the next fit is to be private: then no stream goes on, and its exact sums stay."""
    return getattr(estimator, "epsilon", None) is not None


def _checksum(content: dict[str, Any]) -> str:
    body = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(name: str, value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case np.bool_():
            return bool(value)
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        case np.ndarray():
            kind = "object" if value.dtype.kind == "O" else value.dtype.name
            return {"array": value.tolist(), "shape": list(value.shape), "dtype": kind}
        case Statement():
            return {"statement": value.to_dict()}
        case Stream():
            return {"stream": _encode(name, value.to_dict())}
        case Schema():
            return {"schema": json.dumps(value.to_dict(), allow_nan=False)}
        case dict():
            return {"mapping": [[_encode(name, k), _encode(name, v)] for k, v in value.items()]}
        case list() | tuple():
            return [_encode(name, item) for item in value]
        case np.random.RandomState() | np.random.Generator():
            return None  # A generator's position is not part of the model.
    raise TypeError(f"{name}={value!r} cannot be written to a model file")


def _decode(value: Any) -> Any:
    match value:
        case {"array": data, "shape": shape, "dtype": dtype}:
            return np.array(data, dtype=dtype).reshape(shape)
        case {"float": text}:
            return float(text)
        case {"statement": fields}:
            return Statement.from_dict(fields)
        case {"stream": fields}:
            return Stream.from_dict(_decode(fields))
        case {"schema": text}:
            return Schema.from_dict(json.loads(text))
        case {"mapping": pairs}:
            return {_decode(key): _decode(item) for key, item in pairs}
        case list():
            return [_decode(item) for item in value]
        case dict():
            raise ModelFileError(f"unexpected entry with keys {sorted(value)}")
    return value


def _check_columns(estimator: Any) -> None:
    """Types name what to convert to, and bounds what to clip to: they must be what they say."""
    count = estimator.n_features_in_
    types = getattr(estimator, "feature_types_in_", None)
    known = estimator._column_types
    if types is not None and not (
        isinstance(types, list) and len(types) == count and all(kind in known for kind in types)
    ):
        raise ModelFileError(f"feature_types_in_ is not {count} column types")
    bounds = getattr(estimator, "bounds_", None)
    if bounds is not None:
        low, high = bounds
        if np.shape(low) != (count,) or np.shape(high) != (count,) or not (low <= high).all():
            raise ModelFileError(f"bounds_ are not {count} lower and upper bounds")
    if hasattr(estimator, "privacy_") and hasattr(estimator, "_stream"):
        raise ModelFileError("it has a privacy statement beside the exact sums of a stream")
    if not isinstance(getattr(estimator, "_uncertainty", {}), dict):
        raise ModelFileError("_uncertainty is no mapping")
    _check_selection(getattr(estimator, "selection_", None))
    weight = getattr(estimator, "background_weight_", 0.0)
    if weight != 0 and not (0 < weight < 1 and bounds is not None and (low < high).all()):
        raise ModelFileError(f"background_weight_={weight!r} is no weight of a density on bounds_")


# What a model that was chosen says of each candidate (:class:`privem.selection.result.Outcome`).
_TEXTS, _NUMBERS = ("name", "status", "how"), ("score", "deviation", "parameters")


def _check_selection(known: Any) -> None:
    """Pages and summaries print it: it must be texts and numbers."""
    if known is None:
        return
    each = known["candidates"]
    right = isinstance(each, list) and _is_number(known["difference_deviation"])
    for one in each:
        right &= set(one) == {*_TEXTS, *_NUMBERS} and all(isinstance(one[n], str) for n in _TEXTS)
        right &= all(_is_number(one[name]) for name in _NUMBERS)
    if not right:
        raise ModelFileError("selection_ is no list of candidates")


def _is_number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(value))


def _refuse(constant: str) -> None:
    """JSON has no NaN and no infinities; Python's reader would let them in."""
    raise ValueError(f"{constant} is not JSON")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by ``save``.

    Parameters
    ----------
    path : path-like
        The JSON file.

    Returns
    -------
    estimator
        A fitted estimator of the kind that was saved.

    Raises
    ------
    ModelFileError
        If the file is not a privem model, is damaged, or was written by a newer version.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import numpy as np, os, tempfile, privem
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> model = privem.GaussianMixture(n_components=2, epsilon=None).fit(X)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> bool(np.all(privem.load(model.save(path) and path).means_ == model.means_))
    True
    """
    kinds = {each.name: each for each in declarations()}
    where = repr(os.fspath(path))
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse)
    except IsADirectoryError:
        raise ModelFileError(f"{where} is a folder, not a model file") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or made to break us
        raise ModelFileError(f"{where} is not a privem model: not valid JSON ({error})") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ModelFileError(f"{where} is not a privem model: it is JSON of another kind")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= _VERSION:
        raise ModelFileError(
            f"{where} has format version {version!r}; this privem reads up to {_VERSION}: "
            "upgrade privem"
        )
    if content.get("checksum") != _checksum(content):
        raise ModelFileError(f"{where} is damaged: its checksum does not match its content")
    if content.get("kind") not in kinds:
        raise ModelFileError(f"{where} holds a model of unknown kind {content.get('kind')!r}")
    try:
        cls = kinds[content["kind"]].estimator
        estimator = cls(**{k: _decode(v) for k, v in content["parameters"].items()})
        since = {name: value for name, value in _SINCE.items() if name in cls._needed}
        for name, value in (since | content["attributes"]).items():
            if name not in (*cls._needed, *_COMMON):
                raise ModelFileError(f"unexpected attribute {name!r}")
            setattr(estimator, name, _decode(value))
        missing = [n for n in ("n_features_in_", *cls._needed) if not hasattr(estimator, n)]
        if missing:
            raise ModelFileError(f"it lacks {', '.join(missing)}")
        _check_columns(estimator)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{where} is damaged: {error}") from None
    return estimator
